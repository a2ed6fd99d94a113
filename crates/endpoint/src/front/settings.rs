// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The register settings of a function, in the form that the path of a TLP needs. Never outlives a register write.

use super::{EndpointLimits, TagsPer};
use config::{
    AtomicSupport, BarKind, BarWindow, ConfigSpace, DeferrableLength, MsiConfig, MsixControl, PowerState,
};
use device::seam::{BarIndex, DmaError};
use tlp::{Attributes, Duration, Mps, Mrrs, RuleId, TaggedRequests, Violation};

/// A place in a BAR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BarOffset {
    /// The function.
    pub(crate) index: usize,
    /// BAR number.
    pub(crate) bar: BarIndex,
    /// Offset of the first byte in the BAR.
    pub(crate) offset: u64,
}

/// The settings of one function, read from its configuration space after each write that changes it.
#[derive(Clone, Debug)]
pub(crate) struct FunctionSettings {
    pub(crate) bus_master: bool,
    pub(crate) mps: Mps,
    pub(crate) mrrs: Mrrs,
    pub(crate) align_reads: bool,
    /// See [`EndpointLimits::lenient_completions`].
    pub(crate) lenient_completions: bool,
    /// Attributes that requests may have.
    pub(crate) attributes: Attributes,
    /// Attributes of requests that their completions may have.
    pub(crate) completion_attributes: Attributes,
    /// `None` if the timeout is disabled.
    pub(crate) completion_timeout: Option<Duration>,
    pub(crate) msi: Option<MsiConfig>,
    pub(crate) msix: MsixControl,
    /// First tag and number of tags, which are separate or part of the pool.
    pub(crate) tags: (u16, u16),
    pub(crate) pooled: bool,
    /// `tags` if 10-bit tags are disabled.
    short_tags: (u16, u16),
    /// Whether the function is a Legacy PCI Express Endpoint, which may serve locked reads.
    pub(crate) legacy: bool,
    /// The AtomicOps that it completes, and whether it may send AtomicOps.
    pub(crate) atomics: AtomicSupport,
    pub(crate) atomic_requester: bool,
    /// Length in bytes of the longest deferrable write that it completes; zero if it completes none.
    pub(crate) deferrable_bytes: u32,
    /// Number of end-to-end prefixes that it accepts, 0 to 4.
    pub(crate) end_end_prefixes: u8,
    /// ECRC Generation Enable and ECRC Check Enable.
    pub(crate) ecrc_generation: bool,
    pub(crate) ecrc_check: bool,
    /// Whether a previously masked interrupt may be due: a vector of MSI-X, or a pending vector of MSI.
    pub(crate) may_unmask: bool,
    /// Interrupt Pin, and whether messages report its level: not while Interrupt Disable is set, or MSI or MSI-X is enabled.
    pub(crate) interrupt_pin: u8,
    pub(crate) intx_allowed: bool,
    /// Whether the function is in D0.
    pub(crate) in_d0: bool,
    /// The enabled memory windows and the enabled I/O windows.
    windows: [Option<BarWindow>; 6],
    io_windows: [Option<BarWindow>; 6],
}

impl FunctionSettings {
    pub(crate) fn read(config: &ConfigSpace, limits: &EndpointLimits) -> FunctionSettings {
        let in_d0 = in_d0(config);
        let (msi, msix) = (config.msi(), config.msix());
        FunctionSettings {
            bus_master: in_d0 && config.bus_master_enable(),
            mps: config.mps(),
            mrrs: config.mrrs(),
            align_reads: limits.align_reads,
            lenient_completions: limits.lenient_completions,
            attributes: config.request_attributes(),
            completion_attributes: config.completion_attributes(),
            completion_timeout: config.completion_timeout(limits.completion_timeout),
            msi,
            msix,
            tags: tag_range(config, config.ten_bit_tag_enable(), limits.max_outstanding_reads),
            short_tags: tag_range(config, false, limits.max_outstanding_reads),
            pooled: limits.tags_per == TagsPer::Endpoint,
            legacy: config.is_legacy(),
            atomics: config.atomics(),
            atomic_requester: config.atomic_requester_enable(),
            deferrable_bytes: config.deferrable_write().map_or(0, DeferrableLength::bytes),
            end_end_prefixes: config.end_end_prefixes(),
            ecrc_generation: config.ecrc_generation(),
            ecrc_check: config.ecrc_check(),
            may_unmask: msix.enabled || unmasked(config, msi) != 0,
            interrupt_pin: config.interrupt_pin().unwrap_or(0),
            intx_allowed: in_d0 && !config.interrupt_disable() && msi.is_none() && !msix.enabled,
            in_d0,
            windows: std::array::from_fn(|i| enabled_window(config, i as u8, false)),
            io_windows: std::array::from_fn(|i| enabled_window(config, i as u8, true)),
        }
    }

    /// Returns these settings of a virtual function, combined with the settings that it inherits from its physical
    /// function. A virtual function has its own interrupts, Bus Master Enable and power state. Its windows are parts of
    /// the common windows (`PCIe 5.0 §9.3.5`).
    pub(crate) fn inherited(self, physical: &FunctionSettings, ten_bit_tag: bool) -> FunctionSettings {
        let tags = if ten_bit_tag { physical.tags } else { physical.short_tags };
        FunctionSettings { tags, ..self.beneath(physical) }
    }

    /// Returns these settings of a virtual function, combined with the settings that `above` determines. `above` is its
    /// physical function. Before a reset, `above` has its own settings, because a reset changes none of the inherited
    /// ones.
    pub(super) fn beneath(self, above: &FunctionSettings) -> FunctionSettings {
        let (bus_master, in_d0) = (self.bus_master && above.in_d0, self.in_d0);
        let FunctionSettings { msi, msix, may_unmask, .. } = self;
        let (interrupt_pin, intx_allowed) = (0, false);
        let (windows, io_windows) = ([None; 6], [None; 6]);
        FunctionSettings {
            bus_master,
            msi,
            msix,
            may_unmask,
            interrupt_pin,
            intx_allowed,
            in_d0,
            windows,
            io_windows,
            ..above.clone()
        }
    }

    /// Returns why the function may issue no requests if `bus_master` is false.
    pub(crate) fn not_bus_master(&self) -> DmaError {
        if self.in_d0 { DmaError::BusMasterDisabled } else { DmaError::NotInD0 }
    }

    /// Returns the same as a violation. All states other than D0 count as D3.
    #[cold]
    pub(crate) fn gate(&self) -> Violation {
        if self.in_d0 {
            Violation::new(RuleId::BusMasterEnable, 0)
        } else {
            Violation::new(RuleId::PowerState, 3)
        }
    }

    /// Sets the tags of a function with these settings.
    pub(crate) fn give_tags<T: Default>(&self, to: &mut TaggedRequests<T>) {
        let (first, count) = self.tags;
        if self.pooled {
            to.borrow_below(first + count);
        } else {
            to.set_range(first, count);
        }
    }

    /// Returns the enabled windows, by BAR.
    pub(crate) fn enabled_windows(&self) -> [Option<BarWindow>; 6] {
        std::array::from_fn(|i| self.windows[i].or(self.io_windows[i]))
    }

    /// Returns the place of the BAR that holds all `len` bytes from `address` on, for the only function.
    pub(crate) fn decode(&self, address: u64, len: u64) -> Option<BarOffset> {
        find(&self.windows, address, len)
    }

    /// Like [`decode`](Self::decode), in I/O space.
    pub(crate) fn decode_io(&self, address: u64, len: u64) -> Option<BarOffset> {
        find(&self.io_windows, address, len)
    }
}

fn find(windows: &[Option<BarWindow>; 6], address: u64, len: u64) -> Option<BarOffset> {
    let place = |(bar, window): (u8, &Option<BarWindow>)| {
        let offset = window.as_ref()?.offset_of(address, len)?;
        Some(BarOffset { index: 0, bar: BarIndex(bar), offset })
    };
    (0..).zip(windows).find_map(place)
}

/// Returns the window of a BAR if Memory Space Enable or I/O Space Enable lets it decode (`PCIe 5.0 §7.5.1.1.3`).
fn enabled_window(config: &ConfigSpace, index: u8, io: bool) -> Option<BarWindow> {
    let enabled = if io { config.io_enable() } else { config.memory_enable() };
    config.bar(index).filter(|w| enabled && in_d0(config) && (w.kind == BarKind::Io) == io)
}

/// Returns the tags that the enable bits allow (`PCIe 5.0 §2.2.6.2`): 32, 256, or with 10 bits the 768 whose bits 9:8
/// are not 00b, which distinguishes them from 8-bit tags.
fn tag_range(config: &ConfigSpace, ten_bit: bool, max: u16) -> (u16, u16) {
    let (first, count) = match (ten_bit, config.extended_tag_enable()) {
        (true, _) => (256, 768),
        (false, true) => (0, 256),
        (false, false) => (0, 32),
    };
    (first, count.min(max))
}

/// Returns the pending vectors of MSI, among those granted, whose mask bit is clear.
pub(crate) fn unmasked(config: &ConfigSpace, msi: Option<MsiConfig>) -> u32 {
    let granted = msi.map_or(0, |m| (1u64 << m.vectors) - 1) as u32;
    config.msi_pending() & !config.msi_mask() & granted
}

/// Returns true in D0, the only state in which a function claims addresses and issues requests (`PCIe 5.0 §5.3.1`).
fn in_d0(config: &ConfigSpace) -> bool {
    config.power_state() == PowerState::D0
}
