// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The driver, which runs on the simulated host. The driver copies a pattern and checks every byte of the copy.

use crate::device::{BAR, CHECKSUM, DESTINATION, DONE, DOORBELL, LENGTH, SOURCE, STATUS};
use crate::model::Settings;
use host::Cpu;
use host::firmware::FoundFunction;
use std::error::Error;

/// Drives the physical function and its virtual functions, one after another.
pub(crate) async fn driver(
    cpu: Cpu,
    functions: Vec<FoundFunction>,
    settings: Settings,
) -> Result<(), String> {
    for function in functions {
        drive(&cpu, &function, &settings).await.map_err(|e| format!("{function}: {e}"))?;
    }
    Ok(())
}

async fn drive(cpu: &Cpu, function: &FoundFunction, settings: &Settings) -> Result<(), Box<dyn Error>> {
    let (register, length) = (|offset| function.address(BAR, offset), settings.copy_bytes);
    let source = cpu.memory().alloc(length.into(), 4096)?;
    let destination = cpu.memory().alloc(length.into(), 4096)?;
    cpu.write_u64(register(SOURCE)?, source).await?;
    cpu.write_u64(register(DESTINATION)?, destination).await?;
    cpu.write_u32(register(LENGTH)?, length).await?;
    for copy in 0..settings.copies {
        let pattern: Vec<u8> = (0..length).map(|n| (n * 7 + n / 256 + copy) as u8).collect();
        cpu.memory().write(source, &pattern)?;
        cpu.write_u32(register(DOORBELL)?, 1).await?;
        cpu.interrupt(function.vector(DONE)).await;

        let mut copied = vec![0; length as usize];
        cpu.memory().read(destination, &mut copied)?;
        let failed = cpu.read_u32(register(STATUS)?).await? != 0;
        let sum = cpu.read_u32(register(CHECKSUM)?).await?;
        // During a measurement the device repeats the copy, so the sum does not match.
        let expected: u32 = pattern.iter().map(|byte| u32::from(*byte)).sum();
        if failed || copied != pattern || settings.measured.is_none() && sum != expected {
            return Err(format!("copy {copy} of {length} B failed or differs from its source").into());
        }
    }
    cpu.memory().free(source)?;
    cpu.memory().free(destination)?;
    Ok(())
}
