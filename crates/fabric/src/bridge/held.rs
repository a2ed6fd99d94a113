// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests of a bridge to the link at its port, and the reasons that keep that link down. This module never changes a
//! link.

use bitflags::bitflags;

/// A request of the owner of a port to its link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Hot reset begins: the link goes down, and stays down until [`Action::ReleaseReset`].
    HoldReset,
    /// Hot reset ends: the link comes up.
    ReleaseReset,
    /// Link Disable was set, or containment began: the link goes down, and stays down until [`Action::Enable`].
    Disable,
    /// Link Disable was cleared, or containment ended: the link comes up.
    Enable,
    /// The link retrains (Retrain Link).
    Retrain,
    /// The Virtual Channel capability has changed: the link's port follows it.
    Channels,
    /// Power Controller Control is off: the device in the slot loses its power, and its link goes down.
    PowerOff,
    /// Power Controller Control is on: the device in the slot is as after power-on, and its link comes up.
    PowerOn,
}

bitflags! {
    /// Reasons why a link is held down.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub(crate) struct DownReasons: u8 {
        /// Secondary Bus Reset of the port.
        const RESET = 1 << 0;
        /// A reset from above, in a switch: Secondary Bus Reset of its upstream port, or the upstream link is down
        /// (`PCIe 5.0 §6.6.1`).
        const RESET_ABOVE = 1 << 1;
        /// Link Disable of the port.
        const DISABLE = 1 << 2;
        /// Downstream Port Containment.
        const CONTAINED = 1 << 3;
        /// The power controller of the slot.
        const POWER = 1 << 4;
    }
}

/// Reasons that share an action, with the actions when the first of them is set and when the last is cleared.
const ROWS: [(DownReasons, Action, Action); 3] = [
    (DownReasons::RESET.union(DownReasons::RESET_ABOVE), Action::HoldReset, Action::ReleaseReset),
    (DownReasons::DISABLE.union(DownReasons::CONTAINED), Action::Disable, Action::Enable),
    (DownReasons::POWER, Action::PowerOff, Action::PowerOn),
];

impl DownReasons {
    /// Holds the link down because of `why`, or releases it; returns the actions for the link.
    pub(crate) fn keep(&mut self, why: DownReasons, on: bool) -> impl Iterator<Item = Action> + use<> {
        let before = *self;
        self.set(why, on);
        let after = *self;
        ROWS.into_iter().filter_map(move |(reasons, hold, release)| {
            match (before.intersects(reasons), after.intersects(reasons)) {
                (false, true) => Some(hold),
                (true, false) => Some(release),
                _ => None,
            }
        })
    }
}
