// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A DMA engine with descriptor rings behind a physical function and its virtual ones, after that of Zazo et al. (ReConFig'15),
//! and the host program that moves data through every function of it.
//!
//! Each function has two rings, one for each direction: H2D, whose data the device reads, and D2H, whose data it writes. A
//! ring consists of descriptors in host memory; the host posts some by writing their number to the doorbell, the device
//! fetches them, moves the data, and writes back how many are done. The registers of a function, little-endian, on BAR 0:
//!
//! ```text
//!           H2D    D2H
//! ring      +0x00  +0x40  u64  bus address of the descriptors
//! entries   +0x08  +0x48  u32  descriptors of the ring: a power of two, 1 to 4096; 0: there is none
//! posted    +0x0c  +0x4c  u32  doorbell: how many descriptors were posted so far, modulo 2^32
//! done at   +0x10  +0x50  u64  bus address of the 8 B that are written back; 0: nothing is
//! seed      +0x18  +0x58  u64  first word of the stream of data
//! done      +0x20  +0x60  u32  how many descriptors are done so far; read-only
//! failed    +0x24  +0x64  u32  how many of these failed; read-only
//!           +0x80              u32  INTx (`interrupts = "intx"`): bit 0 H2D, bit 1 D2H asserts it; ones clear
//!           +0x1000            MSI-X table: vector 0 is H2D's, vector 1 D2H's
//!           +0x1800            MSI-X Pending Bit Array
//!
//! descriptor        +0  u64  address        +8  u32  bytes        +12  u32  bit 0: interrupt when done
//! written back      +0  u32  done           +4  u32  failed
//! ```
//!
//! Behind the rings stands what the paper tests with (§IV-E): data are integers that count up without a gap. An H2D ring
//! checks that its bytes are those of the stream which begins with `seed`, 8 B for each word, over all descriptors; a D2H ring
//! makes such a stream. A descriptor failed where a transfer failed, or a byte was wrong.
//!
//! One engine does the reads of all functions. It has a *window* (§IV-A): so many reads of up to 512 B may be under way.
//! Their completions come in any order; a place in the window is free again when its data and all before it of the same
//! ring have been taken. Functions take turns for free places. Writes wait for nobody, and take turns in the endpoint.
//!
//! Unlike the paper's, descriptors are in host memory, not in the device's, and the window is shared by all functions.

mod driver;
mod report;
mod ring;
mod stream;
mod window;

pub use driver::{drive_one, driver};
pub use report::{FunctionReport, Report, RingReport};
pub use stream::Stream;

use crate::{device_id, identity, registers_of};
use capture::DeviceRegister;
use config::{
    Bar, BuildError, Builder, ConfigSpace, Identity, MsiLayout, MsiOptions, MsixLayout, PcieLayout,
    SriovLayout,
};
use device::{AsyncDevice, BarIndex, Device};
use endpoint::{FunctionConfig, VirtualFunctions};
use plug::file::Folder;
use plug::transfers::{Offer, Pattern, Test, Transfers, Workload};
use plug::{Fault, FunctionRegisters, MemoryKind, Model, Needs, Plugged, Shared, Site, named};
use ring::Function;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tlp::PayloadPool;
use tlp::split::request_pieces;
use window::Window;

/// Virtual functions at most. The last of 256 is on a bus of its own, behind that of the physical function: 255 have room
/// beside that (`PCIe 5.0 §9.3.3.9`).
pub const MAX_VFS: u16 = 256;
/// Bytes of BAR 0 of each function.
pub const BAR_BYTES: u64 = 8192;
/// Bytes of a descriptor.
pub const DESCRIPTOR_BYTES: u64 = 16;
/// Descriptors of a ring at most.
pub const MAX_RING_ENTRIES: u32 = 4096;
/// Bytes of a read of data at most, and of a write.
pub const READ_BYTES: u32 = 512;

/// Outstanding transfers in each direction of a measurement that does not set them.
const BENCH_OUTSTANDING: u16 = 64;

/// Other data processing accelerator: processing accelerators (PCI Code and ID Assignment Specification, §1.19).
const CLASS: u32 = 0x12_0000;
const BAR: BarIndex = BarIndex(0);
const VF_DEVICE: u16 = device_id::DMA_ENGINE_VF;
const MSI: MsiLayout = MsiLayout { vectors: 2 };
const MSIX: MsixLayout = MsixLayout { vectors: 2, table: (BAR.0, 0x1000), pending: (BAR.0, 0x1800) };

/// Offsets of the registers of a ring, and the distance of the rings.
mod register {
    pub(super) const RING: u64 = 0x00;
    pub(super) const ENTRIES: u64 = 0x08;
    pub(super) const POSTED: u64 = 0x0c;
    pub(super) const DONE_AT: u64 = 0x10;
    pub(super) const SEED: u64 = 0x18;
    pub(super) const DONE: u64 = 0x20;
    pub(super) const FAILED: u64 = 0x24;
    pub(super) const STRIDE: u64 = 0x40;
    pub(super) const INTX: u64 = 0x80;
    /// Of both, and that behind them.
    pub(super) const BYTES: usize = 0x84;
}

/// The registers by their names, of the physical function and of virtual ones.
const REGISTERS: &[DeviceRegister] = &[
    named(Some(BAR.0), register::RING, 8, "H2D ring"),
    named(Some(BAR.0), register::ENTRIES, 4, "H2D entries"),
    named(Some(BAR.0), register::POSTED, 4, "H2D posted (doorbell)"),
    named(Some(BAR.0), register::DONE_AT, 8, "H2D done at"),
    named(Some(BAR.0), register::SEED, 8, "H2D seed"),
    named(Some(BAR.0), register::DONE, 4, "H2D done"),
    named(Some(BAR.0), register::FAILED, 4, "H2D failed"),
    named(Some(BAR.0), register::STRIDE + register::RING, 8, "D2H ring"),
    named(Some(BAR.0), register::STRIDE + register::ENTRIES, 4, "D2H entries"),
    named(Some(BAR.0), register::STRIDE + register::POSTED, 4, "D2H posted (doorbell)"),
    named(Some(BAR.0), register::STRIDE + register::DONE_AT, 8, "D2H done at"),
    named(Some(BAR.0), register::STRIDE + register::SEED, 8, "D2H seed"),
    named(Some(BAR.0), register::STRIDE + register::DONE, 4, "D2H done"),
    named(Some(BAR.0), register::STRIDE + register::FAILED, 4, "D2H failed"),
    named(Some(BAR.0), register::INTX, 4, "INTx"),
];

/// The bit of a descriptor that asks for an interrupt.
const INTERRUPT: u32 = 1;

/// Which way data go: host to device, or device to host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Host to device: the device reads.
    H2d,
    /// Device to host: the device writes.
    D2h,
}

impl Direction {
    /// Both.
    pub const ALL: [Direction; 2] = [Direction::H2d, Direction::D2h];

    /// 0 or 1: the place of its ring, and its vector.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Offset of a register of its ring.
    const fn register(self, offset: u64) -> u64 {
        self as u64 * register::STRIDE + offset
    }
}

/// A DMA engine with descriptor rings behind a physical function and virtual ones (ReConFig'15). The host enables all
/// virtual functions and runs a driver for each function, all side by side; each moves as much data in both directions,
/// and every byte is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Virtual functions.
    #[schemars(range(min = 0, max = 256))]
    pub vfs: u16,
    /// Transfers of each function in each direction.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub transfers: u32,
    /// Bytes of each transfer: a multiple of 8.
    #[schemars(range(min = 8, max = 1_048_576), extend("multipleOf" = 8))]
    pub size_bytes: u32,
    /// Descriptors of each ring, and buffers: a power of two.
    #[schemars(range(min = 1, max = 4096), extend("powerOfTwo" = true))]
    pub ring_entries: u32,
    /// Reads of data that the engine has under way at most, for all functions.
    #[schemars(range(min = 1, max = 1024))]
    pub window: u16,
    /// Which way data go.
    pub directions: Directions,
    /// How it interrupts. Other than by MSI-X without virtual functions alone.
    pub interrupts: Interrupts,
    /// Transfers before those that count, and those that count, where they are measured.
    #[serde(skip)]
    pub measured: Option<(u64, u64)>,
}

/// How an engine interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub enum Interrupts {
    /// MSI-X, a vector for each ring.
    #[serde(rename = "msi-x")]
    Msix,
    /// MSI, a vector for each ring, with masking.
    #[serde(rename = "msi")]
    Msi,
    /// INTA, asserted until the driver clears both bits of its register. The simulated host's driver does not wait for it: it looks
    /// every microsecond.
    #[serde(rename = "intx")]
    Intx,
}

/// Which way an engine moves data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Directions {
    /// Both ways at the same time.
    Both,
    /// From the host to the device: the device reads.
    H2d,
    /// From the device to the host: the device writes.
    D2h,
}

impl Directions {
    /// Whether data go that way.
    const fn have(self, direction: Direction) -> bool {
        matches!(
            (self, direction),
            (Directions::Both, _) | (Directions::H2d, Direction::H2d) | (Directions::D2h, Direction::D2h)
        )
    }
}

impl Default for Settings {
    /// One virtual function, as the paper has it (§IV-B), and a window of 32.
    fn default() -> Settings {
        Settings {
            vfs: 1,
            transfers: 256,
            size_bytes: 4096,
            ring_entries: 16,
            window: 32,
            directions: Directions::Both,
            interrupts: Interrupts::Msix,
            measured: None,
        }
    }
}

impl Model for Settings {
    const NAME: &'static str = "dma-engine";
    const REGISTERS: &'static [FunctionRegisters] =
        &[registers_of(device_id::DMA_ENGINE, REGISTERS), registers_of(device_id::DMA_ENGINE_VF, REGISTERS)];

    const TESTS: &'static [Test] = &[Test::BwRd, Test::BwWr, Test::BwRdWr];

    /// The physical function alone, with a ring of as many descriptors as transfers may be under way in each direction.
    fn offer(workload: &Workload, _: &Folder) -> Result<Offer, Fault> {
        let Workload { test, size_bytes, warm_up, transfers, .. } = *workload;
        let outstanding = workload.outstanding.unwrap_or(BENCH_OUTSTANDING);
        let settings = Settings {
            vfs: 0,
            transfers: u32::try_from(workload.transfers_in_all()).unwrap_or(u32::MAX),
            size_bytes,
            ring_entries: outstanding.into(),
            directions: match test {
                Test::BwRd => Directions::H2d,
                Test::BwWr => Directions::D2h,
                _ => Directions::Both,
            },
            measured: Some((warm_up, transfers)),
            ..Settings::default()
        };
        settings.check()?;
        let ring_bytes = u64::from(settings.ring_entries) * u64::from(size_bytes);
        Workload::only("profile", workload.profile.as_ref(), "ideal".to_owned())?;
        Ok(Offer {
            outstanding,
            host_offset_bytes: Workload::only("host_offset_bytes", workload.host_offset_bytes.as_ref(), 0)?,
            pattern: Workload::only("pattern", workload.pattern.as_ref(), Pattern::Sequential)?,
            cut_writes: Some(Box::new(|address, bytes, mps| {
                let pieces = ring::pieces(address, bytes);
                pieces.flat_map(|(at, len)| request_pieces(at, len, mps.bytes())).collect()
            })),
            ..Offer::new(
                settings,
                Workload::only("window_bytes", workload.window_bytes.as_ref(), ring_bytes)?,
                Workload::only("memory", workload.memory.as_ref(), MemoryKind::Low)?,
            )
        })
    }

    fn needs(&self) -> Needs {
        Needs { virtual_functions: self.vfs, ..Needs::default() }
    }

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let (settings, report) = (*self, Shared::default());
        let measured =
            self.measured.map(|(warm_up, wanted)| Shared::new(Transfers::of(Test::BwRdWr, warm_up, wanted)));
        let made = functions(settings, site.pcie, site.payloads, &report, measured.as_ref())?;
        let (needed, there) = (self.host_bytes(), site.memory.size());
        if needed > there {
            let message = format!("its rings and buffers need {needed} B of host memory: there are {there}");
            return Err(Fault::at("ring_entries", message));
        }
        let told = report.clone();
        let driver = move |cpu, found| driver(cpu, found, settings, told.clone());
        let plugged = Plugged::with_virtual_functions(made.physical, made.virtual_functions, driver);
        let plugged = plugged.reporting(&report);
        Ok(match &measured {
            Some(transfers) => plugged.measuring(transfers),
            None => plugged,
        })
    }
}

impl Settings {
    /// Host memory that the drivers of all functions ask for, by page.
    fn host_bytes(&self) -> u64 {
        let pages = |bytes: u64| bytes.next_multiple_of(4096);
        let entries = u64::from(self.ring_entries);
        let ring = pages(entries * DESCRIPTOR_BYTES) + pages(entries * u64::from(self.size_bytes)) + pages(8);
        2 * ring * (u64::from(self.vfs) + 1)
    }
}

/// The functions of an engine.
pub struct Functions {
    /// Function 0.
    pub physical: FunctionConfig,
    /// Those behind it, where there are any, for
    /// [`Endpoint::with_virtual_functions`](endpoint::Endpoint::with_virtual_functions).
    pub virtual_functions: Option<VirtualFunctions>,
}

/// The engine; `pcie` says what link it is on, payloads come from `pool`. Transfers of all functions count in `measured`, where it
/// is given.
///
/// # Errors
/// Where a setting is not legal.
pub fn functions(
    settings: Settings,
    pcie: PcieLayout,
    pool: &PayloadPool,
    report: &Shared<Report>,
    measured: Option<&Shared<Transfers>>,
) -> Result<Functions, Fault> {
    settings.check()?;
    if settings.vfs > 0 && settings.interrupts != Interrupts::Msix {
        let message = "other interrupts than msi-x: legal without virtual functions (vfs = 0)";
        return Err(Fault::at("interrupts", message.to_owned()));
    }
    report.change(|r| r.functions = vec![FunctionReport::default(); usize::from(settings.vfs) + 1]);
    let (window, interrupts) = (Window::new(settings.window), settings.interrupts);
    let (pool, report, measured) = (pool.clone(), report.clone(), measured.cloned());
    let device = move |number: u16| -> Box<dyn Device> {
        let (window, report, measured) = (window.clone(), report.clone(), measured.clone());
        let start = move |io| {
            Function::new(io, number, interrupts, window.clone(), report.clone(), measured.clone()).run()
        };
        Box::new(AsyncDevice::with_pool(pool.clone(), start))
    };
    let physical = FunctionConfig { config: physical(settings, pcie)?, device: device(0) };
    let virtual_functions = match settings.vfs {
        0 => None,
        _ => {
            Some(VirtualFunctions { config: virtual_space(pcie)?, device: Box::new(move |n| device(n + 1)) })
        }
    };
    Ok(Functions { physical, virtual_functions })
}

fn physical(settings: Settings, pcie: PcieLayout) -> Result<ConfigSpace, BuildError> {
    let Settings { vfs, interrupts, .. } = settings;
    let builder = Builder::type0(identity(device_id::DMA_ENGINE, CLASS)).bar(BAR, Bar::memory64(BAR_BYTES));
    let builder = match interrupts {
        Interrupts::Msix => builder.msix(MSIX),
        Interrupts::Msi => builder.msi(MSI).msi_options(MsiOptions { masking: true, address_32: false }),
        Interrupts::Intx => builder.interrupt_pin(1),
    };
    let builder = builder.pcie(pcie).usual();
    if vfs == 0 {
        return builder.build();
    }
    let sriov = SriovLayout::new(vfs, VF_DEVICE).bar(BAR, Bar::memory64(BAR_BYTES));
    builder.alternative_routing(0).single_root_virtualization(sriov).build()
}

fn virtual_space(pcie: PcieLayout) -> Result<ConfigSpace, BuildError> {
    let identity = Identity { device: VF_DEVICE, ..identity(device_id::DMA_ENGINE, CLASS) };
    Builder::virtual_function(identity)
        .pcie(pcie)
        .msix(MSIX)
        .advanced_error_reporting()
        .alternative_routing(0)
        .build()
}
