// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host program that reads a register of a device repeatedly, one read at a time, and measures each read. The study
//! with gem5 does the same (IISWC'18, §VI-B, Table II). The register is a DW of a [`memory`] device, which answers
//! immediately. The program does not know what is between it and the device.

use crate::memory;
use config::PcieLayout;
use device::BarIndex;
use endpoint::FunctionConfig;
use host::DriverError;
use host::cpu::Cpu;
use host::firmware::FoundFunction;
use plug::{Fault, Model, Plugged, Shared, Shown, Site, ns};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tlp::{Duration, Time};

/// Size of the BAR with the register in bytes.
const BAR_BYTES: u64 = 4096;
const BAR: BarIndex = BarIndex(0);

/// A register that the driver reads repeatedly, one read after another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Number of reads.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub reads: u32,
    /// Size of each read in bytes.
    #[schemars(range(min = 1, max = 4096))]
    pub bytes: u32,
    /// Time of each read outside PCI Express, in nanoseconds: in the processor, the buses above the root complex, and the
    /// device.
    #[serde(rename = "machine_ns", with = "plug::values::ns")]
    #[schemars(with = "u32", range(min = 0, max = 1_000_000_000))]
    pub machine: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { reads: 100, bytes: 4, machine: Duration::ZERO }
    }
}

impl Model for Settings {
    const NAME: &'static str = "mmio";

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let (settings, report) = (*self, Shared::<MmioReport>::default());
        let told = report.clone();
        let plugged =
            Plugged::new(function(site.pcie)?, move |cpu, found| driver(cpu, found, settings, told.clone()));
        Ok(plugged.reporting(&report))
    }
}

/// Results of the reads.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MmioReport {
    /// Time from the start of each read to its value, at the program.
    pub latencies: Vec<Duration>,
}

impl plug::Report for MmioReport {
    fn shown(&self, _: Time) -> Shown {
        let sum: u64 = self.latencies.iter().map(|d| d.as_ps()).sum();
        let ends = || self.latencies.iter().copied();
        Shown::new()
            .with("reads", self.latencies.len())
            .with("latency_ns_min", ends().min().map(ns))
            .with("latency_ns_mean", sum as f64 / 1_000.0 / self.latencies.len().max(1) as f64)
            .with("latency_ns_max", ends().max().map(ns))
    }
}

/// Creates a device with registers and its configuration space for the link `pcie`.
///
/// # Errors
/// Errors of a [`memory`] device.
pub fn function(pcie: PcieLayout) -> Result<FunctionConfig, Fault> {
    memory::function(memory::Settings { bar: BAR, size_bytes: BAR_BYTES, ..Default::default() }, pcie)
}

/// Reads a register by `settings`, one read at a time.
///
/// # Errors
/// The access that failed.
pub async fn driver(
    cpu: Cpu,
    function: FoundFunction,
    settings: Settings,
    report: Shared<MmioReport>,
) -> Result<(), DriverError> {
    let Settings { reads, bytes, machine } = settings;
    let register = function.address(BAR, 0)?;
    for _ in 0..reads {
        let start = cpu.now();
        cpu.sleep(machine).await;
        cpu.read(register, bytes).await.map_err(|e| DriverError::from(e).at(function))?;
        report.change(|r| r.latencies.push(cpu.now().since(start)));
    }
    Ok(())
}
