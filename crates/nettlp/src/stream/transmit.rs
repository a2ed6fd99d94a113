// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sending half of a stream: a ring of datagrams. Each datagram is written into the ring, and sent from there
//! until it is acknowledged.

use super::record::Ack;
use super::{MIN_RTO, RING_BYTES, RING_DATAGRAMS, SessionError};
use std::collections::VecDeque;
use tlp::{Duration, Time};

/// A gap counts as a loss if a datagram this far after it is acknowledged. Smaller distances may be reordering.
const REORDERED_DATAGRAMS: u64 = 3;
/// Number of datagrams that are sent again when the timer expires. They are enough to find out which other
/// datagrams are missing.
const TIMEOUT_BURST: usize = 8;
/// Number of credits that justify a separate run, for every window.
const WORTH_DATAGRAMS: u64 = 64;
/// Longest time between two timeouts.
const MAX_RTO: Duration = Duration::from_ms(500);

/// A datagram in the ring.
#[derive(Clone, Copy, Debug)]
struct DatagramSlot {
    offset: u32,
    len: u16,
    acked: bool,
    lost: bool,
    retransmits: u8,
    sent: Time,
}

/// Datagrams sent or received in one call: `bytes` split every `segment` bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentRun<'a> {
    /// The datagrams, one after the other.
    pub bytes: &'a [u8],
    /// Length of each datagram in bytes; the last may be shorter.
    pub segment: u16,
    /// Number of datagrams.
    pub count: usize,
}

impl<'a> SegmentRun<'a> {
    /// Creates a run from the bytes of one receive call: one datagram, or several that the kernel coalesced from datagrams of
    /// `segment` bytes (`UDP_GRO`). An empty datagram counts as one.
    pub fn received(bytes: &'a [u8], segment: Option<u16>) -> SegmentRun<'a> {
        let segment = segment.unwrap_or(u16::MAX).max(1);
        SegmentRun { bytes, segment, count: bytes.len().div_ceil(usize::from(segment)).max(1) }
    }

    /// Returns each datagram.
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
    /// Offset of the next datagram.
    tail: usize,
    slots: VecDeque<DatagramSlot>,
    /// Number of `slots[0]`.
    base: u64,
    /// Slots sent at least once.
    sent: usize,
    /// First number that the peer does not allow yet.
    limit: u64,
    /// Number of credits that justify a separate run while other datagrams are in flight.
    worth: u64,
    /// Number of slots marked lost.
    lost: usize,
    /// No slot before this index is marked lost.
    lost_from: usize,
    smoothed: Option<Duration>,
    variation: Duration,
    pub(super) retransmits: u64,
}

impl Transmit {
    /// Creates a stream whose first TLP has number `first`, to a peer that accepts `window` datagrams.
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

    /// Returns the number of the next datagram.
    pub(super) fn next(&self) -> u64 {
        self.base + self.slots.len() as u64
    }

    /// Returns the number of the oldest unacknowledged datagram.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Returns true if a datagram can be sent now.
    pub(super) fn has_due(&self) -> bool {
        self.lost > 0 || self.allowed() > 0
    }

    /// Returns how many new datagrams may be sent now. If more datagrams wait than there are credits, credits
    /// accumulate until they justify a run. Otherwise each Ack would cause a short run, and each short run would
    /// cause an Ack.
    fn allowed(&self) -> usize {
        let waiting = (self.slots.len() - self.sent) as u64;
        let credits = self.limit.saturating_sub(self.base + self.sent as u64);
        let gathers = credits < waiting && credits < self.worth && self.sent > 0;
        if gathers { 0 } else { credits.min(waiting) as usize }
    }

    /// Returns true if everything is acknowledged.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns true if datagrams are in flight.
    pub(super) fn is_in_flight(&self) -> bool {
        self.sent > 0
    }

    /// Returns true if datagrams wait only for credits.
    pub(super) fn is_blocked(&self) -> bool {
        self.sent < self.slots.len() && self.base + self.sent as u64 >= self.limit
    }

    /// Returns how many datagrams of `len` bytes certainly fit now.
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

    /// Queues a datagram of `len` bytes, and returns its buffer; `None` if there is no room.
    pub(super) fn push(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.slots.len() == RING_DATAGRAMS {
            return None;
        }
        let offset = self.place(len)?;
        self.tail = offset + len;
        self.slots.push_back(DatagramSlot {
            offset: offset as u32,
            len: len as u16,
            acked: false,
            lost: false,
            retransmits: 0,
            sent: Time::ZERO,
        });
        Some(&mut self.bytes[offset..offset + len])
    }

    // The tail never reaches the head, so equal positions mean an empty ring.
    fn place(&self, len: usize) -> Option<usize> {
        let Some(head) = self.slots.front().map(|slot| slot.offset as usize) else {
            // An empty ring restarts at 0, so that light traffic uses few cache lines.
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

    /// Returns the datagrams that must be sent now, in runs of at most `most` datagrams and `most_bytes` bytes.
    /// Lost datagrams are first, one by one. Then new datagrams follow, as many as the credits allow.
    pub(super) fn poll(&mut self, now: Time, most: usize, most_bytes: usize) -> Option<SegmentRun<'_>> {
        if let Some(index) = self.next_lost() {
            let slot = &mut self.slots[index];
            slot.sent = now;
            let (offset, len) = (slot.offset as usize, usize::from(slot.len));
            self.retransmits += 1;
            return Some(SegmentRun {
                bytes: &self.bytes[offset..offset + len],
                segment: len as u16,
                count: 1,
            });
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

    fn new_run(&mut self, now: Time, most: usize, most_bytes: usize) -> Option<SegmentRun<'_>> {
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
        (count > 0).then(|| SegmentRun { bytes: &self.bytes[start..end], segment: first.len, count })
    }

    /// Handles an Ack. Returns an error if it acknowledges a datagram that was never sent, or takes back credits: a correct
    /// peer does neither.
    pub(super) fn acknowledge(&mut self, now: Time, ack: &Ack<'_>) -> Result<(), SessionError> {
        let sent_end = self.base + self.sent as u64;
        if ack.next > sent_end || ack.limit < ack.next {
            return Err(SessionError::Protocol);
        }
        // An Ack that arrives late contains no new information. Limits never decrease.
        self.limit = self.limit.max(ack.limit);
        if ack.next > self.base {
            self.advance(now, (ack.next - self.base) as usize);
        }
        if ack.next == self.base && !ack.bitmap.is_empty() {
            self.select(now, ack);
        }
        Ok(())
    }

    /// Removes the first `count` datagrams, because they have arrived.
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

    /// Marks datagrams after the first gap as arrived, and datagrams in the gaps as lost.
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
            // A datagram that was sent again counts as lost again only after the time of a round trip.
            let due = slot.retransmits == 0 || now.since(slot.sent) > again + again;
            if !slot.acked && !slot.lost && due {
                slot.lost = true;
                self.lost += 1;
                self.lost_from = self.lost_from.min(index);
            }
        }
    }

    /// Marks the oldest datagrams as lost when the timer has expired.
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

    /// Returns the time to wait for an Ack after `timeouts` consecutive timeouts.
    pub(super) fn rto(&self, timeouts: u32) -> Duration {
        let measured = self.smoothed.map_or(MIN_RTO, |smoothed| smoothed + self.variation * 4);
        let base = measured.max(MIN_RTO).min(MAX_RTO);
        (base * (1 << timeouts.min(16))).min(MAX_RTO)
    }
}

/// Shortest time after which a datagram that was sent again can count as lost again.
const MIN_RAPID: Duration = Duration::from_us(200);

fn half(span: Duration) -> Duration {
    Duration::from_ps(span.as_ps() / 2)
}
