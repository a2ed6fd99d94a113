// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The disk of gem5's PCI Express model (IISWC'18, §VI-A), and a driver that reads from it. Each sector of 4 KiB is read after a
//! constant access latency, and written to host memory in requests of one cache line.
//!
//! Registers, little-endian, in BAR 0:
//!
//! ```text
//! +0   u64  buffer    bus address of the buffer, which is reused; with descriptors, bus address of their table
//! +8   u32  sectors   number of sectors to read
//! +12  u32  control   writing 1 starts
//! +16  u32  status    0 idle, 1 running, 2 done, 3 failed
//! ```
//!
//! With [`Writes::NonPosted`], as in the paper, every request is completed, and a sector waits for all completions of
//! the previous one (§VI-B). The requests are deferrable writes, the non-posted write of PCI Express (ECN "Deferrable
//! Memory Write"). With three DW of header they are as long as the paper's requests, 64 B plus 20 B. Their completion
//! has no data. [`NonPostedWrites`] creates them, below an ordinary endpoint. With [`Writes::Posted`] the disk uses
//! ordinary posted writes. Data are only counted: the disk does not know the contents of a sector.
//!
//! With descriptors, the disk reads the address of each sector's page from a table in host memory, as the paper's IDE controller does.
//! An entry has 8 bytes: the address (u32), the number of bytes (u16) and flags (u16), which the disk ignores.

mod non_posted;

pub use non_posted::NonPostedWrites;

use crate::control::{self, Registers, Who};
use crate::{device_id, registers_of};
use capture::DeviceRegister;
use config::PcieLayout;
use device::{BarIndex, DmaError, Io};
use endpoint::FunctionConfig;
use host::DriverError;
use host::cpu::Cpu;
use host::firmware::FoundFunction;
use plug::{Fault, FunctionRegisters, Model, Needs, Plugged, Shared, Shown, Site, gbps, named};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tlp::{Duration, PayloadPool, Time};

/// Size of a sector in bytes (IISWC'18, §VI-B).
pub const SECTOR_BYTES: u32 = 4096;
/// Size of the buffer in sectors.
const BUFFER_SECTORS: u64 = 16;
/// Size of BAR 0 in bytes.
const BAR_BYTES: u64 = 128;
/// Other mass storage controller (PCI Code and ID Assignment Specification, §1.2). The paper has an IDE controller. That would imply
/// other registers, and its mode bits would make a kernel ignore BAR 0.
const CLASS: u32 = 0x01_8000;
const BAR: BarIndex = BarIndex(0);
const DONE_VECTOR: u16 = 0;
/// Size of a descriptor in bytes: a Physical Region Descriptor (Bus Master IDE 1.0, §1.2).
const DESCRIPTOR_BYTES: u32 = 8;

/// Offset of the buffer's address.
const BUFFER: u64 = 0;
/// Offset of the number of sectors.
const SECTORS: u64 = 8;
/// Layout of the registers.
const LAYOUT: control::Layout =
    control::Layout { bar: BAR, control: 12, status: 16, bytes: 20, bar_bytes: BAR_BYTES };

/// Register names.
const REGISTERS: &[DeviceRegister] = &[
    named(Some(BAR.0), BUFFER, 8, "buffer"),
    named(Some(BAR.0), SECTORS, 4, "sectors"),
    named(Some(BAR.0), LAYOUT.control, 4, "control"),
    named(Some(BAR.0), LAYOUT.status, 4, "status"),
];

/// Kind of write requests to host memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Writes {
    /// Deferrable writes; a sector waits for all completions of the previous one.
    #[default]
    NonPosted,
    /// Memory writes.
    Posted,
}

/// The disk of gem5's PCI Express model (IISWC'18). Its driver reads sectors of 4 KiB from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Sectors that the driver reads.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub sectors: u32,
    /// Kind of write requests.
    pub writes: Writes,
    /// Nanoseconds from the start of a sector to its first request.
    #[serde(rename = "access_latency_ns", with = "plug::values::ns")]
    #[schemars(with = "u32", range(min = 0, max = 4_294_967_295_u32))]
    pub access_latency: Duration,
    /// Whether the disk reads the address of each sector's page from a descriptor in host memory, before it accesses the sector.
    pub descriptors: bool,
    /// Size of each request in bytes: a power of two.
    #[schemars(range(min = 4, max = 128), extend("powerOfTwo" = true))]
    pub request_bytes: u32,
}

impl Default for Settings {
    /// Values of the paper.
    fn default() -> Settings {
        let access_latency = Duration::from_us(1);
        Settings {
            sectors: 100,
            writes: Writes::NonPosted,
            access_latency,
            descriptors: false,
            request_bytes: 64,
        }
    }
}

impl Model for Settings {
    const NAME: &'static str = "disk";
    const REGISTERS: &'static [FunctionRegisters] = &[registers_of(device_id::DISK, REGISTERS)];

    fn needs(&self) -> Needs {
        let deferrable_write_bytes = (self.writes == Writes::NonPosted).then_some(self.request_bytes);
        Needs { deferrable_write_bytes, ..Needs::default() }
    }

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let (settings, report) = (*self, Shared::default());
        let function = function(settings, site.pcie, site.payloads, &report)?;
        let plugged = Plugged::new(function, move |cpu, found| driver(cpu, found, settings));
        let plugged = match self.writes {
            Writes::NonPosted => plugged.behind(|endpoint| Box::new(NonPostedWrites::new(endpoint))),
            Writes::Posted => plugged,
        };
        Ok(plugged.reporting(&report))
    }
}

/// Counters of a disk since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskReport {
    /// Sectors in host memory; with posted writes, sectors passed to the link.
    pub sectors: u64,
    /// Sum over all sectors of the time from the first request to the last completion. With posted writes, the time until the link
    /// accepts the last request.
    pub transferring: Duration,
    /// Time from the start of the first sector to the end of the last.
    pub elapsed: Duration,
}

/// Creates the disk and its configuration space for the link `pcie`. If its writes are non-posted, its endpoint must be wrapped in
/// [`NonPostedWrites`].
///
/// # Errors
/// If a setting is invalid.
pub fn function(
    settings: Settings,
    pcie: PcieLayout,
    pool: &PayloadPool,
    report: &Shared<DiskReport>,
) -> Result<FunctionConfig, Fault> {
    settings.check()?;
    let (who, report) = (Who { device: device_id::DISK, class: CLASS }, report.clone());
    let start = move |io: &Io, registers: &Registers| {
        io.spawn(run(io.clone(), settings, report.clone(), registers.clone()));
    };
    Ok(control::function(who, LAYOUT, pcie, pool, start)?)
}

async fn run(
    io: Io,
    settings: Settings,
    report: Shared<DiskReport>,
    registers: Registers,
) -> Result<(), DmaError> {
    let (buffer, sectors) = (registers.u64(BUFFER), registers.u32(SECTORS));
    report.change(|r| *r = DiskReport::default());
    let (start, mut result) = (io.now(), Ok(()));
    for n in 0..u64::from(sectors) {
        let page = match page(&io, settings, buffer, n % BUFFER_SECTORS).await {
            Ok(page) => page,
            Err(error) => {
                result = Err(error);
                break;
            }
        };
        io.sleep(settings.access_latency).await;
        let from = io.now();
        result = sector(&io, settings, page).await;
        if result.is_err() {
            break;
        }
        report.change(|r| r.sector(start, from, io.now()));
    }
    registers.set_status(if result.is_ok() { control::DONE } else { control::FAILED });
    io.interrupt(DONE_VECTOR).await
}

impl plug::Report for DiskReport {
    fn shown(&self, _: Time) -> Shown {
        let bytes = self.sectors * u64::from(SECTOR_BYTES);
        Shown::new()
            .with("sectors", self.sectors)
            .with("transfer_gbps", gbps(bytes, self.transferring))
            .with("disk_gbps", gbps(bytes, self.elapsed))
    }
}

impl DiskReport {
    fn sector(&mut self, start: Time, from: Time, to: Time) {
        self.sectors += 1;
        self.transferring += to.since(from);
        self.elapsed = to.since(start);
    }
}

/// Returns the address of page `n` of the buffer; with descriptors, from entry `n` of the table at `buffer`.
async fn page(io: &Io, settings: Settings, buffer: u64, n: u64) -> Result<u64, DmaError> {
    if !settings.descriptors {
        return Ok(buffer + n * u64::from(SECTOR_BYTES));
    }
    let entry = io.dma_read(buffer + n * u64::from(DESCRIPTOR_BYTES), DESCRIPTOR_BYTES).await?;
    Ok(entry.first_chunk().map_or(0, |address| u32::from_le_bytes(*address)).into())
}

/// Writes one sector. A read of no bytes is completed after all earlier writes are done (`PCIe 5.0 §2.2.5`).
async fn sector(io: &Io, settings: Settings, address: u64) -> Result<(), DmaError> {
    let step = settings.request_bytes;
    for offset in (0..SECTOR_BYTES).step_by(step as usize) {
        io.dma_write_counted(address + u64::from(offset), step).await?;
    }
    match settings.writes {
        Writes::NonPosted => io.dma_read_counted(address, 0).await,
        Writes::Posted => Ok(()),
    }
}

/// Reads the sectors of `settings` into host memory below 4 GiB, because the paper's TLPs have three DW of header. Ends with
/// the interrupt after the last sector.
///
/// # Errors
/// The operation that failed.
pub async fn driver(cpu: Cpu, function: FoundFunction, settings: Settings) -> Result<(), DriverError> {
    let said = |e: host::HostError| DriverError::from(e).at(function);
    let bytes = BUFFER_SECTORS * u64::from(SECTOR_BYTES);
    let buffer = cpu.memory().alloc_low(bytes, 4096).map_err(|e| DriverError::from(e).at("buffer"))?;
    let start = if settings.descriptors { table(&cpu, buffer)? } else { buffer };
    cpu.write_u64(function.address(BAR, BUFFER)?, start).await.map_err(said)?;
    cpu.write_u32(function.address(BAR, SECTORS)?, settings.sectors).await.map_err(said)?;
    match control::run(&cpu, &function, LAYOUT, DONE_VECTOR).await? {
        control::DONE => Ok(()),
        status => Err(format!("{function}: a request failed (status {status})").into()),
    }
}

/// Returns the address of a new table with a descriptor for each page of the buffer.
fn table(cpu: &Cpu, buffer: u64) -> Result<u64, DriverError> {
    let bytes = BUFFER_SECTORS * u64::from(DESCRIPTOR_BYTES);
    let table = cpu.memory().alloc_low(bytes, 4096).map_err(|e| DriverError::from(e).at("descriptors"))?;
    for n in 0..BUFFER_SECTORS {
        let page = buffer + n * u64::from(SECTOR_BYTES);
        let entry = u64::from(SECTOR_BYTES) << 32 | page;
        cpu.memory().write(table + n * u64::from(DESCRIPTOR_BYTES), &entry.to_le_bytes())?;
    }
    Ok(table)
}
