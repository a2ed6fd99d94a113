// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hosts whose root complex is not riser's ([`RootDesign`]): the bus goes to the host's program, frames go to the link. Such a root
//! complex has one root port. Its end of the link is a slot after all slots of devices.

use super::Fabric;
use crate::bridge::Action;
use crate::queue::Event;
use crate::topology::{HostId, LinkId};
use endpoint::TlpPort;
use host::{HostBus, LinkHolds};

/// A root complex that is not riser's, below the program of a host. Both parts share their state.
pub struct RootDesign {
    /// The host, which has exactly one link.
    pub host: HostId,
    /// Its root port: a slot with its own data link layer ([`endpoint::FrameSlot`]).
    pub frames: Box<dyn TlpPort>,
    /// The bus above it.
    pub bus: Box<dyn HostBus>,
}

/// A root complex that is not riser's, in the fabric.
pub(super) struct Design {
    pub(super) host: HostId,
    /// The slot of its root port.
    slot: usize,
    link: LinkId,
    pub(super) bus: Box<dyn HostBus>,
    holds: LinkHolds,
}

impl Design {
    pub(super) fn new(host: HostId, slot: usize, link: LinkId, bus: Box<dyn HostBus>) -> Design {
        Design { host, slot, link, bus, holds: LinkHolds::default() }
    }
}

impl Fabric {
    /// Counters of the root complex of `host`, if that is not riser's.
    pub fn design_counts(&self, host: HostId) -> Option<Vec<(&'static str, u64)>> {
        let design = self.designs.iter().find(|design| design.host == host)?;
        Some(self.slot_counts(design.slot))
    }

    /// Number of slots with devices.
    pub(super) fn device_slots(&self) -> usize {
        self.slots.len() - self.designs.len()
    }

    /// Lets the program of `id` handle its inputs and issue requests, if its root complex is not riser's. Returns false otherwise.
    pub(super) fn step_design(&mut self, id: HostId) -> bool {
        let Some(design) = self.designs.iter_mut().find(|design| design.host == id) else { return false };
        match &mut self.hosts[id].program {
            Some(program) => program.step(self.now, &mut *design.bus, &mut self.touched),
            None => while design.bus.poll_input().is_some() {},
        }
        let slot = design.slot;
        self.wake_slot(slot);
        true
    }

    /// The root complex in slot `n`, if there is one, may have inputs for its host, and may ask for a change of its link.
    pub(super) fn poll_design(&mut self, n: usize) {
        let Some(design) = self.designs.iter_mut().find(|design| design.slot == n) else { return };
        if design.bus.has_input() {
            self.queue.push(self.now, Event::Host(design.host));
        }
        let (before, asked) = (design.holds, design.bus.link_holds());
        design.holds = asked;
        let port = self.slots[n].port;
        let mut act = |was: bool, is: bool, [on, off]: [Action; 2]| {
            if was != is {
                self.actions.push_back((port, if is { on } else { off }));
            }
        };
        act(before.reset, asked.reset, [Action::HoldReset, Action::ReleaseReset]);
        act(before.disabled, asked.disabled, [Action::Disable, Action::Enable]);
    }

    /// Returns the link of the root complex of `host`, and its slot, if that root complex is not riser's.
    pub(super) fn design_link(&self, host: HostId) -> Option<(LinkId, usize)> {
        let design = self.designs.iter().find(|design| design.host == host)?;
        Some((design.link, design.slot))
    }
}
