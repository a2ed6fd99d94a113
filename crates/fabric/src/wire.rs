// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A port as the fabric holds it: its link layer, the frames on their way to it, and the events it has asked for.

use crate::fault::{Cut, Faults, Harm};
use crate::queue::{Event, EventQueue, SortedQueue};
use crate::topology::{Owner, PortId};
use link::{Port, SentFrame, TLP_FRAMING_BYTES};
use std::collections::VecDeque;
use tlp::{Class, Duration, Time, Tlp};

/// A frame on its way to a port. Its TLP stays at the port that sent it, which keeps it at least until it is accepted.
pub(crate) struct InFlight {
    pub(crate) frame: SentFrame,
    /// What is not so with most frames.
    pub(crate) odd: Option<Box<Odd>>,
    /// From the arrival of its header until that of its last symbol, where the switch that it goes to cuts through.
    pub(crate) tail: Duration,
    /// Its TLP has gone on already.
    pub(crate) passed: bool,
}

/// What sets a frame apart.
#[derive(Default)]
pub(crate) struct Odd {
    /// The TLP, where it was sent before: its sender may forget it while this copy is on its way.
    pub(crate) again: Option<Tlp>,
    /// What is wrong with it.
    pub(crate) harm: Option<Box<Harm>>,
    /// It never gets there.
    pub(crate) dropped: bool,
}

impl InFlight {
    /// A frame of which `again` is the TLP, where it was sent before.
    #[inline]
    pub(crate) fn new(frame: SentFrame, again: Option<&Tlp>, tail: Duration) -> InFlight {
        let odd = again.map(|tlp| Box::new(Odd { again: Some(tlp.clone()), ..Odd::default() }));
        InFlight { frame, odd, tail, passed: false }
    }

    /// It never gets there.
    pub(crate) fn lose(&mut self) {
        self.odd.get_or_insert_default().dropped = true;
    }

    /// True where it never gets there.
    pub(crate) fn is_lost(&self) -> bool {
        self.odd.as_ref().is_some_and(|odd| odd.dropped)
    }
}

/// One end of a link.
pub(crate) struct PortState {
    pub(crate) id: PortId,
    pub(crate) owner: Owner,
    pub(crate) port: Port,
    /// Frames on their way here, oldest first: a wire keeps order.
    pub(crate) inbound: VecDeque<InFlight>,
    /// Time of flight from the other end.
    pub(crate) propagation: Duration,
    /// Faults of what comes in here.
    pub(crate) faults: Faults,
    /// A port of a switch that sends TLPs on before their last symbol has come.
    pub(crate) cuts_through: bool,
    /// Its owner may have more for it than it was asked for.
    pub(crate) asks_again: bool,
    transmit_at: Time,
    /// The events of its timer that are pending, the first of them last: with few exceptions all of them.
    timers: TimerEvents,
}

/// When the events of a timer are due that the queue holds, as far as there is a place to remember them. A short timer that
/// runs beside a long one must not leave an event of the long one behind each time.
#[derive(Clone, Copy)]
struct TimerEvents {
    first: Time,
    second: Time,
    third: Time,
}

impl TimerEvents {
    const NONE: TimerEvents = TimerEvents { first: Time::MAX, second: Time::MAX, third: Time::MAX };

    /// One is put before the first.
    #[inline]
    fn put(&mut self, at: Time) {
        *self = TimerEvents { first: at, second: self.first, third: self.second };
    }

    /// The event of `now` has come.
    #[inline]
    fn come(&mut self, now: Time) {
        if self.first == now {
            *self = TimerEvents { first: self.second, second: self.third, third: Time::MAX };
        }
    }
}

/// Frames in flight that a direction has room for without growing: more than any board of a few nanoseconds holds.
const IN_FLIGHT: usize = 64;

impl PortState {
    pub(crate) fn new(
        id: PortId,
        owner: Owner,
        port: Port,
        propagation: Duration,
        faults: Faults,
    ) -> PortState {
        PortState {
            id,
            owner,
            port,
            inbound: VecDeque::with_capacity(IN_FLIGHT),
            propagation,
            faults,
            cuts_through: false,
            asks_again: true,
            transmit_at: Time::MAX,
            timers: TimerEvents::NONE,
        }
    }

    /// A frame, whose TLP is `tlp`, is sent here to arrive at `arrival`, if no fault wants it otherwise. Says whether the
    /// link is cut at that.
    #[cold]
    pub(crate) fn send_by_rules(
        &mut self,
        mut sent: InFlight,
        tlp: Option<&Tlp>,
        arrival: Time,
        queue: &mut SortedQueue,
    ) -> Option<Cut> {
        let frame = sent.frame.whole(tlp)?;
        let verdict = self.faults.judge(&frame);
        let arrival = (arrival + verdict.delay).max(self.faults.not_before);
        if verdict.delay > Duration::ZERO {
            self.faults.not_before = arrival;
        }
        sent.frame = verdict.dllp.map_or(sent.frame, SentFrame::Dllp);
        if verdict.dropped || verdict.harm.is_some() {
            let odd = sent.odd.get_or_insert_default();
            (odd.harm, odd.dropped) = (verdict.harm, verdict.dropped);
        }
        // The sender may have forgotten it when the second copy comes.
        let twin = verdict.doubled.then(|| InFlight::new(sent.frame, tlp, Duration::ZERO));
        self.push_inbound(sent, arrival, queue);
        if let Some(twin) = twin {
            self.push_inbound(twin, arrival, queue);
        }
        verdict.cut
    }

    /// A frame is on its way, to arrive at `arrival`.
    #[inline]
    pub(crate) fn push_inbound(&mut self, sent: InFlight, arrival: Time, queue: &mut SortedQueue) {
        let tail = sent.tail;
        self.inbound.push_back(sent);
        if tail > Duration::ZERO {
            let head_at = Time::ZERO + arrival.since(Time::ZERO + tail);
            queue.push(head_at, Event::Head(self.id));
        }
        queue.push(arrival, Event::Arrive(self.id));
    }

    /// How long after its header the last symbol of a frame comes that is sent from `start` to `end`, where that matters.
    #[inline]
    pub(crate) fn tail(&self, start: Time, end: Time, tlp: Option<&Tlp>) -> Duration {
        match tlp {
            Some(tlp) if self.cuts_through => tail(start, end, tlp),
            _ => Duration::ZERO,
        }
    }

    /// Asks for the events that the port needs next. An earlier event that is pending serves as well; one that turns
    /// out to be too early is asked for again.
    #[inline]
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
            if at < self.timers.first {
                self.timers.put(at);
                queue.push(at, Event::PortTimer(self.id));
            }
        }
    }

    /// Its owner has been asked, and may have something of the classes in `outputs` still.
    #[inline]
    pub(crate) fn note_outputs(&mut self, outputs: u8) {
        let open = |class: &Class| outputs & 1 << class.index() != 0 && !self.port.room(*class).is_empty();
        self.asks_again = outputs != 0 && Class::ALL.iter().any(open);
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
        self.timers.come(now);
        self.port.poll_timeout().is_some_and(|at| at <= now)
    }
}

/// The part of a frame's time on the wire behind its header. The framing before the header (4 B) goes with it.
fn tail(start: Time, end: Time, tlp: &Tlp) -> Duration {
    let header = 4 + (tlp.wire_len() - tlp.repr.data_dw() as usize * 4) as u64;
    let all = u64::from(TLP_FRAMING_BYTES) + tlp.wire_len() as u64;
    let whole = end.since(start).as_ps();
    Duration::from_ps(whole - whole * header / all)
}
