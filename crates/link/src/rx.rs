// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receiver's half of reliable delivery (`PCIe 5.0 §3.6.3.1`): NEXT_RCV_SEQ, NAK_SCHEDULED and the
//! AckNak_LATENCY_TIMER. This module handles only sequence numbers, not TLPs.

use crate::sequence::{PAST, Sequence};
use tlp::{Duration, Time};

/// The verdict on a TLP with a good LCRC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The TLP is the next in order.
    Accept,
    /// The TLP has arrived before. It is dropped, and acknowledged again immediately.
    Duplicate,
    /// An earlier TLP is missing, so this TLP is dropped.
    Gap {
        /// This is the first TLP after the gap, so a Nak must be sent.
        nak: bool,
    },
}

pub(crate) struct Receiver {
    next_rcv_seq: Sequence,
    nak_scheduled: bool,
    ack_limit: Duration,
    /// Time at which AckNak_LATENCY_TIMER reaches its limit; [`Time::MAX`]: there is no TLP to acknowledge.
    ack_at: Time,
    /// Time at which the timer ends, if it runs from the last Ack.
    ack_free_at: Option<Time>,
}

impl Receiver {
    pub(crate) fn new(ack_limit: Duration) -> Receiver {
        let (next_rcv_seq, ack_at) = (Sequence::ZERO, Time::MAX);
        Receiver { next_rcv_seq, nak_scheduled: false, ack_limit, ack_at, ack_free_at: None }
    }

    /// Returns this receiver with a timer that runs from the last Ack. A TLP that arrives after the timer has expired
    /// is acknowledged at once (IISWC'18, §V-C: "either immediately or after the ACK timer expires").
    pub(crate) fn acks_at_once(self) -> Receiver {
        Receiver { ack_free_at: Some(Time::ZERO), ..self }
    }

    /// Schedules an Ack of all TLPs that have arrived, for a timer that runs from the last Ack.
    pub(crate) fn repeat_ack(&mut self, now: Time) {
        if self.ack_at == Time::MAX {
            self.ack_at = self.ack_free_at.map_or(now, |free| free.max(now));
        }
    }

    /// Sets the Ack latency limit after a change of rate or width.
    pub(crate) fn set_ack_limit(&mut self, ack_limit: Duration) {
        self.ack_limit = ack_limit;
    }

    /// Whether this is the next TLP in order.
    pub(crate) fn expects(&self, sequence: Sequence) -> bool {
        sequence == self.next_rcv_seq
    }

    /// The sequence number of the next TLP in order.
    pub(crate) fn next(&self) -> u16 {
        self.next_rcv_seq.bits()
    }

    /// Returns whether this TLP has arrived before: it is not the next one, and `(NEXT_RCV_SEQ - sequence) mod 4096 <=
    /// 2048`.
    pub(crate) fn is_duplicate(&self, sequence: Sequence) -> bool {
        !self.expects(sequence) && self.next_rcv_seq.since(sequence) <= PAST
    }

    /// Accepts the next TLP in order. Returns true if the timer for its Ack starts.
    #[inline(always)]
    pub(crate) fn accept_next(&mut self, now: Time) -> bool {
        self.next_rcv_seq = self.next_rcv_seq.next();
        self.nak_scheduled = false;
        let starts = self.ack_at == Time::MAX;
        if starts {
            self.ack_at = self.ack_free_at.map_or(now + self.ack_limit, |free| free.max(now));
        }
        starts
    }

    /// A TLP with a good LCRC has arrived.
    pub(crate) fn receive(&mut self, now: Time, sequence: Sequence) -> Verdict {
        if sequence == self.next_rcv_seq {
            self.accept_next(now);
            return Verdict::Accept;
        }
        if self.is_duplicate(sequence) {
            return Verdict::Duplicate;
        }
        Verdict::Gap { nak: self.want_nak() }
    }

    /// Notes a bad or missing TLP. Returns true if a Nak must be sent. Only one Nak is sent until a good TLP has
    /// arrived.
    pub(crate) fn want_nak(&mut self) -> bool {
        !std::mem::replace(&mut self.nak_scheduled, true)
    }

    /// AckNak_Seq_Num of an Ack or Nak that is sent now, which acknowledges everything that has arrived.
    pub(crate) fn acknowledge(&mut self) -> u16 {
        self.ack_at = Time::MAX;
        self.next_rcv_seq.previous().bits()
    }

    /// True once if an Ack is due.
    pub(crate) fn ack_due(&mut self, now: Time) -> bool {
        let due = self.ack_at <= now;
        if due {
            self.ack_at = Time::MAX;
            self.ack_free_at = self.ack_free_at.map(|_| now + self.ack_limit);
        }
        due
    }

    pub(crate) fn deadline(&self) -> Time {
        self.ack_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ps: u64) -> Time {
        Time::from_ps(ps)
    }

    #[test]
    fn sends_one_nak_until_a_good_tlp_arrives() {
        let mut rx = Receiver::new(Duration::from_ps(100));
        let s = Sequence::from_bits;
        assert_eq!(rx.receive(at(0), s(1)), Verdict::Gap { nak: true });
        assert_eq!(rx.receive(at(0), s(2)), Verdict::Gap { nak: false });
        assert!(!rx.want_nak());
        assert_eq!(rx.acknowledge(), 4095);
        assert_eq!(rx.receive(at(0), s(0)), Verdict::Accept);
        assert!(rx.want_nak());
    }

    /// `PCIe 5.0 §3.6.3.1`: `(NEXT_RCV_SEQ - sequence) mod 4096 <= 2048` is a duplicate.
    #[test]
    fn sequence_numbers_up_to_2048_back_are_duplicates() {
        let mut rx = Receiver::new(Duration::from_ps(100));
        for n in 0..100 {
            assert_eq!(rx.receive(at(0), Sequence::from_bits(n)), Verdict::Accept);
        }
        assert_eq!(rx.receive(at(0), Sequence::from_bits(99)), Verdict::Duplicate);
        assert_eq!(rx.receive(at(0), Sequence::from_bits(100 + 2048)), Verdict::Duplicate);
        assert_eq!(rx.receive(at(0), Sequence::from_bits(100 + 2047)), Verdict::Gap { nak: true });
    }

    #[test]
    fn ack_timer_runs_from_the_first_unacknowledged_tlp() {
        let mut rx = Receiver::new(Duration::from_ps(100));
        assert_eq!(rx.deadline(), Time::MAX);
        rx.receive(at(10), Sequence::from_bits(0));
        rx.receive(at(50), Sequence::from_bits(1));
        assert_eq!(rx.deadline(), at(110));
        assert!(!rx.ack_due(at(109)) && rx.ack_due(at(110)) && !rx.ack_due(at(111)));
        assert_eq!(rx.acknowledge(), 1);
    }

    /// IISWC'18, §V-C.
    #[test]
    fn tlp_after_expired_ack_timer_is_acknowledged_at_once() {
        let mut rx = Receiver::new(Duration::from_ps(100)).acks_at_once();
        rx.receive(at(10), Sequence::from_bits(0));
        assert_eq!(rx.deadline(), at(10));
        assert!(rx.ack_due(at(10)));
        rx.receive(at(50), Sequence::from_bits(1));
        assert_eq!(rx.deadline(), at(110));
        assert!(!rx.ack_due(at(109)) && rx.ack_due(at(110)));
        rx.receive(at(300), Sequence::from_bits(2));
        assert_eq!(rx.deadline(), at(300));
    }

    /// A TLP out of sequence draws an Ack when the timer from the last Ack has expired.
    #[test]
    fn repeated_ack_waits_for_the_timer_from_the_last_ack() {
        let mut rx = Receiver::new(Duration::from_ps(100)).acks_at_once();
        rx.receive(at(10), Sequence::from_bits(0));
        assert!(rx.ack_due(at(10)));
        assert_eq!(rx.acknowledge(), 0);
        rx.repeat_ack(at(50));
        assert_eq!(rx.deadline(), at(110));
        rx.repeat_ack(at(60));
        assert!(!rx.ack_due(at(109)) && rx.ack_due(at(110)));
        assert_eq!(rx.acknowledge(), 0);
        rx.repeat_ack(at(300));
        assert_eq!(rx.deadline(), at(300));
    }
}
