// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of a native device in a lab. They contain all that enumeration finds, so that a lab can be inspected without running
//! the library.

use crate::bars::BarSettings;
use crate::guard::{DeviceStatus, Guard, Signals};
use crate::loader::{Instance, Loaded};
use crate::steps::{self, Parts, Step};
use config::cap::pm::PmLayout;
use config::{Bar, Builder, ConfigSpace, Identity, MsiLayout, MsixLayout};
use endpoint::FunctionConfig;
use plug::site::NativeCode;
use plug::{Fault, Model, Plugged, Shared, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use tlp::message::MessageCodes;

/// Offset of the Pending Bit Array, after the MSI-X table with 16 B for each of at most 2048 vectors.
const PENDING: u32 = 0x8000;
/// Size of the BAR with the MSI-X table and the Pending Bit Array.
const MSIX_BAR_BYTES: u64 = 0x10000;

/// A device in C or C++: a shared library with the entry point of `riser_device.h`. Its code runs only with `--allow-native`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["library"]))]
pub struct Settings {
    /// Path of the library, relative to the lab file.
    pub library: String,
    /// Text passed to the library as its settings.
    pub settings: String,
    /// Vendor ID.
    #[schemars(range(min = 0, max = 65534))]
    pub vendor_id: u16,
    /// Device ID.
    pub device_id: u16,
    /// Class: base class, sub-class and programming interface, 8 bits each.
    #[schemars(range(min = 0, max = 16_777_215))]
    pub class: u32,
    /// BARs. The default is BAR 0, `memory32` of 4 KiB.
    pub bars: Vec<BarSettings>,
    /// Kind of interrupts.
    pub interrupts: Interrupts,
    /// Interrupt vectors; for MSI a power of two up to 32.
    #[schemars(range(min = 0, max = 2048))]
    pub vectors: u16,
    /// The function has the pin INTA, which `RISER_INTX` drives.
    pub intx: bool,
    /// The function can send PME from D0 and D3hot, by `RISER_PME`.
    pub pme: bool,
    /// Number of configuration registers that the device implements, in DWs, after a vendor-specific capability.
    #[schemars(range(min = 0, max = 16))]
    pub config_registers: u8,
    /// Message Codes that the device receives.
    pub messages: Vec<u8>,
    /// Steps of the host program.
    pub step: Vec<Step>,
}

/// Kind of interrupts of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Interrupts {
    /// MSI.
    Msi,
    /// MSI-X, with the table in BAR 5.
    Msix,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            library: String::new(),
            settings: String::new(),
            vendor_id: 0x7269,
            device_id: 0x4800,
            class: 0xff_0000,
            bars: vec![BarSettings::default()],
            interrupts: Interrupts::Msi,
            vectors: 1,
            intx: false,
            pme: false,
            config_registers: 0,
            messages: Vec::new(),
            step: Vec::new(),
        }
    }
}

impl Model for Settings {
    const NAME: &'static str = "native";

    fn check_together(&self) -> Result<(), Fault> {
        if self.library.is_empty() {
            return Err(Fault::at("library", "library is missing, expected the path of a shared library"));
        }
        if self.interrupts == Interrupts::Msi
            && self.vectors > 0
            && !(self.vectors.is_power_of_two() && self.vectors <= 32)
        {
            let message = format!("vectors of {}, expected a power of two up to 32 for msi", self.vectors);
            return Err(Fault::at("vectors", message));
        }
        if self.settings.contains('\0') {
            return Err(Fault::at("settings", "settings contain a zero byte, which would end them"));
        }
        steps::check_steps(&self.step, Parts::one(&self.bars, self.vectors))
    }

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let at = |message: String| Fault::at("library", message);
        let path = self.path(site);
        if !path.is_file() {
            let what = if path.exists() { "not a regular file" } else { "no such file" };
            return Err(at(format!("library {}: {what}", path.display())));
        }
        let instance = match site.native {
            NativeCode::Allowed => {
                let library = Loaded::open(&path).map_err(|e| at(format!("library {e}")))?;
                Some(Instance::create(&library, &self.settings).map_err(|e| at(format!("library {e}")))?)
            }
            NativeCode::NotLoaded => None,
            NativeCode::Refused => {
                return Err(at(format!(
                    "library {}: native code runs only with --allow-native",
                    path.display()
                )));
            }
        };
        let told: Shared<DeviceStatus> = Shared::default();
        let codes = MessageCodes::of(&self.messages);
        let signals = Signals { intx: self.intx, pme: self.pme };
        let device = Guard::new(instance, site.payloads.clone(), codes, signals, told.clone());
        let function = FunctionConfig { config: self.config(site)?, device: Box::new(device) };
        let driver = steps::driver(&self.step, &told);
        Ok(Plugged::new(function, driver).reporting(&told))
    }
}

impl Settings {
    fn path(&self, site: &Site<'_>) -> PathBuf {
        let path = site.folder.path().join(&self.library);
        // Without a folder, the system would also search elsewhere for the library.
        if path.parent().is_none_or(|folder| folder == Path::new("")) {
            Path::new(".").join(path)
        } else {
            path
        }
    }

    fn config(&self, site: &Site<'_>) -> Result<ConfigSpace, Fault> {
        let mut builder = Builder::type0(Identity {
            vendor: self.vendor_id,
            device: self.device_id,
            revision: 0,
            class: self.class,
            subsystem_vendor: self.vendor_id,
            subsystem: self.device_id,
        });
        for bar in &self.bars {
            builder = bar.add_to(builder);
        }
        builder =
            match (self.interrupts, self.vectors) {
                (_, 0) => builder,
                (Interrupts::Msi, vectors) => builder.msi(MsiLayout { vectors: vectors.min(32) as u8 }),
                (Interrupts::Msix, vectors) => builder
                    .bar(5, Bar::memory32(MSIX_BAR_BYTES))
                    .msix(MsixLayout { vectors, table: (5, 0), pending: (5, PENDING) }),
            };
        if self.intx {
            builder = builder.interrupt_pin(1);
        }
        if self.pme {
            builder = builder.power_management_with(PmLayout { pme: true, ..PmLayout::default() });
        }
        if self.config_registers > 0 {
            builder = builder.vendor_specific_registers(self.config_registers);
        }
        builder.pcie(site.pcie).usual().build().map_err(|e| Fault::at("bars", e.to_string()))
    }
}
