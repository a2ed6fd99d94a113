// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sending half of a stream: a ring of datagrams, filled in place and sent from there, until they are acknowledged.

use super::record::Ack;
use super::{MIN_RTO, RING_BYTES, RING_DATAGRAMS, SessionError};
use std::collections::VecDeque;
use tlp::{Duration, Time};

/// What is acknowledged this far behind a gap makes the gap a loss: less may be reordering.
const REORDERED_DATAGRAMS: u64 = 3;
/// Datagrams sent again when the timer expires: enough to find out what else is missing.
const TIMEOUT_BURST: usize = 8;
/// Credits that are worth a run of their own, whatever the window.
const WORTH_DATAGRAMS: u64 = 64;
/// Longest time between two timeouts.
const MAX_RTO: Duration = Duration::from_ms(500);

/// One datagram of the ring.
#[derive(Clone, Copy, Debug)]
struct Slot {
    offset: u32,
    len: u16,
    acked: bool,
    lost: bool,
    retransmits: u8,
    sent: Time,
}

/// Datagrams that leave or have come in one call: `bytes` cut at every `segment` bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run<'a> {
    /// The datagrams, one behind the other.
    pub bytes: &'a [u8],
    /// Bytes of each; the last may be shorter.
    pub segment: u16,
    /// How many they are.
    pub count: usize,
}

impl<'a> Run<'a> {
    /// What one call has received: one datagram, or several that the kernel says it has cut from datagrams of `segment` bytes
    /// (`UDP_GRO`). An empty datagram is one too.
    pub fn received(bytes: &'a [u8], segment: Option<u16>) -> Run<'a> {
        let segment = segment.unwrap_or(u16::MAX).max(1);
        Run { bytes, segment, count: bytes.len().div_ceil(usize::from(segment)).max(1) }
    }

    /// Each datagram.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (bytes, segment) = (self.bytes, usize::from(self.segment));
        let at = move |index| &bytes[index * segment..bytes.len().min((index + 1) * segment)];
        (0..self.count).map(at)
    }
}

/// The sending half.
#[derive(Debug)]
pub(super) struct Transmit {
    bytes: Box<[u8]>,
    /// Where the next datagram goes.
    tail: usize,
    slots: VecDeque<Slot>,
    /// Number of `slots[0]`.
    base: u64,
    /// Slots sent at least once.
    sent: usize,
    /// First number that the peer does not allow yet.
    limit: u64,
    /// Credits that are worth a run of their own while others are under way.
    worth: u64,
    /// Slots marked lost.
    lost: usize,
    /// Nothing before this slot is marked lost.
    lost_from: usize,
    smoothed: Option<Duration>,
    variation: Duration,
    pub(super) retransmits: u64,
}

impl Transmit {
    /// A stream whose first TLP has number `first`, toward a peer that takes `window` datagrams.
    pub(super) fn new(first: u64, window: u16) -> Transmit {
        Transmit {
            bytes: vec![0; RING_BYTES].into_boxed_slice(),
            tail: 0,
            slots: VecDeque::with_capacity(RING_DATAGRAMS),
            base: first,
            sent: 0,
            limit: first + u64::from(window),
            worth: u64::from(window / 4).clamp(1, WORTH_DATAGRAMS),
            lost: 0,
            lost_from: 0,
            smoothed: None,
            variation: Duration::ZERO,
            retransmits: 0,
        }
    }

    /// Number that the next datagram gets.
    pub(super) fn next(&self) -> u64 {
        self.base + self.slots.len() as u64
    }

    /// Number of the oldest datagram that is not acknowledged.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Whether there is something to send, and it may be sent.
    pub(super) fn has_due(&self) -> bool {
        self.lost > 0 || self.allowed() > 0
    }

    /// New datagrams that may be sent now. Where credits are fewer than what waits, they gather until they are worth a run:
    /// else each Ack would lead to a short run, and each short run to an Ack.
    fn allowed(&self) -> usize {
        let waiting = (self.slots.len() - self.sent) as u64;
        let credits = self.limit.saturating_sub(self.base + self.sent as u64);
        let gathers = credits < waiting && credits < self.worth && self.sent > 0;
        if gathers { 0 } else { credits.min(waiting) as usize }
    }

    /// Whether everything is acknowledged.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether datagrams are on their way.
    pub(super) fn is_in_flight(&self) -> bool {
        self.sent > 0
    }

    /// Whether datagrams wait for credits, and for nothing else.
    pub(super) fn is_blocked(&self) -> bool {
        self.sent < self.slots.len() && self.base + self.sent as u64 >= self.limit
    }

    /// Datagrams of `len` bytes that surely fit now.
    pub(super) fn room(&self, len: usize) -> usize {
        let slots = RING_DATAGRAMS - self.slots.len();
        let Some(head) = self.slots.front().map(|slot| slot.offset as usize) else {
            return slots.min(RING_BYTES / len);
        };
        let fit = if self.tail > head {
            (RING_BYTES - self.tail) / len + head.saturating_sub(1) / len
        } else {
            (head - self.tail).saturating_sub(1) / len
        };
        slots.min(fit)
    }

    /// The place of the next datagram, of `len` bytes; `None` where there is no room. Counts it as queued.
    pub(super) fn push(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.slots.len() == RING_DATAGRAMS {
            return None;
        }
        let offset = self.place(len)?;
        self.tail = offset + len;
        self.slots.push_back(Slot {
            offset: offset as u32,
            len: len as u16,
            acked: false,
            lost: false,
            retransmits: 0,
            sent: Time::ZERO,
        });
        Some(&mut self.bytes[offset..offset + len])
    }

    // The tail never catches up with the head, so that equal means empty.
    fn place(&self, len: usize) -> Option<usize> {
        let Some(head) = self.slots.front().map(|slot| slot.offset as usize) else {
            // A ring that ran empty begins anew, so that light traffic stays within few cache lines.
            return (len <= RING_BYTES).then_some(0);
        };
        if self.tail <= head {
            return (self.tail + len < head).then_some(self.tail);
        }
        if self.tail + len <= RING_BYTES {
            return Some(self.tail);
        }
        (len < head).then_some(0)
    }

    /// What is to be sent now: first what was lost, one by one, then what is new and allowed, in runs of at most `most`
    /// datagrams and `most_bytes` bytes.
    pub(super) fn poll(&mut self, now: Time, most: usize, most_bytes: usize) -> Option<Run<'_>> {
        if let Some(index) = self.next_lost() {
            let slot = &mut self.slots[index];
            slot.sent = now;
            let (offset, len) = (slot.offset as usize, usize::from(slot.len));
            self.retransmits += 1;
            return Some(Run { bytes: &self.bytes[offset..offset + len], segment: len as u16, count: 1 });
        }
        self.new_run(now, most, most_bytes)
    }

    fn next_lost(&mut self) -> Option<usize> {
        if self.lost == 0 {
            return None;
        }
        let found = (self.lost_from..self.sent).find(|&index| self.slots[index].lost)?;
        let slot = &mut self.slots[found];
        slot.lost = false;
        slot.retransmits = slot.retransmits.saturating_add(1);
        self.lost -= 1;
        self.lost_from = found + 1;
        Some(found)
    }

    fn new_run(&mut self, now: Time, most: usize, most_bytes: usize) -> Option<Run<'_>> {
        let most = most.min(self.allowed());
        let first = *self.slots.get(self.sent)?;
        let (start, mut end, mut count) = (first.offset as usize, first.offset as usize, 0);
        for slot in self.slots.range_mut(self.sent..).take(most) {
            let fits = end - start + usize::from(slot.len) <= most_bytes.max(usize::from(first.len));
            if slot.offset as usize != end || slot.len > first.len || !fits {
                break;
            }
            slot.sent = now;
            end += usize::from(slot.len);
            count += 1;
            if slot.len < first.len {
                break;
            }
        }
        self.sent += count;
        (count > 0).then(|| Run { bytes: &self.bytes[start..end], segment: first.len, count })
    }

    /// Takes an Ack. An error, where it acknowledges what was never sent, or takes back credits: no peer of this protocol
    /// does that.
    pub(super) fn acknowledge(&mut self, now: Time, ack: &Ack<'_>) -> Result<(), SessionError> {
        let sent_end = self.base + self.sent as u64;
        if ack.next > sent_end || ack.limit < ack.next {
            return Err(SessionError::Protocol);
        }
        // An older Ack that was overtaken says nothing new; limits never go back.
        self.limit = self.limit.max(ack.limit);
        if ack.next > self.base {
            self.advance(now, (ack.next - self.base) as usize);
        }
        if ack.next == self.base && !ack.bitmap.is_empty() {
            self.select(now, ack);
        }
        Ok(())
    }

    /// Forgets the first `count` datagrams: they have come.
    fn advance(&mut self, now: Time, count: usize) {
        let last = self.slots[count - 1];
        if last.retransmits == 0 && !last.acked {
            self.measure(now.since(last.sent));
        }
        if self.lost > 0 {
            self.lost -= self.slots.range(..count).filter(|slot| slot.lost).count();
        }
        self.slots.drain(..count);
        self.base += count as u64;
        self.sent -= count;
        self.lost_from = self.lost_from.saturating_sub(count);
        if self.slots.is_empty() {
            self.tail = 0;
        }
    }

    /// Marks what has come behind the first gap, and what the gaps are.
    fn select(&mut self, now: Time, ack: &Ack<'_>) {
        let mut highest = 0;
        for index in 1..self.sent.min(ack.bitmap.len() * 8 + 1) {
            if ack.has(index - 1) {
                highest = index;
                let slot = &mut self.slots[index];
                self.lost -= usize::from(slot.lost);
                (slot.acked, slot.lost) = (true, false);
            }
        }
        let again = self.smoothed.unwrap_or(MIN_RTO).max(MIN_RAPID);
        let gaps = highest.saturating_sub(REORDERED_DATAGRAMS as usize - 1);
        for (index, slot) in self.slots.range_mut(..gaps).enumerate() {
            // What was sent again gets the time of a round trip to arrive.
            let due = slot.retransmits == 0 || now.since(slot.sent) > again + again;
            if !slot.acked && !slot.lost && due {
                slot.lost = true;
                self.lost += 1;
                self.lost_from = self.lost_from.min(index);
            }
        }
    }

    /// The timer has expired: the oldest datagrams are sent again.
    pub(super) fn time_out(&mut self) {
        self.lost_from = 0;
        let oldest = self.slots.range_mut(..self.sent).filter(|slot| !slot.acked);
        for slot in oldest.take(TIMEOUT_BURST).filter(|slot| !slot.lost) {
            slot.lost = true;
            self.lost += 1;
        }
    }

    // RFC 6298 §2: gains of 1/8 and 1/4.
    fn measure(&mut self, sample: Duration) {
        let Some(smoothed) = self.smoothed else {
            (self.smoothed, self.variation) = (Some(sample), half(sample));
            return;
        };
        let error = sample.as_ps().abs_diff(smoothed.as_ps());
        self.variation = Duration::from_ps((3 * (self.variation.as_ps() / 4)) + error / 4);
        self.smoothed = Some(Duration::from_ps(smoothed.as_ps() / 8 * 7 + sample.as_ps() / 8));
    }

    /// The time to wait for an Ack, after `timeouts` in a row.
    pub(super) fn rto(&self, timeouts: u32) -> Duration {
        let measured = self.smoothed.map_or(MIN_RTO, |smoothed| smoothed + self.variation * 4);
        let base = measured.max(MIN_RTO).min(MAX_RTO);
        (base * (1 << timeouts.min(16))).min(MAX_RTO)
    }
}

/// Least time before a datagram that was sent again counts as lost again.
const MIN_RAPID: Duration = Duration::from_us(200);

fn half(span: Duration) -> Duration {
    Duration::from_ps(span.as_ps() / 2)
}
