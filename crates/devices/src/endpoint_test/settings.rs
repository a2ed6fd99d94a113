// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of the endpoint and of its driver.

use super::{Counters, DEVICE, EndpointTestReport, REGISTERS, VENDOR, driver, function, msix};
use plug::{Fault, FunctionRegisters, Model, Plugged, Shared, Shown, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tlp::Time;

/// Allowed sizes of a BAR in bytes.
const BAR_BYTES: std::ops::RangeInclusive<u64> = 128..=16 << 20;

/// The device that the kernel's `pci_endpoint_test` tests: BARs, interrupts, transfers with checksums. The driver runs the tests of its
/// tool `pcitest`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Size of each BAR in bytes, a power of two from 128 to 16777216; 0 for no BAR. BAR 0 has the registers, and from 4096 on the MSI-X
    /// table.
    pub bar_bytes: [u64; 6],
    /// Whether the device has INTx.
    pub intx: bool,
    /// Vectors of MSI, a power of two; 0 for no MSI.
    #[schemars(range(min = 0, max = 32))]
    pub msi: u8,
    /// Vectors of MSI-X; 0 for no MSI-X.
    #[schemars(range(min = 0, max = 2048))]
    pub msix: u16,
    /// Class Code. The kernel's driver `vmd` assigns exclusive vectors only to 0x010802 (NVMe).
    #[schemars(range(min = 0, max = 16_777_215))]
    pub class: u32,
    /// Maximum size of a transfer in bytes; the addresses of a longer transfer count as invalid.
    #[schemars(range(min = 1_048_576, max = 1_073_741_824))]
    pub transfer_bytes: u32,
    /// Driver: sizes in bytes of the transfers to read, write and copy, at most `transfer_bytes` each.
    #[schemars(length(max = 256), inner(range(min = 1, max = 1_073_741_824)))]
    pub sizes_bytes: Vec<u32>,
}

impl Default for Settings {
    /// BARs, interrupts and sizes of the kernel's own function and script.
    fn default() -> Settings {
        Settings {
            bar_bytes: [64 << 10, 512, 1024, 16 << 10, 128 << 10, 1 << 20],
            intx: true,
            msi: 32,
            msix: 64,
            class: 0xff_0000,
            transfer_bytes: 16 << 20,
            sizes_bytes: vec![1, 1024, 1025, 1_024_000, 1_024_001],
        }
    }
}

impl Settings {
    /// Returns the minimum size of BAR 0 in bytes.
    fn least_bytes(&self) -> u64 {
        if self.msix == 0 {
            return *BAR_BYTES.start();
        }
        let msix = msix(self.msix);
        (u64::from(msix.pending.1) + msix.pending_bytes()).next_power_of_two()
    }
}

impl Model for Settings {
    const NAME: &'static str = "endpoint-test";
    const REGISTERS: &'static [FunctionRegisters] =
        &[FunctionRegisters { vendor: VENDOR, device: DEVICE, registers: REGISTERS }];

    fn check_together(&self) -> Result<(), Fault> {
        let is_legal = |bytes: u64| bytes.is_power_of_two() && BAR_BYTES.contains(&bytes);
        if let Some(n) = self.bar_bytes.iter().position(|bytes| *bytes != 0 && !is_legal(*bytes)) {
            let message = format!(
                "{}, expected 0 or a power of two from {} to {}",
                self.bar_bytes[n],
                BAR_BYTES.start(),
                BAR_BYTES.end()
            );
            return Err(Fault::at(&format!("bar_bytes.{n}"), message));
        }
        if self.bar_bytes[0] < self.least_bytes() {
            let (bytes, least) = (self.bar_bytes[0], self.least_bytes());
            let message = format!(
                "{bytes}, expected at least {least} for the registers and {} vectors of MSI-X",
                self.msix
            );
            return Err(Fault::at("bar_bytes.0", message));
        }
        if self.msi != 0 && !self.msi.is_power_of_two() {
            let message = format!("{}, expected 0, 1, 2, 4, 8, 16 or 32", self.msi);
            return Err(Fault::at("msi", message));
        }
        match self.sizes_bytes.iter().position(|bytes| *bytes > self.transfer_bytes) {
            None => Ok(()),
            Some(n) => {
                let message = format!(
                    "{}, expected at most transfer_bytes, {}",
                    self.sizes_bytes[n], self.transfer_bytes
                );
                Err(Fault::at(&format!("sizes_bytes.{n}"), message))
            }
        }
    }

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let (settings, seen) = (self.clone(), Seen::default());
        let function = function(self, site.pcie, site.payloads, &seen.counters)?;
        let told = seen.driver.clone();
        let plugged =
            Plugged::new(function, move |cpu, found| driver(cpu, found, settings.clone(), told.clone()));
        Ok(plugged.reporting(&Shared::new(seen)))
    }
}

/// Counters of the device, and tests of the driver.
#[derive(Default)]
struct Seen {
    counters: Shared<Counters>,
    driver: Shared<EndpointTestReport>,
}

impl plug::Report for Seen {
    fn shown(&self, _: Time) -> Shown {
        let Counters { reads, writes, copies, failed, interrupts, refused } = *self.counters.get();
        let EndpointTestReport { bars, vectors, transfers } = *self.driver.get();
        Shown::new().with_counts([
            ("reads", reads),
            ("writes", writes),
            ("copies", copies),
            ("failed_transfers", failed),
            ("interrupts_raised", interrupts),
            ("refused_commands", refused),
            ("bars_tested", bars),
            ("vectors_tested", vectors),
            ("transfers_tested", transfers),
        ])
    }
}
