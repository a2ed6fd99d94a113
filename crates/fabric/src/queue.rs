// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The queue of events to come, ordered by `(time, sequence)`: of events at one time, the one put first comes first.

use crate::topology::{LinkId, PortId};
use tlp::Time;

/// Something that will happen. Small on purpose: what it is about waits where it belongs, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The oldest frame under way to this port arrives.
    Arrive(PortId),
    /// The header of the oldest frame under way to this port arrives, a port of a switch that cuts through.
    Head(PortId),
    /// The wire out of this port is free again.
    Transmit(PortId),
    /// A timer of this port's link layer.
    PortTimer(PortId),
    /// A timer of the device in this slot.
    SlotTimer(u32),
    /// A timer of this switch: a TLP may leave, or it waits for something no longer.
    SwitchTimer(u32),
    /// The data of this read job of the root complex is there.
    ReadReady(u32),
    /// Host memory has drained posted data of this root port.
    Drained(u32),
    /// A request of the host reaches this root port.
    RootPort(u32),
    /// A completion timer of the root complex.
    RootTimer,
    /// Something reaches the host program, or its timer.
    Host,
    /// This scheduled change of a link.
    LinkChange(u32),
    /// This link has trained.
    LinkUp(LinkId),
}

/// What the event loop needs of a queue.
pub trait EventQueue {
    /// Puts `event` at `time`, behind all that is already there.
    fn push(&mut self, time: Time, event: Event);
    /// Takes the first event.
    fn pop(&mut self) -> Option<(Time, Event)>;
    /// When the first event is due.
    fn next_time(&self) -> Option<Time>;
    /// Number of events that wait.
    fn len(&self) -> usize;
    /// True where none waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The queue of a fabric: a list sorted by time, the next event last.
///
/// With the 8 to 32 events that are pending at a time, most of them due soon, a short walk from the end finds the place
/// of a new one sooner than a binary heap does its sifting: `cargo bench -p riser-fabric` was a tenth faster with it.
#[derive(Default)]
pub struct SortedQueue {
    /// Latest first.
    entries: Vec<Entry>,
}

#[derive(Clone, Copy)]
struct Entry {
    time: Time,
    event: Event,
}

impl EventQueue for SortedQueue {
    // Never inlined: its callers do better without its registers.
    #[inline(never)]
    fn push(&mut self, time: Time, event: Event) {
        let entry = Entry { time, event };
        self.entries.push(entry);
        let mut places = self.entries.iter_mut().rev();
        let Some(mut place) = places.next() else { return };
        // The place in the list is the sequence: of all events at one time the new one is the last to come.
        for before in places.take_while(|e| e.time <= time) {
            *place = *before;
            place = before;
        }
        *place = entry;
    }

    fn pop(&mut self) -> Option<(Time, Event)> {
        self.entries.pop().map(|e| (e.time, e.event))
    }

    fn next_time(&self) -> Option<Time> {
        self.entries.last().map(|e| e.time)
    }

    fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_time_keep_their_order() {
        let mut queue = SortedQueue::default();
        for (ps, n) in [(5, 0), (3, 1), (5, 2), (3, 3), (1, 4)] {
            queue.push(Time::from_ps(ps), Event::SlotTimer(n));
        }
        assert_eq!(queue.next_time(), Some(Time::from_ps(1)));
        let order: Vec<Event> = std::iter::from_fn(|| queue.pop().map(|(_, e)| e)).collect();
        assert_eq!(order, [4, 1, 3, 0, 2].map(Event::SlotTimer));
        assert!(queue.is_empty());
    }
}
