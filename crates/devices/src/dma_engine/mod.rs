// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A DMA engine with descriptor rings, shared by a physical function and its virtual functions, after Zazo et al. (ReConFig'15). A host program moves data
//! through every function.
//!
//! `docs/dma-engine.md` describes the driver's view. The registers are in [`registers`], generated from `registers/dma_engine.rdl`.
//!
//! - `requests`: the host's accesses to a function
//! - `movers`: the tasks that move data
//! - `engine`: a ring, and the results of descriptors
//! - `function`: the registers of one function
//! - `logic`: user logic
//! - `turns`: scheduling among functions
//! - `window`: the limit on outstanding reads

mod driver;
mod engine;
mod function;
mod logic;
mod movers;
pub mod registers;
mod report;
mod requests;
mod stream;
mod turns;
mod window;

pub use driver::{drive_one, driver};
pub use logic::{Logic, MakeLogic};
pub use report::{EngineReport, FunctionReport, RingReport};
pub use stream::Stream;
pub use window::WindowReport;

use crate::{device_id, identity, registers_of};
use config::{
    Bar, BuildError, Builder, ConfigSpace, Identity, MsiLayout, MsiOptions, MsixLayout, PcieLayout,
    SriovLayout,
};
use device::{AsyncDevice, BarIndex, Device};
use endpoint::{FunctionConfig, VirtualFunctions};
use function::{Common, Function};
use plug::file::Folder;
use plug::transfers::{Offer, Pattern, Test, Transfers, Workload};
use plug::{Fault, FunctionRegisters, MemoryKind, Model, Needs, Plugged, Shared, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use tlp::PayloadPool;
use tlp::split::request_pieces;
use turns::Turns;
use window::Window;

/// Maximum number of virtual functions. The last of 256 is on the next bus, because the physical function's bus has room for only 255
/// more (`PCIe 5.0 §9.3.3.9`).
pub const MAX_VFS: u16 = 256;
/// Maximum number of engines per function.
pub const MAX_ENGINES: u8 = registers::ENGINE_COUNT as u8;
/// Size of a descriptor in bytes.
pub const DESCRIPTOR_BYTES: u64 = registers::DESCRIPTOR_STRIDE;
/// Maximum number of descriptors of a ring in host memory.
pub const MAX_RING_ENTRIES: u32 = 65_536;
/// Maximum number of outstanding data reads.
pub const MAX_WINDOW: u16 = 1024;
/// Maximum size of a data write in bytes, before the endpoint splits it by Max_Payload_Size.
pub const WRITE_BYTES: u32 = 512;

/// Outstanding transfers in each direction for a measurement that does not set them.
const BENCH_OUTSTANDING: u16 = 64;

/// Other data processing accelerator: processing accelerators (PCI Code and ID Assignment Specification, §1.19).
const CLASS: u32 = 0x12_0000;
const BAR: BarIndex = BarIndex(0);
const VF_DEVICE: u16 = device_id::DMA_ENGINE_VF;
/// Returns the layout of MSI-X for this number of vectors.
const fn msix(vectors: u16) -> MsixLayout {
    MsixLayout {
        vectors,
        table: (BAR.0, registers::MSIX_TABLE as u32),
        pending: (BAR.0, registers::MSIX_PENDING as u32),
    }
}

/// Direction of data: host to device, or device to host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Host to device: the device reads.
    H2d,
    /// Device to host: the device writes.
    D2h,
}

impl Direction {
    /// Both directions.
    pub const ALL: [Direction; 2] = [Direction::H2d, Direction::D2h];
}

/// A DMA engine with descriptor rings, shared by a physical function and virtual ones (ReConFig'15). The host enables all virtual functions and runs a driver
/// for each function, all in parallel. Each moves the same amount of data in both directions, and every byte is checked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Virtual functions.
    #[schemars(range(min = 0, max = 256))]
    pub vfs: u16,
    /// Number of engines of each function that read host memory; 1 to 16 with `d2h_engines`.
    #[schemars(range(min = 0, max = 15))]
    pub h2d_engines: u8,
    /// Number of engines of each function that write host memory.
    #[schemars(range(min = 0, max = 15))]
    pub d2h_engines: u8,
    /// Maximum number of outstanding data reads. 0: as many as fill the link during the round trip of a read, measured by the first reads, and at most `tags`
    /// of the slot.
    #[schemars(range(min = 0, max = 1024))]
    pub window: u16,
    /// Scope of the window.
    pub window_of: WindowOf,
    /// Maximum size of a data read in bytes: a power of two. Max_Read_Request_Size may be less.
    #[schemars(range(min = 128, max = 4096), extend("powerOfTwo" = true))]
    pub read_bytes: u32,
    /// Weights of functions, the physical one first; the others have 1.
    #[schemars(length(max = 257), inner(range(min = 1, max = 255)))]
    pub weights: Vec<u8>,
    /// Kind of interrupts. MSI and INTx are only possible without virtual functions.
    pub interrupts: Interrupts,
    /// Driver: transfers per engine.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub transfers: u32,
    /// Driver: size of each transfer in bytes, a multiple of 8.
    #[schemars(range(min = 8, max = 16_777_216), extend("multipleOf" = 8))]
    pub size_bytes: u32,
    /// Driver: size of contiguous pieces of memory in bytes. A transfer has one descriptor for each piece. 0: all
    /// memory is contiguous.
    #[schemars(range(min = 0, max = 16_777_216), extend("multipleOf" = 8))]
    pub page_bytes: u32,
    /// Driver: place of descriptors.
    pub ring: RingOf,
    /// Driver: descriptors per ring, a power of two.
    #[schemars(range(min = 1, max = 65_536), extend("powerOfTwo" = true))]
    pub ring_entries: u32,
    /// Driver: maximum number of transfers in flight per engine, and so of buffers. 0: as many as fit in the ring.
    #[schemars(range(min = 0, max = 65_536))]
    pub outstanding: u32,
    /// Driver: time in nanoseconds that software takes to post a transfer.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub set_up_ns: u32,
    /// Driver: method by which it detects the end of transfers.
    pub completion: Completion,
    /// Driver: number of interrupts that are combined into one; 0 and 1: no coalescing.
    pub coalesce_count: u16,
    /// Driver: maximum time in microseconds that an interrupt is held back.
    #[schemars(range(min = 1, max = 65_535))]
    pub coalesce_us: u16,
    /// Driver: user logic of the engines.
    pub logic: UserLogic,
    /// Driver: directions of the data.
    pub directions: Directions,
    /// Driver: functions that move data.
    pub drive: Drive,
    /// Warm-up transfers and measured transfers of a measurement.
    #[serde(skip)]
    pub measured: Option<(u64, u64)>,
}

/// Scope of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WindowOf {
    /// One window shared by all functions.
    All,
    /// One window per function.
    Function,
}

/// Place of descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RingOf {
    /// In host memory.
    Host,
    /// In the device's memory, in BAR 0 (ReConFig'15, §IV-A).
    Device,
}

/// How a driver learns that transfers are done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Completion {
    /// By interrupts of the last of the transfers posted together, and of one in the middle.
    Interrupt,
    /// By polling the write-back every 100 ns.
    Poll,
}

/// Functions that move data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Drive {
    /// All functions, in parallel.
    All,
    /// The physical function alone.
    Physical,
    /// Only the virtual functions.
    Virtual,
}

impl Drive {
    fn has(self, function: usize) -> bool {
        matches!((self, function), (Drive::All, _) | (Drive::Physical, 0) | (Drive::Virtual, 1..))
    }
}

/// User logic of the engines: see the data sheet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UserLogic {
    /// Words of 8 B that count up, generated and checked (ReConFig'15, §IV-E).
    Integers,
    /// Accepts all data, and produces zeros.
    Plain,
    /// From H2D engine n to D2H engine n; the driver checks that it receives what it sent.
    LoopBack,
}

/// Kind of interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub enum Interrupts {
    /// MSI-X, one vector per ring.
    #[serde(rename = "msi-x")]
    Msix,
    /// MSI, one vector per ring, with masking.
    #[serde(rename = "msi")]
    Msi,
    /// INTA, asserted until the driver clears both bits of its register. The simulated host's driver does not wait for this interrupt, but polls every microsecond.
    #[serde(rename = "intx")]
    Intx,
}

/// Directions of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Directions {
    /// Both directions at the same time.
    Both,
    /// From the host to the device: the device reads.
    H2d,
    /// From the device to the host: the device writes.
    D2h,
}

impl Directions {
    /// Returns whether data move in this direction.
    const fn have(self, direction: Direction) -> bool {
        matches!(
            (self, direction),
            (Directions::Both, _) | (Directions::H2d, Direction::H2d) | (Directions::D2h, Direction::D2h)
        )
    }
}

impl Default for Settings {
    /// One virtual function, as in the paper (§IV-B), and a window of 32.
    fn default() -> Settings {
        Settings {
            vfs: 1,
            h2d_engines: 1,
            d2h_engines: 1,
            window: 32,
            window_of: WindowOf::All,
            read_bytes: 512,
            weights: Vec::new(),
            interrupts: Interrupts::Msix,
            transfers: 256,
            size_bytes: 4096,
            page_bytes: 0,
            ring: RingOf::Host,
            ring_entries: 16,
            outstanding: 0,
            set_up_ns: 0,
            completion: Completion::Interrupt,
            coalesce_count: 1,
            coalesce_us: 10,
            logic: UserLogic::Integers,
            directions: Directions::Both,
            drive: Drive::All,
            measured: None,
        }
    }
}

impl Model for Settings {
    const NAME: &'static str = "dma-engine";
    const REGISTERS: &'static [FunctionRegisters] = &[
        registers_of(device_id::DMA_ENGINE, registers::NAMES),
        registers_of(device_id::DMA_ENGINE_VF, registers::NAMES),
    ];

    const TESTS: &'static [Test] = &[Test::BwRd, Test::BwWr, Test::BwRdWr];

    /// Offers only the physical function. Its rings have as many descriptors as transfers may be in flight in each direction.
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
        let ring_bytes = u64::from(settings.buffers()) * u64::from(size_bytes);
        Workload::only("profile", workload.profile.as_ref(), "ideal".to_owned())?;
        Ok(Offer {
            outstanding,
            host_offset_bytes: Workload::only("host_offset_bytes", workload.host_offset_bytes.as_ref(), 0)?,
            pattern: Workload::only("pattern", workload.pattern.as_ref(), Pattern::Sequential)?,
            cut_writes: Some(Box::new(|address, bytes, mps| {
                let pieces = movers::write_pieces(address, bytes.into(), mps.bytes());
                pieces.flat_map(|(at, len)| request_pieces(at, len, mps.bytes())).collect()
            })),
            ..Offer::new(
                settings,
                Workload::only("window_bytes", workload.window_bytes.as_ref(), ring_bytes)?,
                workload.only_memory(MemoryKind::Low)?,
            )
        })
    }

    fn needs(&self) -> Needs {
        Needs { virtual_functions: self.vfs, ..Needs::default() }
    }

    fn check_together(&self) -> Result<(), Fault> {
        let wrong = |key: &'static str, message: String| Err(Fault::at(key, message));
        let most = usize::from(MAX_ENGINES);
        if !(1..=most).contains(&self.engines()) {
            let message = format!("{} together with d2h_engines, expected 1 to {most}", self.engines());
            return wrong("h2d_engines", message);
        }
        let functions = usize::from(self.vfs) + 1;
        if self.weights.len() > functions {
            let message = format!(
                "{} weights for {functions} functions, expected at most one per function",
                self.weights.len()
            );
            return wrong("weights", message);
        }
        if self.drive == Drive::Virtual && self.vfs == 0 {
            return wrong("drive", "virtual functions, expected vfs above 0".to_owned());
        }
        if !(0..self.engines()).any(|engine| self.directions.have(self.direction(engine))) {
            return wrong("directions", "no engine has this direction, expected one that has".to_owned());
        }
        if self.vfs > 0 && self.interrupts != Interrupts::Msix {
            let message = "interrupts other than msi-x, expected only without virtual functions (vfs = 0)";
            return wrong("interrupts", message.to_owned());
        }
        if self.logic == UserLogic::LoopBack
            && (self.h2d_engines != self.d2h_engines || self.directions != Directions::Both)
        {
            let message =
                "loop-back, expected only with the same number of engines of each kind and both directions";
            return wrong("logic", message.to_owned());
        }
        let entries = self.device_entries();
        if self.ring == RingOf::Device && self.ring_entries > entries {
            return wrong(
                "ring_entries",
                format!("{}, expected at most {entries} for a ring in the device", self.ring_entries),
            );
        }
        if self.pieces() > self.ring_entries {
            let message = format!(
                "a transfer has {} descriptors, expected at most {} (ring_entries)",
                self.pieces(),
                self.ring_entries
            );
            return wrong("page_bytes", message);
        }
        Ok(())
    }

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let (settings, report) = (self.clone(), Shared::default());
        let measured =
            self.measured.map(|(warm_up, wanted)| Shared::new(Transfers::of(Test::BwRdWr, warm_up, wanted)));
        let made =
            functions(&settings, site.pcie, site.tags, site.payloads, &report, measured.as_ref(), None)?;
        let (needed, there) = (self.host_bytes(), site.memory.size());
        if needed > there {
            let message =
                format!("its rings and buffers need {needed} B of host memory, expected at most {there}");
            return Err(Fault::at("ring_entries", message));
        }
        let told = report.clone();
        let driver = move |cpu, found| driver(cpu, found, settings.clone(), told.clone());
        let plugged = Plugged::with_virtual_functions(made.physical, made.virtual_functions, driver);
        let plugged = plugged.reporting(&report);
        Ok(match &measured {
            Some(transfers) => plugged.measuring(transfers),
            None => plugged,
        })
    }
}

impl Settings {
    /// Returns the number of engines per function.
    pub(crate) fn engines(&self) -> usize {
        usize::from(self.h2d_engines) + usize::from(self.d2h_engines)
    }

    /// Returns the direction of an engine.
    pub(crate) fn direction(&self, engine: usize) -> Direction {
        if engine < usize::from(self.h2d_engines) { Direction::H2d } else { Direction::D2h }
    }

    /// Returns the number of descriptors per transfer.
    fn pieces(&self) -> u32 {
        if self.page_bytes == 0 { 1 } else { self.size_bytes.div_ceil(self.page_bytes) }
    }

    /// Returns the size of a transfer's memory in bytes. Its pages are in reverse order.
    fn buffer_bytes(&self) -> u64 {
        u64::from(self.pieces())
            * u64::from(if self.page_bytes == 0 { self.size_bytes } else { self.page_bytes })
    }

    /// Returns the number of buffers of an engine's driver: the maximum number of transfers in flight.
    fn buffers(&self) -> u32 {
        let most = (self.ring_entries / self.pieces()).max(1);
        if self.outstanding == 0 { most } else { self.outstanding.min(most) }
    }

    /// Returns the host memory that the drivers of all functions allocate, in whole pages.
    fn host_bytes(&self) -> u64 {
        let pages = |bytes: u64| bytes.next_multiple_of(4096);
        let ring = match self.ring {
            RingOf::Host => pages(u64::from(self.ring_entries) * DESCRIPTOR_BYTES),
            RingOf::Device => 0,
        };
        let buffers = pages(u64::from(self.buffers()) * self.buffer_bytes());
        self.engines() as u64 * (ring + buffers + pages(8)) * (u64::from(self.vfs) + 1)
    }

    /// Returns the number of descriptors of each engine in the device's memory.
    pub(crate) fn device_entries(&self) -> u32 {
        1 << (registers::DESCRIPTOR_COUNT as u32 / self.engines().max(1) as u32).ilog2()
    }
}

/// The functions of an engine.
pub struct Functions {
    /// Function 0.
    pub physical: FunctionConfig,
    /// The virtual functions, if any, for [`Endpoint::with_virtual_functions`](endpoint::Endpoint::with_virtual_functions).
    pub virtual_functions: Option<VirtualFunctions>,
}

/// Creates the engine for the link `pcie`. `tags` is the maximum number of outstanding reads per function. Payloads come from `pool`. Transfers of all
/// functions count in `measured`, if given. `logic` creates the user logic, if it is not the built-in one.
///
/// # Errors
/// If a setting is invalid.
pub fn functions(
    settings: &Settings,
    pcie: PcieLayout,
    tags: u16,
    pool: &PayloadPool,
    report: &Shared<EngineReport>,
    measured: Option<&Shared<Transfers>>,
    logic: Option<MakeLogic>,
) -> Result<Functions, Fault> {
    settings.check()?;
    let rings = vec![RingReport::default(); settings.engines()];
    let directions: Vec<Direction> =
        (0..settings.engines()).map(|engine| settings.direction(engine)).collect();
    let function = FunctionReport { rings, directions, ..FunctionReport::default() };
    report.change(|r| r.functions = vec![function; usize::from(settings.vfs) + 1]);
    let common = Rc::new(Common {
        settings: settings.clone(),
        window: window(settings, pcie, tags),
        writes: Turns::new(1),
        writable: [true, false].map(|is_physical| function::writable(settings, is_physical)),
        report: report.clone(),
        measured: measured.cloned(),
        logic,
    });
    let pool = pool.clone();
    let device = move |number: u16| -> Box<dyn Device> {
        let common = Rc::clone(&common);
        let start = move |io| requests::serve(Function::new(io, number, Rc::clone(&common)));
        Box::new(AsyncDevice::with_pool(pool.clone(), start))
    };
    let physical = FunctionConfig { config: physical(settings, pcie)?, device: device(0) };
    let virtual_functions = match settings.vfs {
        0 => None,
        _ => Some(VirtualFunctions {
            config: virtual_space(settings, pcie)?,
            device: Box::new(move |n| device(n + 1)),
        }),
    };
    Ok(Functions { physical, virtual_functions })
}

/// Returns a closure that gives each function its window, separate or shared.
fn window(settings: &Settings, pcie: PcieLayout, tags: u16) -> Box<dyn Fn() -> Rc<Window>> {
    let (window_of, settings) = (settings.window_of, settings.clone());
    let make = move || Rc::new(Window::new(&settings, &pcie, tags));
    match window_of {
        WindowOf::Function => Box::new(make),
        WindowOf::All => {
            let shared = make();
            Box::new(move || Rc::clone(&shared))
        }
    }
}

fn physical(settings: &Settings, pcie: PcieLayout) -> Result<ConfigSpace, BuildError> {
    let (vfs, engines) = (settings.vfs, settings.engines() as u16);
    let bar = Bar::memory64(registers::BAR_BYTES);
    let builder = Builder::type0(identity(device_id::DMA_ENGINE, CLASS)).bar(BAR, bar);
    let builder = match settings.interrupts {
        Interrupts::Msix => builder.msix(msix(engines)),
        Interrupts::Msi => {
            let layout = MsiLayout { vectors: engines.next_power_of_two() as u8 };
            builder.msi(layout).msi_options(MsiOptions { masking: true, address_32: false })
        }
        Interrupts::Intx => builder.interrupt_pin(1),
    };
    let builder = builder.pcie(pcie).usual();
    if vfs == 0 {
        return builder.build();
    }
    let sriov = SriovLayout::new(vfs, VF_DEVICE).bar(BAR, bar);
    builder.alternative_routing(0).single_root_virtualization(sriov).build()
}

fn virtual_space(settings: &Settings, pcie: PcieLayout) -> Result<ConfigSpace, BuildError> {
    let identity = Identity { device: VF_DEVICE, ..identity(device_id::DMA_ENGINE, CLASS) };
    Builder::virtual_function(identity)
        .pcie(pcie)
        .msix(msix(settings.engines() as u16))
        .advanced_error_reporting()
        .alternative_routing(0)
        .build()
}
