// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A port as the fabric holds it: its link layer, the frames on their way to it, and the events it has asked for.

use crate::fault::{Faults, Verdict};
use crate::queue::{Event, EventQueue, SortedQueue};
use crate::topology::PortId;
use link::{Damage, Port, SentFrame};
use std::collections::VecDeque;
use tlp::{Duration, Time, Tlp};

/// A frame on its way to a port. Its TLP stays at the port that sent it, which keeps it at least until it is accepted.
pub(crate) struct InFlight {
    pub(crate) frame: SentFrame,
    /// The TLP, where it was sent before: its sender may forget it while this copy is on its way.
    pub(crate) again: Option<Box<Tlp>>,
    /// Flipped bits; boxed, since frames are many and damage is rare.
    pub(crate) damage: Option<Box<Damage>>,
    pub(crate) dropped: bool,
}

/// One end of a link.
pub(crate) struct PortState {
    pub(crate) id: PortId,
    pub(crate) port: Port,
    /// Frames on their way here, oldest first: a wire keeps order.
    pub(crate) inbound: VecDeque<InFlight>,
    /// Time of flight from the other end.
    pub(crate) propagation: Duration,
    /// Faults of what comes in here.
    pub(crate) faults: Faults,
    transmit_at: Time,
    timer_at: Time,
}

/// Frames in flight that a direction has room for without growing: more than any board of a few nanoseconds holds.
const IN_FLIGHT: usize = 64;

impl PortState {
    pub(crate) fn new(id: PortId, port: Port, propagation: Duration, faults: Faults) -> PortState {
        PortState {
            id,
            port,
            inbound: VecDeque::with_capacity(IN_FLIGHT),
            propagation,
            faults,
            transmit_at: Time::MAX,
            timer_at: Time::MAX,
        }
    }

    /// What the wire into this port does to `frame`, whose TLP is `tlp`.
    #[inline]
    pub(crate) fn judge(&mut self, frame: SentFrame, tlp: Option<&Tlp>) -> (Option<Box<Damage>>, bool) {
        if self.faults.none() { (None, false) } else { self.judge_by_rules(frame, tlp) }
    }

    #[cold]
    fn judge_by_rules(&mut self, frame: SentFrame, tlp: Option<&Tlp>) -> (Option<Box<Damage>>, bool) {
        let Some(frame) = frame.whole(tlp) else { return (None, false) };
        let Verdict { dropped, flips } = self.faults.judge(&frame);
        if flips == 0 {
            return (None, dropped);
        }
        let mut damage = Damage::none();
        for _ in 0..flips {
            damage.flip(self.faults.bit(frame.bit_len()));
        }
        (Some(Box::new(damage)), dropped)
    }

    /// Asks for the events that the port needs next. An earlier event that is pending serves as well; one that turns
    /// out to be too early is asked for again.
    pub(crate) fn arm(&mut self, now: Time, queue: &mut SortedQueue) {
        if let Some(at) = self.port.transmit_ready_at() {
            let at = at.max(now);
            if at < self.transmit_at {
                self.transmit_at = at;
                queue.push(at, Event::Transmit(self.id));
            }
        }
        if let Some(at) = self.port.poll_timeout() {
            let at = at.max(now);
            if at < self.timer_at {
                self.timer_at = at;
                queue.push(at, Event::PortTimer(self.id));
            }
        }
    }

    /// A `Transmit` event has come; false where a newer one has taken its place.
    pub(crate) fn transmit_due(&mut self, now: Time) -> bool {
        let due = self.transmit_at == now;
        if due {
            self.transmit_at = Time::MAX;
        }
        due
    }

    /// A `PortTimer` event has come; true where the port's timer is really due.
    pub(crate) fn timer_due(&mut self, now: Time) -> bool {
        if self.timer_at == now {
            self.timer_at = Time::MAX;
        }
        self.port.poll_timeout().is_some_and(|at| at <= now)
    }
}
