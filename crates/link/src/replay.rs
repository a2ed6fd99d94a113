// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sender's half of reliable delivery (`PCIe 5.0 §3.6.2.1`, §3.6.2.2): sequence numbers, the replay buffer,
//! REPLAY_TIMER and REPLAY_NUM. The buffer is bounded in TLPs and bytes, and allocates only on creation.

use crate::frame::TLP_FRAMING_BYTES;
use crate::sequence::{MAX_UNACKNOWLEDGED, PAST, Sequence};
use crate::store::{Handle, TlpStore};
use crate::tx::Lengths;
use tlp::{Duration, Time};

/// REPLAY_NUM has two bits.
const REPLAY_NUM_MODULUS: u8 = 4;
/// Bytes of framing that are not stored: STP and END, or the tokens in their place.
const UNSTORED_FRAMING: u32 = 2;
const _: () = assert!(TLP_FRAMING_BYTES > UNSTORED_FRAMING);

/// The effect of an Ack or Nak.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Acknowledged {
    /// The sequence number belongs to a TLP that was never sent.
    ProtocolError,
    /// The Ack or Nak acknowledges no further TLP.
    Nothing,
    /// TLPs left the buffer.
    Progress,
}

#[derive(Clone, Copy, Default)]
struct ReplaySlot {
    lengths: Lengths,
    handle: Handle,
}

/// The times of the first transmission of a TLP, from which a [deferred](tlp::Account::DEFERRED) account can be opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransmitTimes {
    /// When the TLP was queued.
    pub queued_at: Time,
    /// Time for which the TLP waited for credits at the head of its queue.
    pub credit_wait: Duration,
    /// When its first symbol was sent.
    pub start: Time,
    /// When its last symbol had been sent.
    pub end: Time,
}

/// Unacknowledged TLPs, in a ring indexed by sequence number.
pub(crate) struct ReplayBuffer {
    ring: Box<[ReplaySlot]>,
    /// Times of the TLPs whose accounts are [deferred](tlp::Account::DEFERRED), by the same index.
    times: Box<[TransmitTimes]>,
    mask: u16,
    max_tlps: u16,
    max_bytes: u32,
    bytes: u32,
    next_transmit_seq: Sequence,
    ackd_seq: Sequence,
    /// The next TLP to replay; `next_transmit_seq` if no replay is in progress.
    replay_next: Sequence,
    replay_num: u8,
    /// Whether REPLAY_NUM counts.
    counts: bool,
    timeout: Duration,
    /// Time at which REPLAY_TIMER expires; [`Time::MAX`] while it is held.
    deadline: Time,
    /// True if the next sent TLP restarts the timer, even if it runs.
    restart_timer: bool,
}

impl ReplayBuffer {
    /// Makes an empty buffer. `counts`: after four replays without progress the link retrains.
    pub(crate) fn new(max_tlps: u16, max_bytes: u32, timeout: Duration, counts: bool) -> ReplayBuffer {
        let max_tlps = max_tlps.clamp(1, MAX_UNACKNOWLEDGED);
        let slots = max_tlps.next_power_of_two();
        ReplayBuffer {
            ring: vec![ReplaySlot::default(); usize::from(slots)].into_boxed_slice(),
            times: vec![TransmitTimes::default(); usize::from(slots)].into_boxed_slice(),
            mask: slots - 1,
            max_tlps,
            max_bytes,
            bytes: 0,
            next_transmit_seq: Sequence::ZERO,
            ackd_seq: Sequence::BEFORE_ZERO,
            replay_next: Sequence::ZERO,
            replay_num: 0,
            counts,
            timeout,
            deadline: Time::MAX,
            restart_timer: false,
        }
    }

    /// Number of unacknowledged TLPs.
    pub(crate) fn len(&self) -> u16 {
        self.next_transmit_seq.since(self.ackd_seq) - 1
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether one more TLP fits. An empty buffer accepts any TLP, so that a large TLP does not wait for ever.
    #[inline(always)]
    pub(crate) fn has_room(&self, lengths: Lengths) -> bool {
        let len = self.len();
        len == 0 || len < self.max_tlps && self.bytes + stored(lengths) <= self.max_bytes
    }

    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Stores a TLP that is sent now. Returns its sequence number.
    #[inline(always)]
    pub(crate) fn push(&mut self, lengths: Lengths, handle: Handle) -> u16 {
        let sequence = self.next_transmit_seq;
        self.ring[self.index(sequence)] = ReplaySlot { lengths, handle };
        self.bytes += stored(lengths);
        self.next_transmit_seq = sequence.next();
        self.replay_next = self.next_transmit_seq;
        sequence.bits()
    }

    fn index(&self, sequence: Sequence) -> usize {
        usize::from(sequence.bits() & self.mask)
    }

    /// Notes that a TLP's last symbol is sent at `end`: starts REPLAY_TIMER if it does not run. Returns true if the timer starts.
    #[inline(always)]
    pub(crate) fn sent(&mut self, end: Time) -> bool {
        let starts = self.restart_timer || self.deadline == Time::MAX;
        if starts {
            self.deadline = end + self.timeout;
            self.restart_timer = false;
        }
        starts
    }

    /// The sequence number of the last TLP sent.
    pub(crate) fn last_sent(&self) -> Sequence {
        self.next_transmit_seq.previous()
    }

    /// Drops all TLPs up to `up_to` (`PCIe 5.0 §3.6.2.2`).
    pub(crate) fn acknowledge(&mut self, now: Time, up_to: Sequence, store: &mut TlpStore) -> Acknowledged {
        if self.next_transmit_seq.previous().since(up_to) > PAST {
            return Acknowledged::ProtocolError;
        }
        let count = up_to.since(self.ackd_seq);
        if count == 0 || count > self.len() {
            return Acknowledged::Nothing;
        }
        if self.replay_next.since(self.ackd_seq) <= count {
            self.replay_next = up_to.next();
        }
        for _ in 0..count {
            self.ackd_seq = self.ackd_seq.next();
            let ReplaySlot { lengths, handle } = self.ring[self.index(self.ackd_seq)];
            self.bytes -= stored(lengths);
            store.remove(handle);
        }
        self.replay_num = 0;
        self.deadline = if self.is_empty() { Time::MAX } else { now + self.timeout };
        Acknowledged::Progress
    }

    /// Starts a replay of all unacknowledged TLPs. Returns true if REPLAY_NUM rolls over: the link must retrain first.
    pub(crate) fn start_replay(&mut self) -> bool {
        if self.is_empty() {
            return false;
        }
        self.replay_next = self.ackd_seq.next();
        self.deadline = Time::MAX;
        self.restart_timer = true;
        self.replay_num = (self.replay_num + u8::from(self.counts)) % REPLAY_NUM_MODULUS;
        self.counts && self.replay_num == 0
    }

    /// Like [`acknowledge`](Self::acknowledge), for a replay by [position](crate::ReplayCursor::Position): the position
    /// stays, so the replay skips as many TLPs as the Ack removes, and every Ack restarts REPLAY_TIMER.
    pub(crate) fn acknowledge_by_position(
        &mut self,
        now: Time,
        up_to: Sequence,
        store: &mut TlpStore,
    ) -> Acknowledged {
        let (len, next) = (self.len(), self.replay_next);
        let acknowledged = self.acknowledge(now, up_to, store);
        match acknowledged {
            Acknowledged::Progress => {
                self.replay_next = next;
                self.skip(len - self.len());
            }
            Acknowledged::Nothing if !self.is_empty() => self.deadline = now + self.timeout,
            Acknowledged::Nothing | Acknowledged::ProtocolError => {}
        }
        acknowledged
    }

    /// Starts REPLAY_TIMER with the replay, not with its first TLP.
    pub(crate) fn start_timer(&mut self, now: Time) {
        if !self.is_empty() {
            self.deadline = now + self.timeout;
            self.restart_timer = false;
        }
    }

    /// Makes the current replay skip the next `count` TLPs, or all that are left.
    pub(crate) fn skip(&mut self, count: u16) {
        let left = self.next_transmit_seq.since(self.replay_next);
        self.replay_next = Sequence::from_bits(self.replay_next.bits() + count.min(left));
    }

    /// Holds REPLAY_TIMER while the link retrains from `now` until `until` (`PCIe 5.0 §3.6.2.1`); then it continues for
    /// its remaining time.
    pub(crate) fn hold(&mut self, now: Time, until: Time) {
        if self.deadline != Time::MAX {
            self.deadline += until.since(now);
        }
    }

    /// Sets the timeout after a change of rate or width; a running timer keeps its deadline.
    pub(crate) fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    pub(crate) fn is_replaying(&self) -> bool {
        self.replay_next != self.next_transmit_seq
    }

    /// The next TLP of the current replay.
    pub(crate) fn replay(&mut self) -> Option<(u16, Lengths)> {
        if !self.is_replaying() {
            return None;
        }
        let sequence = self.replay_next;
        self.replay_next = sequence.next();
        Some((sequence.bits(), self.ring[self.index(sequence)].lengths))
    }

    /// Stores the times of a TLP that was just [pushed](Self::push).
    #[inline(always)]
    pub(crate) fn note_times(&mut self, sequence: u16, times: TransmitTimes) {
        self.times[usize::from(sequence & self.mask)] = times;
    }

    /// The times that were noted of the TLP with this sequence number.
    #[inline(always)]
    pub(crate) fn times(&self, sequence: Sequence) -> &TransmitTimes {
        &self.times[self.index(sequence)]
    }

    /// The TLP with this sequence number, if it is not acknowledged.
    #[inline(always)]
    pub(crate) fn get(&self, sequence: Sequence) -> Option<Handle> {
        let age = sequence.since(self.ackd_seq);
        (age != 0 && age <= self.len()).then(|| self.ring[self.index(sequence)].handle)
    }

    /// The unacknowledged TLPs, oldest first.
    pub(crate) fn unacknowledged(&self) -> impl Iterator<Item = (u16, Handle)> + '_ {
        let first = self.ackd_seq.next().bits();
        (0..self.len()).map(move |n| {
            let sequence = Sequence::from_bits(first + n);
            (sequence.bits(), self.ring[self.index(sequence)].handle)
        })
    }

    /// Returns when REPLAY_TIMER expires; [`Time::MAX`]: it does not run.
    pub(crate) fn deadline(&self) -> Time {
        self.deadline
    }
}

const fn stored(lengths: Lengths) -> u32 {
    lengths.wire() - UNSTORED_FRAMING
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `PCIe 5.0 §3.6.2.1`, Equation 3-1: no TLP is sent while `(NEXT_TRANSMIT_SEQ - ACKD_SEQ) mod 4096 >= 2048`. An
    /// Ack of any TLP sent before, up to 2048 back, is not an error (§3.6.2.2).
    #[test]
    fn unacknowledged_tlps_are_limited_by_sequence_numbers() {
        let mut store = TlpStore::new(1);
        let lengths = Lengths::default();
        for acknowledged in [None, Some(0), Some(1000)] {
            let mut buffer = ReplayBuffer::new(u16::MAX, u32::MAX, Duration::from_us(1), true);
            for number in 0..=acknowledged.unwrap_or(0) {
                if acknowledged.is_some() {
                    assert_eq!(buffer.push(lengths, Handle::default()), number);
                    buffer.acknowledge(Time::ZERO, Sequence::from_bits(number), &mut store);
                }
            }
            let mut sent = 0;
            while buffer.has_room(lengths) {
                buffer.push(lengths, Handle::default());
                sent += 1;
                assert!(buffer.next_transmit_seq.since(buffer.ackd_seq) <= 2048);
            }
            assert_eq!((sent, buffer.len()), (2047, 2047));
            let last = buffer.next_transmit_seq.previous();
            let back = |n: u16| Sequence::from_bits(last.bits() + 4096 - n);
            assert_eq!(buffer.acknowledge(Time::ZERO, back(2048), &mut store), Acknowledged::Nothing);
            assert_eq!(buffer.acknowledge(Time::ZERO, back(2049), &mut store), Acknowledged::ProtocolError);
        }
    }

    /// A buffer of four sent TLPs, whose replay starts at time zero.
    fn four_sent() -> ReplayBuffer {
        let mut buffer = ReplayBuffer::new(4, u32::MAX, Duration::from_ns(100), false);
        for number in 0..4 {
            assert_eq!(buffer.push(Lengths::default(), Handle::default()), number);
        }
        buffer.sent(Time::ZERO);
        assert!(!buffer.start_replay());
        buffer.start_timer(Time::ZERO);
        buffer
    }

    fn replayed(buffer: &mut ReplayBuffer) -> Vec<u16> {
        std::iter::from_fn(|| buffer.replay()).map(|(sequence, _)| sequence).collect()
    }

    #[test]
    fn replay_by_position_skips_as_many_tlps_as_an_ack_removes() {
        let mut store = TlpStore::new(1);
        let acked = |up_to: u16, store: &mut TlpStore| {
            let mut buffer = four_sent();
            let first = buffer.replay().unwrap().0;
            let got = buffer.acknowledge_by_position(Time::ZERO, Sequence::from_bits(up_to), store);
            assert_eq!((first, got), (0, Acknowledged::Progress));
            replayed(&mut buffer)
        };
        assert_eq!(acked(0, &mut store), [2, 3], "TLP 1 is skipped");
        assert_eq!(acked(1, &mut store), [3], "TLPs 1 and 2 are gone or skipped");
        assert_eq!(acked(2, &mut store), [0; 0], "the position is beyond the last TLP");
        // By sequence number, the same Ack skips nothing.
        let mut buffer = four_sent();
        buffer.replay();
        buffer.acknowledge(Time::ZERO, Sequence::from_bits(0), &mut store);
        assert_eq!(replayed(&mut buffer), [1, 2, 3]);
    }

    #[test]
    fn replay_by_position_skips_up_to_the_last_tlp() {
        let mut buffer = four_sent();
        buffer.skip(2);
        assert_eq!(replayed(&mut buffer), [2, 3]);
        buffer.start_replay();
        buffer.skip(9);
        assert!(!buffer.is_replaying() && buffer.replay().is_none());
        assert_eq!(buffer.len(), 4, "skipped TLPs stay in the buffer");
    }

    /// Every Ack restarts REPLAY_TIMER while TLPs remain. By sequence number, only an Ack that acknowledges a TLP does.
    #[test]
    fn repeated_ack_restarts_the_timer_of_a_replay_by_position() {
        let mut store = TlpStore::new(1);
        let at = Time::ZERO + Duration::from_ns(60);
        let before_first = Sequence::BEFORE_ZERO;
        let mut buffer = four_sent();
        assert_eq!(buffer.deadline(), Time::ZERO + Duration::from_ns(100));
        assert_eq!(buffer.acknowledge(at, before_first, &mut store), Acknowledged::Nothing);
        assert_eq!(buffer.deadline(), Time::ZERO + Duration::from_ns(100));
        assert_eq!(buffer.acknowledge_by_position(at, before_first, &mut store), Acknowledged::Nothing);
        assert_eq!(buffer.deadline(), Time::ZERO + Duration::from_ns(160));
        buffer.acknowledge_by_position(at, Sequence::from_bits(3), &mut store);
        assert_eq!(buffer.deadline(), Time::MAX, "no TLP remains");
        assert_eq!(
            buffer.acknowledge_by_position(at, Sequence::from_bits(3), &mut store),
            Acknowledged::Nothing
        );
        assert_eq!(buffer.deadline(), Time::MAX);
    }
}
