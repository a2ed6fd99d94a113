// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An NVMe controller (NVM Express Base Specification 1.4) for the stock drivers of operating systems. Its virtual functions are controllers of the
//! same subsystem.
//!
//! - `spec`: definitions of the specification.
//! - `controller`: registers.
//! - `run`: queues and workers, from Enable on.
//! - `queue`: rings in host memory.
//! - `pointer`: PRPs and SGLs.
//! - `admin`, `nvm`: commands.
//! - `identify`, `log`, `features`, `events`: information for the host.
//! - `media`: storage of the namespaces.
//! - `settings`: settings of a lab.
//! - `driver`, `job`: program of the simulated host.
//! - `report`: results.

mod admin;
mod admin_queues;
mod controller;
mod driver;
mod events;
mod features;
mod identify;
mod job;
mod log;
mod media;
mod nvm;
mod pointer;
mod queue;
mod report;
mod run;
mod settings;
mod spec;

pub use report::{JobReport, NvmeReport, Stages};
pub use settings::{Block, Job, Kind, Media, NamespaceSettings, Settings};

use crate::{device_id, identity, registers_of};
use config::{Bar, BuildError, Builder, ConfigSpace, Identity, MsixLayout, PcieLayout, SriovLayout};
use controller::Subsystem;
use device::{AsyncDevice, BarIndex, Device};
use endpoint::{FunctionConfig, VirtualFunctions};
use media::MediaPath;
use plug::file::Folder;
use plug::{Fault, FunctionRegisters, Model, Needs, Plugged, Shared, Site};
use std::cell::RefCell;
use std::rc::Rc;
use tlp::PayloadPool;

/// Maximum number of entries of a queue.
pub const MAX_ENTRIES: u32 = 1024;
/// Maximum number of commands in flight per controller.
pub const MAX_UNDER_WAY: usize = 256;
/// Maximum number of bytes per command: 2^5 pages of 4 KiB (MDTS).
pub const MAX_TRANSFER: u32 = 4096 << MAX_TRANSFER_SHIFT;
const MAX_TRANSFER_SHIFT: u8 = 5;
/// Number of entries of the Error Information log.
const ERROR_LOG_ENTRIES: usize = 64;
/// Pages of host memory have 4 KiB to 64 KiB.
const MAX_PAGE_SHIFT: u32 = 16;

/// Non-volatile memory controller, NVM Express (PCI Code and ID Assignment Specification, §1.2).
const CLASS: u32 = 0x01_0802;
const BAR: BarIndex = BarIndex(0);
/// Registers, doorbells, MSI-X table and pending bits, with a page for each.
const BAR_BYTES: u64 = 0x4000;
const MSIX_TABLE: u32 = 0x2000;
const MSIX_PENDING: u32 = 0x3000;

registers! {
    Some(0);
    CAP  0x00 8, "CAP";
    VS   0x08 4, "VS";
    INTMS 0x0c 4, "INTMS";
    INTMC 0x10 4, "INTMC";
    CC   0x14 4, "CC";
    CSTS 0x1c 4, "CSTS";
    AQA  0x24 4, "AQA";
    ASQ  0x28 8, "ASQ";
    ACQ  0x30 8, "ACQ";
    SQ0TDBL 0x1000 4, "SQ0TDBL";
    CQ0HDBL 0x1004 4, "CQ0HDBL";
    SQ1TDBL 0x1008 4, "SQ1TDBL";
    CQ1HDBL 0x100c 4, "CQ1HDBL";
}

impl Model for Settings {
    const NAME: &'static str = "nvme";
    const REGISTERS: &'static [FunctionRegisters] = &[registers_of(device_id::NVME, REGISTERS)];

    fn needs(&self) -> Needs {
        Needs { virtual_functions: self.vfs, ..Needs::default() }
    }

    fn check_together(&self) -> Result<(), Fault> {
        self.check_whole()
    }

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let report = Shared::default();
        let spot = Spot {
            pcie: site.pcie,
            serial: site.id.bits().into(),
            payloads: site.payloads,
            folder: site.folder,
        };
        let made = functions(self, &spot, &report)?;
        let (settings, seed, told) = (self.clone(), site.seed, report.clone());
        let bytes = made.namespace_bytes;
        let driver = move |cpu, functions| {
            driver::driver(cpu, functions, settings.clone(), (bytes, seed), told.clone())
        };
        let plugged = Plugged::with_virtual_functions(made.physical, made.virtual_functions, driver);
        Ok(plugged.reporting(&report))
    }
}

/// The functions of a subsystem.
pub struct Functions {
    /// Function 0.
    pub physical: FunctionConfig,
    /// Virtual functions, if there are any.
    pub virtual_functions: Option<VirtualFunctions>,
    /// Size of namespace 1 in bytes.
    pub namespace_bytes: u64,
}

/// Environment of a subsystem.
pub struct Spot<'a> {
    /// Properties of its link.
    pub pcie: PcieLayout,
    /// Its serial number.
    pub serial: u32,
    /// Source of payloads.
    pub payloads: &'a PayloadPool,
    /// Folder with the files of its namespaces.
    pub folder: &'a Folder,
}

/// The subsystem in this environment.
///
/// # Errors
/// A setting is invalid, or a file cannot be opened.
pub fn functions(
    settings: &Settings,
    spot: &Spot<'_>,
    report: &Shared<NvmeReport>,
) -> Result<Functions, Fault> {
    settings.check()?;
    let subsystem = Rc::new(Subsystem {
        settings: settings.clone(),
        serial: spot.serial,
        namespaces: settings.open(spot.folder)?,
        way: MediaPath::new(settings.media.timing()),
        report: report.clone(),
    });
    let namespace_bytes = subsystem.namespaces.first().map_or(0, |namespace| namespace.size_bytes);
    let (pool, pcie) = (spot.payloads.clone(), spot.pcie);
    let device = move |number: u16| -> Box<dyn Device> {
        let (subsystem, counts) = (Rc::clone(&subsystem), Rc::<RefCell<log::Counts>>::default());
        let start = move |io| controller::serve(io, number, Rc::clone(&subsystem), Rc::clone(&counts));
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
    Ok(Functions { physical, virtual_functions, namespace_bytes })
}

/// One vector per queue pair, including the admin queues.
const fn msix(pairs: u16) -> MsixLayout {
    MsixLayout { vectors: pairs + 1, table: (BAR.0, MSIX_TABLE), pending: (BAR.0, MSIX_PENDING) }
}

fn physical(settings: &Settings, pcie: PcieLayout) -> Result<ConfigSpace, BuildError> {
    let bar = Bar::memory64(BAR_BYTES);
    let builder = Builder::type0(identity(device_id::NVME, CLASS)).bar(BAR, bar);
    let builder = builder.msix(msix(settings.queue_pairs)).pcie(pcie).usual();
    if settings.vfs == 0 {
        return builder.build();
    }
    let sriov = SriovLayout::new(settings.vfs, device_id::NVME).bar(BAR, bar);
    builder.alternative_routing(0).single_root_virtualization(sriov).build()
}

fn virtual_space(settings: &Settings, pcie: PcieLayout) -> Result<ConfigSpace, BuildError> {
    let identity: Identity = identity(device_id::NVME, CLASS);
    Builder::virtual_function(identity)
        .pcie(pcie)
        .msix(msix(settings.vf_queue_pairs))
        .advanced_error_reporting()
        .alternative_routing(0)
        .build()
}
