// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links that go down, come up and change their speed, and the notices of ports to their owners. Faults, scheduled
//! events and the owners of ports request changes of links; this module executes them.

use super::{Fabric, NoHost, SwitchState};
use crate::bridge::{Action, BridgeOwner};
use crate::effects::Effect;
use crate::fault::{Cut, FaultCounts, FaultRule};
use crate::queue::Event;
use crate::tap::Direction;
use crate::topology::{HostId, LinkChange, LinkConfig, LinkEvent, LinkId, Owner, PortId, Side};
use crate::wire::InFlight;
use bitflags::bitflags;
use config::SlotEvent;
use endpoint::channels_of;
use link::{Frame, Lost, Notice, Rare};
use std::collections::BTreeSet;
use tlp::{Class, Duration, Rate, Time, Width};

/// Time from the release of a link until flow-control initialization begins. Training from Detect takes some ten
/// milliseconds (`PCIe 5.0 §4.2.6`) and is not modelled. This figure is not from the specification. It is long enough
/// to be visible.
const TRAINING: Duration = Duration::from_us(10);

/// Time after power-on for which a host waits for devices: a thousandth of the 100 ms of `PCIe 5.0 §6.6.1`, because
/// training is shorter by the same factor here.
const START_PATIENCE: Duration = Duration::from_us(100);

/// Number of sequence numbers, of 12 bits (`PCIe 5.0 §3.5.1`).
const SEQUENCE_NUMBERS: u16 = 1 << 12;

bitflags! {
    /// Reasons why a link is down.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub(super) struct LinkDown: u8 {
        /// The link is cut.
        const CUT = 1 << 0;
        /// The slot is empty.
        const EMPTY = 1 << 1;
        /// The port above holds the link in reset.
        const RESET = 1 << 2;
        /// The port above has the link disabled.
        const DISABLED = 1 << 3;
        /// The port above has the slot's power off.
        const UNPOWERED = 1 << 4;
    }
}

/// The state of a link after Recovery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recovery {
    /// The highest rate, and the width, at which the link can work.
    pub(super) best: (Rate, Width),
    /// End of the last Recovery requested.
    pub(super) until: Time,
}

impl Recovery {
    /// The link has not been in Recovery yet.
    pub(super) fn of(link: &LinkConfig) -> Recovery {
        Recovery { best: (link.root.rate, link.root.width), until: Time::ZERO }
    }
}

impl Fabric {
    /// Schedules a change of a link: see [`LinkChange`].
    pub fn schedule(&mut self, event: LinkEvent) {
        self.queue.push(event.at.max(self.now), Event::LinkChange(self.link_events.len() as u32));
        self.link_events.push(event);
    }

    /// Adds a fault rule, which counts frames from now on. A rule for a link that does not exist has no effect.
    pub fn add_fault(&mut self, rule: FaultRule) {
        let into = match rule.direction {
            Direction::Upstream => Side::Root,
            Direction::Downstream => Side::Device,
        };
        if let Some(state) = self.ports.get_mut(PortId::new(rule.link, into).index()) {
            state.faults.push(self.next_fault, rule, self.now);
            state.note_faults();
            self.next_fault += 1;
        }
    }

    /// Ends all fault rules of a link, in both directions. A cut link stays cut, and its bit error rate stays.
    pub fn clear_faults(&mut self, link: LinkId) {
        for side in [Side::Root, Side::Device] {
            if let Some(state) = self.ports.get_mut(PortId::new(link, side).index()) {
                state.faults.clear();
                state.note_faults();
            }
        }
    }

    /// The counts of all fault rules, ended rules included, in the order in which the fabric received them.
    pub fn fault_counts(&self) -> Vec<FaultCounts> {
        let mut counts: Vec<_> = self.ports.iter().flat_map(|state| state.faults.counts()).collect();
        counts.sort_by_key(|counts| counts.number);
        counts
    }

    /// Performs a fundamental reset of everything below a host (`PCIe 5.0 §6.6.1`): its root ports, and the devices and
    /// switches below them, which are as after power-on. Cut links stay cut, and empty slots stay empty.
    ///
    /// # Errors
    /// Fails if there is no such host.
    pub fn reset_host(&mut self, host: HostId) -> Result<(), NoHost> {
        self.root_of(host)?;
        if let Some((link, slot)) = self.design_link(host) {
            self.hold(link, LinkDown::RESET, true, false);
            self.power_on(link);
            self.slots[slot].device.power_on(self.now);
            self.hold(link, LinkDown::RESET, false, false);
        }
        for n in 0..self.hosts[host].root_ports.len() {
            let link = self.ports[self.hosts[host].root_ports[n]].id.link();
            self.hold(link, LinkDown::RESET, true, false);
            self.power_on(link);
            self.hosts[host].root.reset_port(n, self.now);
            self.apply_root_effects(host);
            self.apply_link_actions();
            if self.is_empty_slot(link) {
                self.tell_slot(link, SlotEvent::Presence { present: false });
            }
            self.hold(link, LinkDown::RESET, false, false);
        }
        Ok(())
    }

    pub(super) fn change_link(&mut self, n: usize) {
        let LinkEvent { link, change, .. } = self.link_events[n];
        match change {
            LinkChange::Speed { rate, width } => {
                self.recoveries[link.0 as usize].best = (rate, width);
                self.retrain(link);
            }
            LinkChange::Cut => self.hold(link, LinkDown::CUT, true, true),
            LinkChange::Restore => self.hold(link, LinkDown::CUT, false, false),
            // Removal from an empty slot and insertion into an occupied slot have no effect.
            LinkChange::Remove if self.is_empty_slot(link) => {}
            LinkChange::Insert if !self.is_empty_slot(link) => {}
            LinkChange::Remove => {
                self.tell_slot(link, SlotEvent::Presence { present: false });
                self.hold(link, LinkDown::EMPTY, true, true);
            }
            LinkChange::Insert => {
                self.power_on(link);
                self.tell_slot(link, SlotEvent::Presence { present: true });
                self.hold(link, LinkDown::EMPTY, false, false);
            }
            LinkChange::PressAttention => self.tell_slot(link, SlotEvent::AttentionButton),
        }
    }

    /// Sends the link through Recovery (`PCIe 5.0 §4.2.6.4`). It comes back with the greatest possible width, and the
    /// highest rate that both it and Target Link Speed of the port above allow.
    fn retrain(&mut self, link: LinkId) {
        let ends = self.ends(link);
        let (best, width) = self.recoveries[link.0 as usize].best;
        let rate = self.target_speed(ends[0]).map_or(best, |target| best.min(target));
        let [above, below] = ends.map(|n| self.ports[n].port.retrained_at(self.now));
        let until = above.max(below);
        self.silence.note(self.now, until, self.last_progress);
        if !self.ports[ends[0]].port.is_down() {
            self.recoveries[link.0 as usize].until = until;
            self.queue.push(until, Event::Trained(link));
            self.tell_training(ends[0], true);
        }
        for n in ends {
            self.ports[n].port.retrain(self.now, until, rate, width);
            if !self.ports[n].port.is_down() {
                self.tell_recovery(n, until);
            }
            self.pump(n);
        }
    }

    /// `link` comes out of Recovery, unless it has gone there again or has gone down since.
    pub(super) fn trained(&mut self, link: LinkId) {
        let [above, _] = self.ends(link);
        if self.recoveries[link.0 as usize].until == self.now && !self.ports[above].port.is_down() {
            self.tell_training(above, false);
            self.pump(above);
        }
    }

    /// Returns Target Link Speed of the port at `above` if that is a bridge.
    fn target_speed(&self, above: usize) -> Option<Rate> {
        let space = match self.ports[above].owner {
            Owner::Switch { switch, port } => self.switches[switch as usize].switch.space(port as usize),
            Owner::Root(host, n) => self.hosts[host].root.space(n as usize)?,
            Owner::Slot(_) => return None,
        };
        space.target_link_speed()
    }

    fn tell_training(&mut self, above: usize, trains: bool) {
        self.call_bridge(above, |bridge, port, now| bridge.handle_training(port, now, trains));
    }

    /// Calls the owner of the port at `index`, if that is a root complex or a switch, with the number that the port has there.
    /// The effects of a switch are applied when its ports are pumped.
    fn call_bridge(&mut self, index: usize, call: impl FnOnce(&mut dyn BridgeOwner, usize, Time)) {
        match self.ports[index].owner {
            Owner::Root(host, n) => {
                call(&mut self.hosts[host].root, n as usize, self.now);
                self.apply_root_effects(host);
            }
            Owner::Switch { switch, port } => {
                call(&mut self.switches[switch as usize].switch, port as usize, self.now);
            }
            Owner::Slot(_) => {}
        }
    }

    /// A fault cuts `link` now.
    #[cold]
    pub(super) fn cut(&mut self, link: LinkId, cut: Cut) {
        self.schedule(LinkEvent { at: self.now, link, change: LinkChange::Cut });
        if let Some(after) = cut.restore_after {
            self.schedule(LinkEvent { at: self.now + after, link, change: LinkChange::Restore });
        }
    }

    /// Restores power to the device or switch at the far end of `link`, and to everything below a switch.
    fn power_on(&mut self, link: LinkId) {
        let mut links = vec![link];
        while let Some(link) = links.pop() {
            let [_, below] = self.ends(link);
            match self.ports[below].owner {
                Owner::Slot(n) => {
                    self.slots[n as usize].device.power_on(self.now);
                    let switch = self.switch_of_slot(n as usize);
                    let downstream = switch.into_iter().flat_map(|switch| &switch.slots[1..]);
                    links.extend(downstream.map(|&slot| self.ports[self.slots[slot].port].id.link()));
                }
                Owner::Switch { switch, .. } => {
                    let slot = &mut self.switches[switch as usize];
                    slot.switch.power_on();
                    let downstream = slot.ports.iter().skip(1).flatten();
                    links.extend(downstream.map(|&index| self.ports[index].id.link()));
                }
                Owner::Root(..) => {}
            }
        }
    }

    /// Notifies the port above `link` of an event of its slot.
    fn tell_slot(&mut self, link: LinkId, event: SlotEvent) {
        let [above, _] = self.ends(link);
        self.call_bridge(above, |bridge, port, now| bridge.handle_slot(port, now, event));
        self.pump(above);
    }

    /// True if the slot of `link` is empty.
    fn is_empty_slot(&self, link: LinkId) -> bool {
        self.held[link.0 as usize].contains(LinkDown::EMPTY)
    }

    /// Whether the host waits for `link` before it starts: not if its slot is empty, nor if it stays down for longer
    /// than [`START_PATIENCE`]. A switch that is not riser's may release its links within that time.
    pub(super) fn is_awaited(&self, link: LinkId) -> bool {
        let held = self.held[link.0 as usize];
        let is_soon = |e: &LinkEvent| (self.now..=Time::ZERO + START_PATIENCE).contains(&e.at);
        let comes = |e: &LinkEvent| e.link == link && matches!(e.change, LinkChange::Restore) && is_soon(e);
        held.is_empty()
            || held == LinkDown::CUT && self.link_events.iter().any(comes)
            || held == LinkDown::RESET && self.is_settling(link)
    }

    /// Whether `link` may still be in flow-control initialization although both its ports are active: a carrier is active as
    /// soon as its link is up, and with two of them the fabric does not see DL_Active. A link below a switch that is not riser's may also be
    /// held down until that switch has its upstream link. The host then waits for [`START_PATIENCE`] before its first configuration request,
    /// as firmware does that does not read Data Link Layer Link Active.
    pub(super) fn is_settling(&self, link: LinkId) -> bool {
        let is_carrier = |index: usize| self.ports[index].port.rare().contains(Rare::FRAMES);
        let ends = self.ends(link);
        let is_slow = ends.into_iter().all(is_carrier) || self.is_designed_downstream(ends[0]);
        self.now < Time::ZERO + START_PATIENCE && is_slow
    }

    /// Wakes the hosts when links that are [settling](Self::is_settling) need no more patience.
    pub(super) fn await_settling(&mut self) {
        if (0..self.held.len()).any(|n| self.is_settling(LinkId(n as u32))) {
            self.queue.push(Time::ZERO + START_PATIENCE, Event::Host(HostId::FIRST));
        }
    }

    /// Indices of the ports of `link`, the one towards the root complex first.
    fn ends(&self, link: LinkId) -> [usize; 2] {
        [Side::Root, Side::Device].map(|side| PortId::new(link, side).index())
    }

    /// Holds `link` down for the reason `why`, or releases it.
    #[cold]
    pub(super) fn hold(&mut self, link: LinkId, why: LinkDown, on: bool, surprise: bool) {
        let held = &mut self.held[link.0 as usize];
        let before = *held;
        held.set(why, on);
        match (before.is_empty(), held.is_empty()) {
            (true, false) => self.take_down(link, surprise),
            (false, true) => {
                self.silence.note(self.now, self.now + TRAINING, self.last_progress);
                self.queue.push(self.now + TRAINING, Event::LinkUp(link));
            }
            _ => {}
        }
    }

    /// Takes a link down: TLPs that both ends hold are dropped or go back to their owner; frames on the wire are lost.
    fn take_down(&mut self, link: LinkId, surprise: bool) {
        let ends = self.ends(link);
        let received = ends.map(|index| self.received(index));
        for (index, at_other_end) in ends.into_iter().zip(received.iter().rev()) {
            let lost = self.ports[index].port.take_down(self.now, surprise);
            self.ports[index].inbound.iter_mut().for_each(InFlight::lose);
            let is_lost = |lost: &Lost| lost.sequence.is_none_or(|n| !at_other_end.contains(&n));
            lost.into_iter().filter(is_lost).for_each(|lost| self.end_lost(index, &lost));
        }
        for (index, at_other_end) in ends.into_iter().zip(received.iter().rev()) {
            let lost = self.frame_end_mut(index).map(|end| end.take_down(at_other_end));
            lost.into_iter().flatten().for_each(|account| self.ledger.drop(account));
        }
        if let Owner::Slot(n) = self.ports[ends[1]].owner {
            for held in self.slots[n as usize].drop_held() {
                self.ledger.drop(held.account);
            }
        }
        ends.into_iter().for_each(|index| self.pump(index));
    }

    /// Returns the sequence numbers of TLPs that have arrived at the port at `index`, whether or not their Acks have
    /// come back: those TLPs live on there. The same holds for TLPs whose header a switch has already sent on.
    fn received(&self, index: usize) -> BTreeSet<u16> {
        if let Some(end) = self.frame_end(index) {
            return end.received();
        }
        let state = &self.ports[index];
        let passed = state.inbound.iter().filter(|coming| coming.passed && !coming.is_lost());
        let passed = passed.filter_map(|coming| match coming.frame {
            Frame::Tlp { sequence, .. } => Some(sequence),
            Frame::Dllp(_) => None,
        });
        (0..SEQUENCE_NUMBERS).filter(|n| state.port.has_received(*n)).chain(passed).collect()
    }

    /// The port above refuses requests that were never sent. Requests that were sent end by their requester's
    /// Completion Timeout (`PCIe 5.0 §2.9.1`).
    fn end_lost(&mut self, index: usize, lost: &Lost) {
        let is_slot = matches!(self.ports[index].owner, Owner::Slot(_));
        if lost.sequence.is_none() && !is_slot {
            self.call_bridge(index, |bridge, port, now| bridge.handle_lost(port, now, &lost.tlp));
        } else if lost.tlp.class() != Class::NonPosted {
            self.ledger.drop(lost.tlp.account);
        }
    }

    /// The training of `link` is over.
    pub(super) fn link_up(&mut self, link: LinkId) {
        if !self.held[link.0 as usize].is_empty() {
            return;
        }
        for index in self.ends(link) {
            // A reset may have changed the registers.
            self.follow_channels(index);
            self.ports[index].port.bring_up(self.now);
        }
        self.last_progress = self.now;
        self.ends(link).into_iter().for_each(|index| self.pump(index));
    }

    /// Hands the port's notices to its owner.
    #[cold]
    pub(super) fn tell_owner(&mut self, index: usize) {
        let owner = self.ports[index].owner;
        while let Some(notice) = self.ports[index].port.poll_notice() {
            match owner {
                Owner::Slot(n) => {
                    self.slots[n as usize].device.handle_notice(self.now, notice);
                    if self.slots[n as usize].has_frames {
                        self.offer_frames(index);
                    }
                }
                _ => self.call_bridge(index, |bridge, port, now| bridge.handle_notice(port, now, notice)),
            }
            self.note_never_sent(index, notice);
            if matches!(notice, Notice::Down { .. }) && self.forgets_what_it_holds(owner) {
                self.ports[index].port.forget_received();
            }
        }
        if !matches!(owner, Owner::Switch { .. }) {
            self.apply_link_actions();
        }
    }

    /// Notes a TLP that needs more data credits than the receiver has advertised. The TLP stays in its queue and blocks
    /// its class. The run ends even if other parts make progress.
    fn note_never_sent(&mut self, index: usize, notice: Notice) {
        let Notice::NeverAdmitted { vc, class, needed, advertised } = notice else { return };
        let port = self.port_name(self.ports[index].id);
        self.never_sent.get_or_insert_with(|| {
            format!(
                "{port}: a {class:?} TLP on {vc} needs {needed} data credits (units of 16 B), but the other end has advertised {advertised}: it can never be sent"
            )
        });
        self.ends = true;
    }

    /// Bridges owe no credits for TLPs from a link that went down; devices and bare root ports still return them.
    fn forgets_what_it_holds(&self, owner: Owner) -> bool {
        match owner {
            Owner::Root(host, n) => self.hosts[host].root.space(n as usize).is_some(),
            Owner::Switch { .. } => true,
            Owner::Slot(_) => false,
        }
    }

    /// Carries out the requests of root complexes and switches to the links at their ports.
    pub(super) fn apply_link_actions(&mut self) {
        while let Some((index, action)) = self.actions.pop_front() {
            self.apply_action(index, action);
        }
    }

    /// Carries out the requests of a switch to the links at its ports.
    pub(super) fn apply_switch_actions(&mut self, n: usize) {
        let SwitchState { switch, ports, .. } = &mut self.switches[n];
        for effect in switch.effects().drain(..) {
            match effect {
                Effect::Note(note) => self.ledger.take(note),
                Effect::Act(port, action) => {
                    self.actions.extend(ports[port as usize].map(|index| (index, action)));
                }
                // Only root complexes have these.
                Effect::Served(_) | Effect::Written { .. } | Effect::Ready(..) | Effect::Wake(..) => {}
            }
        }
        self.apply_link_actions();
    }

    #[cold]
    fn apply_action(&mut self, index: usize, action: Action) {
        let link = self.ports[index].id.link();
        match action {
            Action::HoldReset => self.hold(link, LinkDown::RESET, true, false),
            Action::ReleaseReset => self.hold(link, LinkDown::RESET, false, false),
            Action::Disable => self.hold(link, LinkDown::DISABLED, true, false),
            Action::Enable => self.hold(link, LinkDown::DISABLED, false, false),
            Action::PowerOff => self.hold(link, LinkDown::UNPOWERED, true, false),
            Action::PowerOn => {
                self.power_on(link);
                self.hold(link, LinkDown::UNPOWERED, false, false);
            }
            Action::Retrain => self.retrain(link),
            Action::Channels => self.follow_channels(index),
        }
    }

    /// Sets the virtual channels of the port at `index` by the registers of its owner, if that has any for them.
    #[cold]
    pub(super) fn follow_channels(&mut self, index: usize) {
        let channels = match self.ports[index].owner {
            Owner::Slot(n) => self.slots[n as usize].device.channels(),
            Owner::Root(host, n) => self.hosts[host].root.space(n as usize).and_then(channels_of),
            Owner::Switch { switch, port } => {
                channels_of(self.switches[switch as usize].switch.space(port as usize))
            }
        };
        if let Some(channels) = channels {
            self.ports[index].port.set_channels(self.now, &channels);
            self.pump(index);
        }
    }
}
