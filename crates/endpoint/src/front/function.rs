// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One function of a front: its configuration space, the settings read from it, and its device.

use super::answers::Completer;
use super::msix::Msix;
use super::settings::Settings;
use super::{Behind, Shared};
use config::{ConfigSpace, ResetScope};
use device::seam::ResetKind;
use tlp::{Bdf, Duration, Time, TrafficClass};

/// One function.
pub(crate) struct Function<B> {
    /// Its index among the functions.
    pub(crate) number: u16,
    /// Its ID less that of function 0.
    pub(super) distance: u16,
    /// The physical function, of a virtual one.
    pub(super) physical: Option<u16>,
    /// Whether its device asserts its interrupt, and whether that drives the pin.
    pub(super) intx: bool,
    pub(super) asserts_intx: bool,
    pub(crate) config: ConfigSpace,
    pub(crate) settings: Settings,
    pub(crate) msix: Option<Msix>,
    pub(crate) behind: B,
}

impl<B: Behind> Function<B> {
    pub(super) fn new(
        number: u16,
        config: ConfigSpace,
        device: Option<B::Device>,
        shared: &Shared,
    ) -> Function<B> {
        let settings = Settings::read(&config, &shared.limits);
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

    /// Reads the settings from the registers again; a virtual function keeps what it has inherited.
    pub(super) fn refresh(&mut self, shared: &Shared) {
        let own = Settings::read(&self.config, &shared.limits);
        let settings = if self.is_physical() { own } else { own.beneath(&self.settings) };
        self.apply(settings);
    }

    /// Takes these settings from now on.
    pub(super) fn apply(&mut self, settings: Settings) {
        self.settings = settings;
        self.behind.follow(&self.settings);
    }

    /// Makes it a virtual function of this physical one.
    pub(super) fn of_physical(self, physical: u16) -> Function<B> {
        Function { physical: Some(physical), ..self }
    }

    /// True for a physical function.
    pub(super) fn is_physical(&self) -> bool {
        self.physical.is_none()
    }

    /// Requester ID and Completer ID.
    pub(crate) fn id(&self, shared: &Shared) -> Bdf {
        Bdf::from_bits(shared.bus_device.wrapping_add(self.distance))
    }

    /// The completer of its completions.
    pub(crate) fn completer(&self, shared: &Shared) -> Completer {
        Completer { id: self.id(shared), attributes: self.settings.completion_attributes }
    }

    /// The time that a request waits for its completions; its tag rests as long after a timeout, even where the
    /// timeout is disabled.
    pub(crate) fn quarantine(&self, shared: &Shared) -> Duration {
        self.settings.completion_timeout.unwrap_or(shared.limits.completion_timeout)
    }

    /// Gives the pool of tags, where there is one, those that it has released.
    pub(crate) fn return_tags(&mut self, shared: &mut Shared) {
        if let Some(pool) = &mut shared.tags {
            self.behind.return_tags(pool);
        }
    }

    /// True where what was accepted at `stamp` is older than all posted TLPs of `tc` that wait.
    pub(super) fn precedes_posted(&self, tc: TrafficClass, stamp: u64) -> bool {
        self.behind.oldest_posted(tc).is_none_or(|posted| stamp < posted)
    }

    /// As [`precedes_posted`](Self::precedes_posted), for a completion, which is polled again where it has to wait.
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
