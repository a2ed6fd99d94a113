// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A port with its link layer, the frames in flight to it, and its pending events.

use crate::fault::{Cut, Faults, Harm};
use crate::flow::Flow;
use crate::queue::{Event, SortedQueue};
use crate::timer::TimerEvents;
use crate::topology::{Owner, PortId};
use link::{Frame, Port, Rare, SentFrame, TLP_FRAMING_BYTES};
use std::collections::VecDeque;
use tlp::{Duration, Time, Tlp};

/// A frame in flight to a port. The TLP of the frame stays at the sending port, which keeps it at least until the
/// receiver has accepted it.
pub(crate) struct InFlight {
    pub(crate) frame: SentFrame,
    /// State that most frames do not have.
    pub(crate) odd: Option<Box<Odd>>,
    /// Time from the arrival of its header to the arrival of its last symbol, if a cut-through switch receives it.
    pub(crate) tail: Duration,
    /// True if its TLP has been forwarded already.
    pub(crate) passed: bool,
}

/// The state of an unusual frame.
#[derive(Default)]
pub(crate) struct Odd {
    /// The TLP, if this is a replay. The sender may drop its TLP while this copy is in flight.
    pub(crate) again: Option<Tlp>,
    /// The damage of the frame.
    pub(crate) harm: Option<Box<Harm>>,
    /// True if the frame never arrives.
    pub(crate) dropped: bool,
}

impl InFlight {
    /// A frame; `again` is its TLP if this is a replay.
    pub(crate) fn new(frame: SentFrame, again: Option<&Tlp>, tail: Duration) -> InFlight {
        let odd = again.map(|tlp| Box::new(Odd { again: Some(tlp.clone()), ..Odd::default() }));
        InFlight { frame, odd, tail, passed: false }
    }

    /// A frame of a data link layer that is not riser's, with its TLP, which no port holds.
    pub(crate) fn foreign(frame: &Frame, harm: Option<Harm>) -> InFlight {
        let (frame, again) = match frame {
            Frame::Tlp { sequence, tlp } => (Frame::Tlp { sequence: *sequence, tlp: () }, Some(tlp.clone())),
            Frame::Dllp(dllp) => (Frame::Dllp(*dllp), None),
        };
        let is_odd = again.is_some() || harm.is_some();
        let odd = is_odd.then(|| Box::new(Odd { again, harm: harm.map(Box::new), dropped: false }));
        InFlight { frame, odd, tail: Duration::ZERO, passed: false }
    }

    /// Drops the frame on its way.
    pub(crate) fn lose(&mut self) {
        self.odd.get_or_insert_default().dropped = true;
    }

    /// True if the frame never arrives.
    pub(crate) fn is_lost(&self) -> bool {
        self.odd.as_ref().is_some_and(|odd| odd.dropped)
    }
}

/// One end of a link.
pub(crate) struct PortState {
    pub(crate) id: PortId,
    pub(crate) owner: Owner,
    pub(crate) port: Port,
    /// Frames in flight to this port, oldest first, because a wire keeps order.
    pub(crate) inbound: VecDeque<InFlight>,
    /// Time of flight from the other end.
    pub(crate) propagation: Duration,
    /// Faults of frames in flight to this port.
    pub(crate) faults: Faults,
    /// Whether the owner may have more TLPs than at the last poll.
    pub(crate) asks_again: bool,
    /// The data that this port has sent.
    pub(crate) flow: Flow,
    transmit_at: Time,
    /// Whether an event of the timer has fired, so that the next one must be requested.
    timer_came: bool,
    /// The pending events of its timer.
    timers: TimerEvents,
}

/// Number of frames in flight for which a direction has room without growing. A board of a few nanoseconds never has
/// this many in flight.
const IN_FLIGHT: usize = 64;

impl PortState {
    pub(crate) fn new(
        id: PortId,
        owner: Owner,
        port: Port,
        propagation: Duration,
        faults: Faults,
    ) -> PortState {
        let mut state = PortState {
            id,
            owner,
            port,
            inbound: VecDeque::with_capacity(IN_FLIGHT),
            propagation,
            faults,
            asks_again: true,
            flow: Flow::default(),
            transmit_at: Time::MAX,
            timer_came: true,
            timers: TimerEvents::none(),
        };
        state.note_faults();
        state
    }

    /// Sends `sent`, which is `frame` without its TLP, to arrive here at `arrival` unless a fault prevents it. Returns
    /// whether the link is cut.
    #[cold]
    pub(crate) fn send_by_rules(
        &mut self,
        mut sent: InFlight,
        frame: Frame<&Tlp>,
        arrival: Time,
        queue: &mut SortedQueue,
    ) -> Option<Cut> {
        let verdict = self.faults.judge(frame, arrival);
        let arrival = (arrival + verdict.delay).max(self.faults.not_before);
        if verdict.delay > Duration::ZERO {
            self.faults.not_before = arrival;
        } else if self.faults.not_before < arrival {
            self.faults.not_before = Time::ZERO;
        }
        sent.frame = verdict.dllp.map_or(sent.frame, Frame::Dllp);
        if verdict.dropped || verdict.harm.is_some() {
            let odd = sent.odd.get_or_insert_default();
            // A frame that was damaged when it was sent stays so.
            (odd.harm, odd.dropped) = (odd.harm.take().or(verdict.harm), verdict.dropped);
        }
        // The sender may have forgotten the TLP when the second copy arrives.
        let mut twin = verdict.doubled.then(|| InFlight::new(sent.frame, frame.tlp(), Duration::ZERO));
        if self.port.rare().contains(Rare::FRAMES) {
            for frame in std::iter::once(&mut sent).chain(&mut twin) {
                frame.odd.get_or_insert_default();
            }
        }
        self.push_inbound(sent, arrival, queue);
        if let Some(twin) = twin {
            self.push_inbound(twin, arrival, queue);
        }
        verdict.cut
    }

    /// The fault rules have changed.
    #[cold]
    pub(crate) fn note_faults(&mut self) {
        self.port.set_rare(Rare::FAULTS, !self.faults.none());
    }

    /// Puts a new TLP on its way, to arrive at `arrival`.
    #[inline(always)]
    pub(crate) fn push_tlp(&mut self, sequence: u16, arrival: Time, queue: &mut SortedQueue) {
        let frame = Frame::Tlp { sequence, tlp: () };
        self.inbound.push_back(InFlight { frame, odd: None, tail: Duration::ZERO, passed: false });
        queue.push(arrival, Event::Arrive(self.id));
    }

    /// Puts a frame on its way, to arrive at `arrival`.
    pub(crate) fn push_inbound(&mut self, sent: InFlight, arrival: Time, queue: &mut SortedQueue) {
        let tail = sent.tail;
        self.inbound.push_back(sent);
        if tail > Duration::ZERO {
            let head_at = Time::ZERO + arrival.since(Time::ZERO + tail);
            queue.push(head_at, Event::Head(self.id));
        }
        queue.push(arrival, Event::Arrive(self.id));
    }

    /// Time from a frame's header to its last symbol, if it is sent from `start` to `end` and the receiver needs it.
    pub(crate) fn tail(&self, start: Time, end: Time, tlp: Option<&Tlp>) -> Duration {
        match tlp {
            Some(tlp) if self.port.rare().contains(Rare::CUT_THROUGH) => tail(start, end, tlp),
            _ => Duration::ZERO,
        }
    }

    /// Requests the events that the port needs next. If an earlier event is pending, it is enough: at that event the port
    /// requests the next one.
    #[inline(always)]
    pub(crate) fn arm(&mut self, now: Time, queue: &mut SortedQueue) {
        if let Some(at) = self.port.transmit_ready_at() {
            let at = at.max(now);
            if at < self.transmit_at {
                self.transmit_at = at;
                queue.push(at, Event::Transmit(self.id));
            }
        }
        if self.port.take_deadline_moved() || std::mem::take(&mut self.timer_came) {
            self.request_timer(now, queue);
        }
        let due = self.port.poll_timeout().unwrap_or(Time::MAX).max(now);
        debug_assert!(
            due >= self.timers.first(),
            "{}: no event is pending for the timer due at {due}",
            self.id
        );
    }

    #[inline(never)]
    fn request_timer(&mut self, now: Time, queue: &mut SortedQueue) {
        if let Some(at) = self.port.poll_timeout() {
            let at = at.max(now);
            if self.timers.request(at) {
                queue.push(at, Event::PortTimer(self.id));
            }
        }
    }

    /// Returns whether this end only refreshes credits, with `peer` at the other end, and the event for the next
    /// refresh is pending. Frames in flight, and the effects of their faults and of the owner, are checked elsewhere.
    pub(crate) fn only_refreshes(&self, peer: &PortState) -> bool {
        let due = self.port.poll_timeout().unwrap_or(Time::MAX);
        due == self.timers.first() && self.port.only_refreshes(&peer.port)
    }

    /// Returns when the event of its timer fires; [`Time::MAX`] if none is pending.
    pub(crate) fn timer_at(&self) -> Time {
        self.timers.first()
    }

    /// Skips `intervals` of refreshes, whose event is postponed by `span`; returns the number of frames.
    pub(crate) fn skip_refreshes(&mut self, intervals: u64, span: Duration) -> u64 {
        let first = self.timers.first();
        if first < Time::MAX {
            self.timers.put_off_first(first + span);
        }
        self.port.skip_refreshes(intervals)
    }

    /// Notes that the owner has been polled, and may still have TLPs of the classes in `outputs`.
    pub(crate) fn note_outputs(&mut self, outputs: u8) {
        self.asks_again = outputs & self.port.open_classes() != 0;
    }

    /// Returns whether the port can now send, or accept, a TLP of its owner, which may have TLPs of the classes in `outputs`.
    #[inline(always)]
    pub(crate) fn needs_pump(&self, now: Time, outputs: u8) -> bool {
        outputs != 0 && (!self.port.is_busy(now, outputs) || self.port.has_notice())
    }

    /// Handles a `Transmit` event; returns false if a newer one has replaced it.
    pub(crate) fn transmit_due(&mut self, now: Time) -> bool {
        let due = self.transmit_at == now;
        if due {
            self.transmit_at = Time::MAX;
        }
        due
    }

    /// Handles a `PortTimer` event; returns whether the port's timer is really due.
    pub(crate) fn timer_due(&mut self, now: Time) -> bool {
        self.timers.come(now);
        self.timer_came = true;
        self.port.poll_timeout().is_some_and(|at| at <= now)
    }
}

/// Returns the part of a frame's time on the wire after its header. The 4 B of framing before the header count with the header.
fn tail(start: Time, end: Time, tlp: &Tlp) -> Duration {
    let header = 4 + (tlp.wire_len() - tlp.repr.data_dw() as usize * 4) as u64;
    let all = u64::from(TLP_FRAMING_BYTES) + tlp.wire_len() as u64;
    let whole = end.since(start).as_ps();
    Duration::from_ps(whole - whole * header / all)
}
