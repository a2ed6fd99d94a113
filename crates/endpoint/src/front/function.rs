// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One function of a front: its configuration space, the settings read from it, and its device.

use super::msix::Msix;
use super::requests::Completer;
use super::settings::FunctionSettings;
use super::{FunctionBackend, Shared};
use config::{ConfigSpace, ResetScope};
use device::seam::ResetKind;
use tlp::{Bdf, Duration, Time, TrafficClass};

/// One function.
pub(crate) struct Function<B> {
    /// Index among the functions.
    pub(crate) number: u16,
    /// Its ID minus the ID of function 0.
    pub(super) distance: u16,
    /// The physical function of a virtual function.
    pub(super) physical: Option<u16>,
    /// Whether the device asserts its interrupt, and whether this drives the pin.
    pub(super) intx: bool,
    pub(super) asserts_intx: bool,
    pub(crate) config: ConfigSpace,
    pub(crate) settings: FunctionSettings,
    pub(crate) msix: Option<Msix>,
    pub(crate) behind: B,
}

impl<B: FunctionBackend> Function<B> {
    pub(super) fn new(
        number: u16,
        config: ConfigSpace,
        device: Option<B::Device>,
        shared: &Shared,
    ) -> Function<B> {
        let settings = FunctionSettings::read(&config, &shared.limits);
        let msix = config.msix_layout().filter(|_| !shared.limits.msix_in_device).map(Msix::new);
        let mut behind = B::new(device);
        behind.set_vectors(config.interrupt_vectors());
        behind.follow(&settings);
        Function {
            number,
            distance: number,
            physical: None,
            intx: false,
            asserts_intx: false,
            config,
            settings,
            msix,
            behind,
        }
    }

    /// Reads the settings from the registers again; a virtual function keeps its inherited settings.
    pub(super) fn refresh(&mut self, shared: &Shared) {
        let own = FunctionSettings::read(&self.config, &shared.limits);
        let settings = if self.is_physical() { own } else { own.beneath(&self.settings) };
        self.apply(settings);
    }

    /// Applies these settings.
    pub(super) fn apply(&mut self, settings: FunctionSettings) {
        self.settings = settings;
        self.behind.follow(&self.settings);
    }

    /// Makes this function a virtual function of `physical`.
    pub(super) fn of_physical(self, physical: u16) -> Function<B> {
        Function { physical: Some(physical), ..self }
    }

    /// Returns whether this is a physical function.
    pub(super) fn is_physical(&self) -> bool {
        self.physical.is_none()
    }

    /// Returns the Requester ID and Completer ID.
    pub(crate) fn id(&self, shared: &Shared) -> Bdf {
        Bdf::from_bits(shared.bus_device.wrapping_add(self.distance))
    }

    /// Returns the completer of its completions.
    pub(crate) fn completer(&self, shared: &Shared) -> Completer {
        Completer { id: self.id(shared), attributes: self.settings.completion_attributes }
    }

    /// Returns how long a request waits for its completions. Its tag rests for the same time after a timeout, even if
    /// the timeout is disabled.
    pub(crate) fn quarantine(&self, shared: &Shared) -> Duration {
        self.settings.completion_timeout.unwrap_or(shared.limits.completion_timeout)
    }

    /// Returns the released tags to the pool, if there is one.
    pub(crate) fn return_tags(&mut self, shared: &mut Shared) {
        if let Some(pool) = &mut shared.tags {
            self.behind.return_tags(pool);
        }
    }

    /// Returns whether the item accepted at `stamp` is older than all waiting posted TLPs of `tc`.
    pub(super) fn precedes_posted(&self, tc: TrafficClass, stamp: u64) -> bool {
        self.behind.oldest_posted(tc).is_none_or(|posted| stamp < posted)
    }

    /// Like [`precedes_posted`](Self::precedes_posted), for a completion, which is polled again if it has to wait.
    pub(super) fn may_complete(&mut self, tc: TrafficClass, stamp: u64) -> bool {
        let may = self.precedes_posted(tc, stamp);
        if !may {
            self.behind.hold();
        }
        may
    }

    pub(super) fn reset(&mut self, now: Time, shared: &mut Shared, kind: ResetKind) {
        let until = now + self.quarantine(shared);
        self.config.reset(match kind {
            ResetKind::Fundamental => ResetScope::Fundamental,
            ResetKind::Hot => ResetScope::Hot,
            _ => ResetScope::FunctionLevel,
        });
        self.refresh(shared);
        if let Some(msix) = &mut self.msix {
            msix.reset();
        }
        shared.requests.void(self.number);
        self.intx = false;
        self.refresh_intx(now, shared);
        self.behind.reset(now, kind, until, shared);
    }
}
