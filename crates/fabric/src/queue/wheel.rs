// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events that are not due soon: a wheel of slots, each a list in the order of arrival, and heaps for later events. The
//! wheel does not sort a slot; the caller that takes the slot does.

use super::Entry;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use tlp::Time;

/// Slots of the wheel.
const SLOTS: u64 = 256;
/// Binary logarithm of a slot's picoseconds. With a hundred links busy, some ten events share a slot of 4 ns.
/// Acknowledgement timers are due within the microsecond that the wheel spans. Replay timers, which seldom expire, are
/// due later.
const WIDTH_LOG2: u32 = 12;
/// The index of no node.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    entry: Entry,
    next: u32,
}

/// An event beyond the reach of the wheel.
struct Far {
    entry: Entry,
    sequence: u64,
}

type FarEvents = BinaryHeap<Reverse<Far>>;

/// The wheel. It allocates only if it holds more events than ever before.
pub(super) struct Wheel {
    /// First and last node of each slot.
    slots: Vec<(u32, u32)>,
    filled: [u64; SLOTS as usize / 64],
    nodes: Vec<Node>,
    /// Head of the list of free nodes.
    free: u32,
    in_slots: usize,
    /// Events beyond the reach of the slots: events of ports, of which there are few for each port, and all others.
    far_of_ports: FarEvents,
    far: FarEvents,
    next_sequence: u64,
    /// Number of the first slot, counted from time zero; the wheel covers this one and the next [`SLOTS`] - 1.
    first: u64,
}

/// The slot in which `time` lies, counted from time zero.
pub(super) const fn slot_of(time: Time) -> u64 {
    time.as_ps() >> WIDTH_LOG2
}

/// The time at which a slot begins.
pub(super) const fn start_of(slot: u64) -> Time {
    Time::from_ps(slot << WIDTH_LOG2)
}

impl Wheel {
    /// An empty wheel.
    pub(super) fn new() -> Wheel {
        Wheel {
            slots: vec![(NONE, NONE); SLOTS as usize],
            filled: [0; SLOTS as usize / 64],
            nodes: Vec::with_capacity(1024),
            free: NONE,
            in_slots: 0,
            far_of_ports: FarEvents::with_capacity(1024),
            far: FarEvents::new(),
            next_sequence: 0,
            first: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.in_slots + self.far_of_ports.len() + self.far.len()
    }

    /// The events in slots, all of ports, and the first of the others, in no order.
    pub(super) fn next_of_each(&self) -> impl Iterator<Item = &Entry> {
        let node = |at: u32| self.nodes.get(at as usize);
        let list = move |&(first, _): &(u32, u32)| {
            std::iter::successors(node(first), move |n| node(n.next)).map(|n| &n.entry)
        };
        let far = self.far_of_ports.iter().chain(self.far.peek());
        self.slots.iter().flat_map(list).chain(far.map(|far| &far.0.entry))
    }

    /// Moves the empty wheel to begin at slot `first`.
    pub(super) fn begin(&mut self, first: u64) {
        self.first = first;
    }

    /// Inserts an event whose slot is not before the first.
    pub(super) fn push(&mut self, entry: Entry) {
        let slot = slot_of(entry.time);
        if slot - self.first < SLOTS {
            return self.push_into(slot, entry);
        }
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let far = if entry.event.is_of_port() { &mut self.far_of_ports } else { &mut self.far };
        far.push(Reverse(Far { entry, sequence }));
    }

    fn push_into(&mut self, slot: u64, entry: Entry) {
        let node = self.node(Node { entry, next: NONE });
        let index = (slot % SLOTS) as usize;
        let (first, last) = &mut self.slots[index];
        if *first == NONE {
            *first = node;
            self.filled[index / 64] |= 1 << (index % 64);
        } else {
            self.nodes[*last as usize].next = node;
        }
        *last = node;
        self.in_slots += 1;
    }

    fn node(&mut self, node: Node) -> u32 {
        let index = self.free;
        if let Some(free) = self.nodes.get_mut(index as usize) {
            self.free = free.next;
            *free = node;
            return index;
        }
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }

    /// Passes the events of the first non-empty slot to `take`. Events at one time come in order. Returns the slot
    /// after it, which is now the first; `None` if there is no event.
    pub(super) fn take_first(&mut self, take: impl FnMut(Entry)) -> Option<u64> {
        if self.in_slots == 0 {
            self.first = slot_of(self.first_far()?.peek()?.0.entry.time);
            self.fetch_far();
        }
        let slot = self.first + self.first_filled()?;
        self.empty(slot, take);
        self.first = slot + 1;
        // This is done before any later insertion into the slot, because these events came earlier.
        self.fetch_far();
        Some(self.first)
    }

    /// Hands the events of `slot` to `take`.
    fn empty(&mut self, slot: u64, mut take: impl FnMut(Entry)) {
        let index = (slot % SLOTS) as usize;
        self.filled[index / 64] &= !(1 << (index % 64));
        let (mut at, _) = std::mem::replace(&mut self.slots[index], (NONE, NONE));
        while let Some(node) = self.nodes.get_mut(at as usize) {
            take(node.entry);
            let next = std::mem::replace(&mut node.next, self.free);
            self.free = at;
            self.in_slots -= 1;
            at = next;
        }
    }

    /// Removes the events for which `goes` is true; it may be true for events of ports only. Calls `goes` in the order
    /// of time and sequence.
    #[cold]
    pub(super) fn remove_of_ports(&mut self, mut goes: impl FnMut(&Entry) -> bool) {
        let mut entries = Vec::new();
        for slot in self.first..self.first + SLOTS {
            self.empty(slot, |entry| entries.push(entry));
            entries.sort_by_key(|entry| entry.time);
            entries.drain(..).filter(|entry| !goes(entry)).for_each(|entry| self.push_into(slot, entry));
        }
        let far = std::mem::take(&mut self.far_of_ports).into_sorted_vec();
        self.far_of_ports = far.into_iter().rev().filter(|far| !goes(&far.0.entry)).collect();
    }

    /// The distance from the first slot to the first one that holds events.
    fn first_filled(&self) -> Option<u64> {
        let start = (self.first % SLOTS) as usize;
        let words = self.filled.len();
        // The word of the start is searched first for its upper bits, and last for its lower bits.
        (0..=words).find_map(|n| {
            let word = (start / 64 + n) % words;
            let mask = match n {
                0 => u64::MAX << (start % 64),
                n if n == words => !(u64::MAX << (start % 64)),
                _ => u64::MAX,
            };
            let bits = self.filled[word] & mask;
            let index = word as u64 * 64 + u64::from(bits.trailing_zeros());
            (bits != 0).then(|| (index + SLOTS - start as u64) % SLOTS)
        })
    }

    /// Moves the events that have come within reach to the wheel.
    fn fetch_far(&mut self) {
        while (self.reaches(&self.far_of_ports) || self.reaches(&self.far))
            && let Some(Reverse(Far { entry, .. })) = self.first_far().and_then(FarEvents::pop)
        {
            self.push_into(slot_of(entry.time), entry);
        }
    }

    /// Whether the first of these events is within reach.
    fn reaches(&self, far: &FarEvents) -> bool {
        far.peek().is_some_and(|far| slot_of(far.0.entry.time) - self.first < SLOTS)
    }

    /// Returns the heap that holds the first far event; `None` if both are empty.
    fn first_far(&mut self) -> Option<&mut FarEvents> {
        // The order is reversed, and an empty heap comes before all others.
        let of_ports = self.far_of_ports.peek() > self.far.peek();
        let far = if of_ports { &mut self.far_of_ports } else { &mut self.far };
        (!far.is_empty()).then_some(far)
    }
}

impl Ord for Far {
    fn cmp(&self, other: &Far) -> Ordering {
        (self.entry.time, self.sequence).cmp(&(other.entry.time, other.sequence))
    }
}

impl PartialOrd for Far {
    fn partial_cmp(&self, other: &Far) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Far {
    fn eq(&self, other: &Far) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Far {}
