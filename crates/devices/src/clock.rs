// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A clock function: a register with the fabric's time, for programs that have no other access to it. A kernel in a
//! virtual machine has its own clock, which does not run with the fabric's time. User space can map BAR 0 and measure
//! with this clock instead.
//!
//! Registers, little-endian, in BAR 0; all are read-only:
//!
//! ```text
//! +0   u64  time      picoseconds since the start of the lab, when the read reaches the device
//! +8   u32  reads     reads of `time` so far
//! ```
//!
//! A read of 8 bytes returns all 64 bits of the time. A read of the lower half latches the upper half for the next read
//! of the upper half. So two reads of 4 bytes, lower half first, return the same instant.

use crate::{device_id, identity, registers_of};
use config::{Bar, Builder, PcieLayout};
use device::io::{Io, Request};
use device::{AsyncDevice, BarIndex, CompletionError};
use endpoint::FunctionConfig;
use host::DriverError;
use host::cpu::Cpu;
use host::firmware::FoundFunction;
use plug::{Fault, FunctionRegisters, Model, Plugged, Shared, Shown, Site, ns};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tlp::{Duration, Time};

/// Other system peripheral (PCI Code and ID Assignment Specification, §1.9).
const CLASS: u32 = 0x08_8000;
const BAR: BarIndex = BarIndex(0);
/// The BAR has a page, so that user space maps no other registers with it.
const BAR_BYTES: u64 = 4096;

registers! { Some(BAR.0);
    TIME 0 8, "time";
    READS 8 4, "reads";
}

/// A clock function with the fabric's time in a register. Its driver reads the register repeatedly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Number of times that the driver reads the time, one read after another.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub reads: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { reads: 100 }
    }
}

impl Model for Settings {
    const NAME: &'static str = "clock";
    const REGISTERS: &'static [FunctionRegisters] = &[registers_of(device_id::CLOCK, REGISTERS)];

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        self.check()?;
        let (reads, report) = (self.reads, Shared::<ClockReport>::default());
        let told = report.clone();
        let plugged =
            Plugged::new(function(site.pcie)?, move |cpu, found| driver(cpu, found, reads, told.clone()));
        Ok(plugged.reporting(&report))
    }
}

/// Results of the driver's reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClockReport {
    /// Number of reads.
    pub reads: u32,
    /// Time between the first and the last read at the device.
    pub spread: Duration,
}

impl plug::Report for ClockReport {
    fn shown(&self, _: Time) -> Shown {
        let gaps = self.reads.saturating_sub(1).max(1);
        Shown::new().with("reads", self.reads).with("read_to_read_ns_mean", ns(self.spread) / f64::from(gaps))
    }
}

/// Creates a clock and its configuration space for the link `pcie`.
///
/// # Errors
/// If the configuration space cannot be built.
pub fn function(pcie: PcieLayout) -> Result<FunctionConfig, Fault> {
    let config = Builder::type0(identity(device_id::CLOCK, CLASS))
        .bar(BAR, Bar::memory32(BAR_BYTES))
        .pcie(pcie)
        .usual()
        .build()?;
    Ok(FunctionConfig { config, device: Box::new(AsyncDevice::new(clock)) })
}

async fn clock(io: Io) {
    let (mut reads, mut upper) = (0_u32, None);
    while let Some(request) = io.next_request().await {
        // The clock has no writable registers. The seam ends other requests.
        let Request::Read(read) = request else { continue };
        let (offset, len) = (read.offset(), read.len());
        let now = io.now().as_ps();
        let mut registers = [0; 16];
        registers[..8].copy_from_slice(&now.to_le_bytes());
        if offset < register::READS {
            reads = reads.wrapping_add(1);
        }
        registers[register::READS as usize..][..4].copy_from_slice(&reads.to_le_bytes());
        match (offset, len) {
            (register::TIME, 4) => upper = Some(now.to_le_bytes()),
            (4, 4) => {
                let kept = upper.take().unwrap_or(now.to_le_bytes());
                registers[..8].copy_from_slice(&kept);
            }
            _ => {}
        }
        match (offset as usize).checked_add(len) {
            Some(end) if end as u64 <= BAR_BYTES => {
                let bytes: Vec<u8> =
                    (offset as usize..end).map(|at| registers.get(at).copied().unwrap_or_default()).collect();
                read.complete(bytes);
            }
            _ => read.fail(CompletionError::UnsupportedRequest),
        }
    }
}

/// Reads the time `reads` times.
///
/// # Errors
/// The read that failed, or a time that did not increase.
pub async fn driver(
    cpu: Cpu,
    function: FoundFunction,
    reads: u32,
    report: Shared<ClockReport>,
) -> Result<(), DriverError> {
    let address = function.address(BAR, register::TIME)?;
    let (mut first, mut last) = (None, 0);
    for n in 0..reads {
        let time = cpu.read_u64(address).await.map_err(|e| DriverError::from(e).at(function))?;
        if n > 0 && time <= last {
            return Err(format!("{function}: read {n} is {time} ps, expected more than {last}").into());
        }
        let first = *first.get_or_insert(time);
        last = time;
        report.change(|r| *r = ClockReport { reads: n + 1, spread: Duration::from_ps(time - first) });
    }
    Ok(())
}
