// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The device's settings in lab files, its configuration space, its report, and what `riser bench` can measure.

use crate::device::{BAR, Copier, REGISTERS};
use crate::driver::driver;
use config::{Bar, Builder, ConfigSpace, Identity, MsiLayout, SriovLayout};
use device::AsyncDevice;
use endpoint::{FunctionConfig, VirtualFunctions};
use plug::file::Folder;
use plug::transfers::{Offer, Pattern, Test, Transfers, Workload};
use plug::{Fault, FunctionRegisters, MemoryKind, Model, Needs, Plugged, Shared, Shown, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tlp::Time;

/// A Vendor ID that is not assigned, as far as known. Replace it by your own ID.
const VENDOR: u16 = 0x7269;
const DEVICE: u16 = 0x4000;
const VF_DEVICE: u16 = 0x4001;
/// DMA controller (PCI Code and ID Assignment Specification, §1.9).
const CLASS: u32 = 0x08_0100;

/// Copies host memory by DMA and sums the bytes. Its driver checks every byte.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Copies that the driver requests.
    #[schemars(range(min = 1, max = 100_000))]
    pub copies: u32,
    /// Bytes of each copy.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub copy_bytes: u32,
    /// Bytes that the device moves at a time, at most `copy_bytes`.
    #[schemars(range(min = 1, max = 4096))]
    pub piece_bytes: u32,
    /// Pieces in flight at a time.
    #[schemars(range(min = 1, max = 256))]
    pub in_flight: u16,
    /// Virtual functions (SR-IOV). Each is a separate copier.
    #[schemars(range(min = 0, max = 8))]
    pub vfs: u16,
    /// Number of the doorbell that the device ignores, counted from 1: a fault for drivers to survive. 0 means none.
    pub deaf_to: u64,
    /// Warm-up transfers and measured transfers of `riser bench`.
    #[serde(skip)]
    pub measured: Option<(u64, u64)>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            copies: 4,
            copy_bytes: 65536,
            piece_bytes: 512,
            in_flight: 16,
            vfs: 0,
            deaf_to: 0,
            measured: None,
        }
    }
}

/// Counters of the device.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Doorbells received.
    pub doorbells: u64,
    /// Finished copies.
    pub copies: u64,
    /// Bytes copied.
    pub bytes: u64,
    pub(crate) first: Option<Time>,
    pub(crate) last: Time,
    all_bytes: u64,
}

impl plug::Report for Report {
    fn shown(&self, _: Time) -> Shown {
        Shown::new().with("copies", self.copies).with("bytes", self.bytes).with("copied_gbps", self.gbps())
    }

    fn transfers(&self) -> Option<(u64, u64)> {
        Some((self.bytes, self.all_bytes))
    }
}

impl Model for Settings {
    const NAME: &'static str = "my-device";
    const REGISTERS: &'static [FunctionRegisters] = &[
        FunctionRegisters { vendor: VENDOR, device: DEVICE, registers: REGISTERS },
        FunctionRegisters { vendor: VENDOR, device: VF_DEVICE, registers: REGISTERS },
    ];
    const TESTS: &'static [Test] = &[Test::BwRdWr];

    fn check_together(&self) -> Result<(), Fault> {
        let Settings { copy_bytes, piece_bytes, .. } = self;
        if piece_bytes > copy_bytes {
            let message = format!("piece_bytes of {piece_bytes}, expected at most copy_bytes, {copy_bytes}");
            return Err(Fault::at("piece_bytes", message));
        }
        Ok(())
    }

    fn needs(&self) -> Needs {
        Needs { virtual_functions: self.vfs, ..Needs::default() }
    }

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let functions = u64::from(self.vfs) + 1;
        let all_bytes = u64::from(self.copies) * u64::from(self.copy_bytes) * functions;
        let report = Shared::new(Report { all_bytes, ..Report::default() });
        let counted = |(warm_up, wanted)| Shared::new(Transfers::of(Test::BwRdWr, warm_up, wanted));
        let measured = self.measured.map(counted);
        let (settings, told, counts) = (self.clone(), report.clone(), measured.clone());
        let device = move || {
            let (settings, report, measured) = (settings.clone(), told.clone(), counts.clone());
            let copier = move || Copier {
                settings: settings.clone(),
                report: report.clone(),
                measured: measured.clone(),
            };
            Box::new(AsyncDevice::new(move |io| copier().run(io)))
        };
        let physical = FunctionConfig { config: self.physical(site)?, device: device() };
        let virtual_functions = match self.vfs {
            0 => None,
            _ => Some(VirtualFunctions { config: virtual_space(site)?, device: Box::new(move |_| device()) }),
        };
        let settings = self.clone();
        let drive = move |cpu, functions| driver(cpu, functions, settings.clone());
        let plugged = Plugged::with_virtual_functions(physical, virtual_functions, drive).reporting(&report);
        Ok(match &measured {
            Some(transfers) => plugged.measuring(transfers),
            None => plugged,
        })
    }

    /// Offers alternating reads and writes, because each piece is a read and a write.
    fn offer(workload: &Workload, _: &Folder) -> Result<Offer, Fault> {
        let piece_bytes = workload.size_bytes;
        let window_bytes = workload.window_bytes.unwrap_or(64 * u64::from(piece_bytes));
        if !window_bytes.is_multiple_of(u64::from(piece_bytes)) {
            let message =
                format!("window_bytes of {window_bytes}, expected a multiple of size_bytes, {piece_bytes}");
            return Err(Fault::at("window_bytes", message));
        }
        let settings = Settings {
            copies: 1,
            copy_bytes: u32::try_from(window_bytes).unwrap_or(u32::MAX),
            piece_bytes,
            in_flight: workload.outstanding.unwrap_or(32),
            vfs: 0,
            deaf_to: 0,
            measured: Some((workload.warm_up, workload.transfers)),
        };
        settings.check()?;
        Workload::only("profile", workload.profile.as_ref(), "ideal".to_owned())?;
        Ok(Offer {
            outstanding: settings.in_flight,
            pattern: Workload::only("pattern", workload.pattern.as_ref(), Pattern::Sequential)?,
            host_offset_bytes: Workload::only("host_offset_bytes", workload.host_offset_bytes.as_ref(), 0)?,
            ..Offer::new(
                settings,
                window_bytes,
                Workload::only("memory", workload.memory.as_ref(), MemoryKind::Low)?,
            )
        })
    }
}

impl Settings {
    /// Returns the configuration space: IDs, BAR, interrupt and virtual functions.
    fn physical(&self, site: &Site<'_>) -> Result<ConfigSpace, Fault> {
        let builder = Builder::type0(identity(DEVICE))
            .bar(BAR, Bar::memory64(4096))
            .msi(MsiLayout { vectors: 1 })
            .pcie(site.pcie)
            .usual();
        if self.vfs == 0 {
            return Ok(builder.build()?);
        }
        let sriov = SriovLayout::new(self.vfs, VF_DEVICE).bar(BAR, Bar::memory64(4096));
        Ok(builder.alternative_routing(0).single_root_virtualization(sriov).build()?)
    }
}

/// Returns the configuration space of a virtual function. The physical function's SR-IOV capability has its BAR.
fn virtual_space(site: &Site<'_>) -> Result<ConfigSpace, Fault> {
    let builder = Builder::virtual_function(identity(VF_DEVICE)).msi(MsiLayout { vectors: 1 });
    Ok(builder.pcie(site.pcie).advanced_error_reporting().alternative_routing(0).build()?)
}

const fn identity(device: u16) -> Identity {
    Identity {
        vendor: VENDOR,
        device,
        revision: 1,
        class: CLASS,
        subsystem_vendor: VENDOR,
        subsystem: device,
    }
}
