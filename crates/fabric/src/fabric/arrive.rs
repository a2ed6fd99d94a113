// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames that arrive at a port and go to its owner.

use super::owners::{PortOwner, RootPortOwner};
use super::{Fabric, show};
use crate::topology::{HostId, Owner, PortId};
use crate::wire::{InFlight, Odd};
use link::{Frame, Rare, SentFrame};
use tlp::{Access, Body};

impl Fabric {
    /// Handles the arrival of the oldest frame in flight to `id`.
    #[inline(always)]
    pub(super) fn arrive(&mut self, id: PortId) {
        let Some(coming) = self.ports.get_mut(id.index()).and_then(|state| state.inbound.pop_front()) else {
            return;
        };
        let InFlight { frame, odd, tail: _, passed } = coming;
        if let (Frame::Tlp { sequence, .. }, None) = (frame, &odd)
            && self.arrive_fast(id, sequence)
        {
            return;
        }
        match odd {
            None => self.arrive_frame(id, frame, None, passed),
            Some(odd) => self.arrive_odd(id, frame, &odd, passed),
        }
    }

    #[cold]
    fn arrive_odd(&mut self, id: PortId, frame: SentFrame, odd: &Odd, passed: bool) {
        if self.ports[id.index()].port.rare().contains(Rare::FRAMES) {
            return self.arrive_foreign(id, frame, odd);
        }
        self.arrive_frame(id, frame, Some(odd), passed);
    }

    // Compiled twice: the copy without odd frames has no checks for them.
    #[inline(always)]
    fn arrive_frame(&mut self, id: PortId, frame: SentFrame, odd: Option<&Odd>, passed: bool) {
        let now = self.now;
        let ends = [id.index(), id.peer().index()];
        let Ok([state, sender]) = self.ports.get_disjoint_mut(ends) else { return };
        let (again, harm, dropped) = match odd {
            None => (None, None, false),
            Some(Odd { again, harm, dropped }) => (again.as_ref(), harm.as_deref(), *dropped),
        };
        // The TLP can be gone before it arrives only after an Ack that a fault has altered.
        let lent = match again {
            Some(_) => frame.with(again),
            None => self.ledger.lend(&mut sender.port, frame, id.link(), state.propagation),
        };
        let Some(frame) = lent.map(|frame| harm.map_or(frame, |harm| harm.alter(frame))) else { return };
        if let Some(tap) = &mut self.tap {
            show(tap.as_mut(), now, id.peer(), id.side(), frame, odd);
        }
        if dropped {
            return;
        }
        let accepted = match harm {
            None => state.port.handle_frame(now, frame),
            Some(harm) => harm.arrive(&mut state.port, now, frame),
        };
        let Some(tlp) = frame.tlp().filter(|_| accepted) else {
            // The TLP is acknowledged but has no effect. The frame may be a duplicate whose original had an effect.
            if let Some(tlp) = frame.tlp()
                && state.port.poll_refused()
            {
                self.ledger.drop(tlp.account);
            }
            self.tell_retrain(id);
            return self.pump_link(id.index());
        };
        self.totals.tlp_hops += 1;
        self.last_progress = now;
        if again.is_some() {
            self.ledger.arrived_again(tlp.account, now);
        }
        match state.owner {
            Owner::Root(host, n) => {
                self.hosts[host].root.handle_tlp(n as usize, now, tlp);
                self.finish_root_tlp(host, n as usize, id.index());
            }
            Owner::Slot(n) => {
                self.ledger.reached_slot(tlp, n, now);
                let sets_channels = state.port.rare().contains(Rare::CHANNELS)
                    && matches!(tlp.repr.body, Body::Config(c) if c.op == Access::Write);
                self.slots[n as usize].device.handle_tlp(now, tlp);
                if sets_channels {
                    self.follow_channels(id.index());
                }
                self.pump(id.index());
            }
            // The TLP has already been passed on.
            Owner::Switch { .. } if passed => self.pump_link(id.index()),
            Owner::Switch { switch, port } => {
                self.switches[switch as usize].switch.handle_tlp(port as usize, now, now, tlp);
                self.pump_link(id.index());
                self.pump_touched_ports(switch as usize);
            }
        }
    }

    /// Handles the arrival of the header of the oldest frame on its way to `id`, a port of a cut-through switch. If the
    /// switch will accept the rest of the TLP when it arrives, it forwards the TLP now. Otherwise it waits for the
    /// complete TLP.
    pub(super) fn head_arrives(&mut self, id: PortId) {
        let ends = [id.index(), id.peer().index()];
        let Ok([state, sender]) = self.ports.get_disjoint_mut(ends) else { return };
        let Owner::Switch { switch, port } = state.owner else { return };
        let Some(coming) = state.inbound.front_mut() else { return };
        // After a delay, several headers may arrive before the first frame is complete. Then only the first TLP is
        // forwarded now, and the others after it.
        let Some(tlp) = sender.port.lend(coming.frame).and_then(Frame::tlp) else { return };
        let intact = coming.odd.is_none() && !coming.passed && !tlp.is_malformed();
        if !intact || !state.port.expects(coming.frame) {
            return;
        }
        coming.passed = true;
        let tail_at = self.now + coming.tail;
        self.last_progress = self.now;
        self.switches[switch as usize].switch.handle_tlp(port as usize, self.now, tail_at, tlp);
        self.pump_touched_ports(switch as usize);
    }

    /// Finishes a TLP that root port `n` of `host`, whose port is at `index`, has taken. For a write, only the credits are left
    /// to return.
    pub(super) fn finish_root_tlp(&mut self, host: HostId, n: usize, index: usize) {
        let side = &mut self.hosts[host];
        side.apply_effects(host, &mut self.queue, &mut self.ledger, &mut self.actions);
        if let Some(state) = self.ports.get_mut(index)
            && let outputs = side.root.outputs(n)
            && !state.needs_pump(self.now, outputs)
        {
            if outputs != 0 {
                state.asks_again = false;
            }
            RootPortOwner::of(&mut side.root, n, state.id.link()).return_credits(&mut state.port, self.now);
            state.arm(self.now, &mut self.queue);
        } else {
            self.pump(index);
        }
        self.apply_link_actions();
    }

    /// If `id` has sent its link into retraining, silences the other end too.
    pub(super) fn tell_retrain(&mut self, id: PortId) {
        if let Some(until) = self.ports[id.index()].port.poll_retrain() {
            let peer = id.peer().index();
            self.ports[peer].port.hold(self.now, until);
            self.tell_recovery(peer, until);
            self.silence.note(self.now, until, self.last_progress);
        }
    }
}
