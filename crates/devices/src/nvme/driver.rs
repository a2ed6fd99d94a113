// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program that brings a controller up on the simulated host, and asks who it is.

use super::register;
use super::spec::{admin, cc, csts};
use super::{BAR, MAX_ENTRIES};
use crate::text;
use host::Cpu;
use host::firmware::FoundFunction;
use tlp::Duration;

/// How often readiness is looked for.
const LOOK: Duration = Duration::from_us(1);
const LOOKS: u32 = 1_000_000;
const ENTRIES: u32 = 32;

/// Enables the controller of each function, and identifies it.
///
/// # Errors
/// A line that says what failed.
pub(super) async fn driver(cpu: Cpu, functions: Vec<FoundFunction>) -> Result<(), String> {
    const { assert!(ENTRIES <= MAX_ENTRIES) };
    for function in functions {
        enable(&cpu, &function).await.map_err(|why| format!("{function}: {why}"))?;
    }
    Ok(())
}

async fn enable(cpu: &Cpu, function: &FoundFunction) -> Result<(), String> {
    let at = |register| function.address(BAR, register);
    let page = || cpu.memory().alloc(4096, 4096).map_err(text);
    let (submissions, completions, data) = (page()?, page()?, page()?);
    cpu.write_u32(at(register::AQA)?, (ENTRIES - 1) << 16 | (ENTRIES - 1)).await.map_err(text)?;
    cpu.write_u64(at(register::ASQ)?, submissions).await.map_err(text)?;
    cpu.write_u64(at(register::ACQ)?, completions).await.map_err(text)?;
    cpu.write_u32(at(register::CC)?, cc::EN | 4 << 20 | 6 << 16).await.map_err(text)?;
    let mut looks = 0..LOOKS;
    while cpu.read_u32(at(register::CSTS)?).await.map_err(text)? & csts::RDY == 0 {
        looks.next().ok_or("it does not become ready")?;
        cpu.sleep(LOOK).await;
    }
    let memory = cpu.memory();
    let command = [u64::from(admin::IDENTIFY), 0, 0, data, 0, 1, 0, 0].map(u64::to_le_bytes);
    memory.write(submissions, command.as_flattened()).map_err(text)?;
    cpu.write_u32(at(register::SQ0TDBL)?, 1).await.map_err(text)?;
    while memory.read_u32(completions + 12).map_err(text)? >> 16 & 1 == 0 {
        looks.next().ok_or("it does not say who it is")?;
        cpu.sleep(LOOK).await;
    }
    cpu.write_u32(at(register::CQ0HDBL)?, 1).await.map_err(text)?;
    match memory.read_u32(completions + 12).map_err(text)? >> 17 {
        0 => Ok(()),
        status => Err(format!("Identify ends with status {status:#x}")),
    }
}
