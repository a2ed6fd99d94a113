// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts of the tree that are not riser's, other than devices. Their ends of links are slots after all slots of devices.
//!
//! - A root complex ([`RootDesign`]): the bus goes to the host's program, frames go to the link. It has one root port.
//! - A switch ([`SwitchEnd::Design`]): a slot for each port that has a link. All its slots share one state.

use super::{Fabric, SwitchEnd};
use crate::bridge::Action;
use crate::queue::Event;
use crate::topology::{HostId, LinkId};
use endpoint::{LinkHolds, TlpPort};
use host::HostBus;

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
}

impl Design {
    pub(super) fn new(host: HostId, slot: usize, link: LinkId, bus: Box<dyn HostBus>) -> Design {
        Design { host, slot, link, bus }
    }
}

/// A switch that is not riser's, in the fabric.
pub(super) struct DesignedSwitch {
    /// Its number among all switches.
    pub(super) number: usize,
    /// The slots of its ports that have a link, the upstream port first.
    pub(super) slots: Vec<usize>,
}

impl Fabric {
    /// Counters of the root complex of `host`, if that is not riser's.
    pub fn design_counts(&self, host: HostId) -> Option<Vec<(&'static str, u64)>> {
        let design = self.designs.iter().find(|design| design.host == host)?;
        Some(self.slot_counts(design.slot))
    }

    /// Counters of switch `n`, if that is not riser's.
    pub fn switch_counts(&self, n: usize) -> Option<Vec<(&'static str, u64)>> {
        let design = self.designed_switches.iter().find(|design| design.number == n)?;
        Some(self.slot_counts(*design.slots.first()?))
    }

    /// The switch of slot `n`, if that is the port of a switch that is not riser's.
    pub(super) fn switch_of_slot(&self, n: usize) -> Option<&DesignedSwitch> {
        self.designed_switches.iter().find(|design| design.slots.contains(&n))
    }

    /// Whether the port at `index` is above a link, in a switch that is not riser's.
    pub(super) fn is_designed_downstream(&self, index: usize) -> bool {
        let mut slots = self.designed_switches.iter().flat_map(|design| &design.slots[1..]);
        slots.any(|&slot| self.slots[slot].port == index)
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

    /// The root complex in slot `n`, if there is one, may have inputs for its host. The other ports of the switch in slot `n`, if there is
    /// one, may have something to send.
    pub(super) fn poll_design(&mut self, n: usize) {
        let root = self.designs.iter().find(|design| design.slot == n);
        if let Some(design) = root.filter(|design| design.bus.has_input()) {
            self.queue.push(self.now, Event::Host(design.host));
        }
        self.arm_switch_of(n);
    }

    /// Requests the timers of all ports of the switch in slot `n`, if there is one.
    pub(super) fn arm_switch_of(&mut self, n: usize) {
        let Some(at) = self.designed_switches.iter().position(|design| design.slots.contains(&n)) else {
            return;
        };
        for port in 0..self.designed_switches[at].slots.len() {
            self.arm_slot(self.designed_switches[at].slots[port]);
        }
    }

    /// The port at `index`, above a link, asks for these states of its link.
    pub(super) fn note_holds(&mut self, index: usize, asked: LinkHolds) {
        let Some(before) = self.frame_end_mut(index).map(|end| std::mem::replace(&mut end.holds, asked))
        else {
            return;
        };
        let mut act = |was: bool, is: bool, [on, off]: [Action; 2]| {
            if was != is {
                self.actions.push_back((index, if is { on } else { off }));
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

impl SwitchEnd {
    /// Number of its ports, with the upstream port.
    pub(super) fn ports(&self) -> usize {
        match self {
            SwitchEnd::Own(switch) => switch.ports(),
            SwitchEnd::Design(ports) => ports.len(),
        }
    }

    /// Bytes of the longest non-posted request with data that `port` accepts.
    pub(super) fn longest_non_posted(&self, port: usize) -> u32 {
        match self {
            SwitchEnd::Own(switch) => switch.space(port).longest_non_posted(),
            SwitchEnd::Design(ports) => ports.get(port).map_or(0, |port| port.longest_non_posted()),
        }
    }
}
