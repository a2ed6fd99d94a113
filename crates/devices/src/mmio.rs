// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host program that reads a register of a device again and again, one read at a time, and takes the time of each: how
//! gem5's PCI Express model measures a register access (IISWC'18, §VI-B, Table II). The register is a DW of a [`memory`]
//! device, which answers at once. Knows nothing of what is between it and the device.

use crate::memory;
use crate::shared::Shared;
use config::PcieLayout;
use device::BarIndex;
use device::cpu::Cpu;
use device::endpoint::FunctionConfig;
use device::firmware::FoundFunction;
use tlp::Duration;

/// Bytes of the BAR that the register is on.
const BAR_BYTES: u64 = 4096;
const BAR: BarIndex = BarIndex(0);

/// What the reads have shown.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// From the start of each read to its value, at the program.
    pub latencies: Vec<Duration>,
}

/// A device with registers, and its configuration space; `pcie` says what link it is on.
///
/// # Errors
/// Those of a [`memory`] device.
pub fn function(pcie: PcieLayout) -> Result<FunctionConfig, memory::SettingsError> {
    memory::function(memory::Settings { bar: BAR, size_bytes: BAR_BYTES }, pcie)
}

/// Reads a register of `bytes` bytes, 1 to 4096, `reads` times.
///
/// # Errors
/// A line that says what failed.
pub async fn driver(
    cpu: Cpu,
    function: FoundFunction,
    reads: u32,
    bytes: u32,
    report: Shared<Report>,
) -> Result<(), String> {
    let register = function.address(BAR, 0)?;
    for _ in 0..reads {
        let start = cpu.now();
        cpu.read(register, bytes).await.map_err(|e| format!("{function}: {e}"))?;
        report.change(|r| r.latencies.push(cpu.now().since(start)));
    }
    Ok(())
}
