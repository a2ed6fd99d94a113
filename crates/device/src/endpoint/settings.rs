// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the registers of a function say, in the form that the path of a TLP needs. Never outlives a register write.

use super::EndpointLimits;
use config::{AtomicSupport, BarKind, BarWindow, ConfigSpace, DeferrableLength, MsiConfig, MsixControl};
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
    /// A Legacy PCI Express Endpoint, which may take locked reads.
    pub(crate) legacy: bool,
    /// AtomicOps that it completes, and whether it may send them.
    pub(crate) atomics: AtomicSupport,
    pub(crate) atomic_requester: bool,
    /// Bytes of the longest deferrable write that it completes; zero: none.
    pub(crate) deferrable_bytes: u32,
    /// ECRC Generation Enable and ECRC Check Enable.
    pub(crate) ecrc_generation: bool,
    pub(crate) ecrc_check: bool,
    /// The memory windows that are enabled, and the I/O windows.
    windows: [Option<BarWindow>; 6],
    io_windows: [Option<BarWindow>; 6],
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
            legacy: config.is_legacy(),
            atomics: config.atomics(),
            atomic_requester: config.atomic_requester_enable(),
            deferrable_bytes: config.deferrable_write().map_or(0, DeferrableLength::bytes),
            ecrc_generation: config.ecrc_generation(),
            ecrc_check: config.ecrc_check(),
            windows: std::array::from_fn(|i| enabled_window(config, i as u8, false)),
            io_windows: std::array::from_fn(|i| enabled_window(config, i as u8, true)),
        }
    }

    /// The BAR that holds all `len` bytes from `address` on, and the offset there.
    pub(crate) fn decode(&self, address: u64, len: u64) -> Option<(u8, u64)> {
        find(&self.windows, address, len)
    }

    /// The same in I/O space.
    pub(crate) fn decode_io(&self, address: u64, len: u64) -> Option<(u8, u64)> {
        find(&self.io_windows, address, len)
    }
}

#[inline]
fn find(windows: &[Option<BarWindow>; 6], address: u64, len: u64) -> Option<(u8, u64)> {
    let windows = windows.iter().enumerate();
    windows.filter_map(|(i, w)| Some((i as u8, w.as_ref()?.offset_of(address, len)?))).next()
}

/// Memory Space Enable and I/O Space Enable gate the windows of their spaces (`PCIe 5.0 §7.5.1.1.3`).
fn enabled_window(config: &ConfigSpace, index: u8, io: bool) -> Option<BarWindow> {
    let enabled = if io { config.io_enable() } else { config.memory_enable() };
    config.bar(index).filter(|w| enabled && (w.kind == BarKind::Io) == io)
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
