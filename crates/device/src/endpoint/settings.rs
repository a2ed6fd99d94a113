// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the registers of a function say, in the form that the path of a TLP needs. Never outlives a register write.

use super::EndpointLimits;
use config::{BarKind, BarWindow, ConfigSpace, MsiConfig, MsixControl};
use tlp::{Attributes, Duration, Mps, Mrrs};

/// The settings of one function, read from its configuration space whenever a write changed it.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) bus_master: bool,
    pub(crate) mps: Mps,
    pub(crate) mrrs: Mrrs,
    pub(crate) align_reads: bool,
    /// Attributes that requests may have.
    pub(crate) attributes: Attributes,
    /// `None`: disabled.
    pub(crate) completion_timeout: Option<Duration>,
    pub(crate) msi: Option<MsiConfig>,
    pub(crate) msix: MsixControl,
    /// First tag and number of tags.
    pub(crate) tags: (u16, u16),
    /// The memory windows that are enabled.
    windows: [Option<BarWindow>; 6],
}

impl Settings {
    pub(crate) fn read(config: &ConfigSpace, limits: &EndpointLimits) -> Settings {
        Settings {
            bus_master: config.bus_master_enable(),
            mps: config.mps(),
            mrrs: config.mrrs(),
            align_reads: limits.align_reads,
            attributes: config.request_attributes(),
            completion_timeout: config.completion_timeout(limits.completion_timeout),
            msi: config.msi(),
            msix: config.msix(),
            tags: tag_range(config, limits.max_outstanding_reads),
            windows: std::array::from_fn(|i| enabled_window(config, i as u8)),
        }
    }

    /// The BAR that holds all `len` bytes from `address` on, and the offset there.
    pub(crate) fn decode(&self, address: u64, len: u64) -> Option<(u8, u64)> {
        let windows = self.windows.iter().enumerate();
        windows.filter_map(|(i, w)| Some((i as u8, w.as_ref()?.offset_of(address, len)?))).next()
    }
}

fn enabled_window(config: &ConfigSpace, index: u8) -> Option<BarWindow> {
    config.bar(index).filter(|w| w.kind != BarKind::Io && config.memory_enable())
}

/// Tags that the enable bits allow (`PCIe 5.0 §2.2.6.2`): 32, 256, or with 10 bits the 768 whose bits 9:8 are not 00b,
/// which are left to tell 8-bit tags apart.
fn tag_range(config: &ConfigSpace, max: u16) -> (u16, u16) {
    let (first, count) = match (config.ten_bit_tag_enable(), config.extended_tag_enable()) {
        (true, _) => (256, 768),
        (false, true) => (0, 256),
        (false, false) => (0, 32),
    };
    (first, count.min(max))
}
