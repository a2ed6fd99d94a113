// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The queue of events to come, ordered by `(time, sequence)`: of events at one time, the one put first comes first.

mod wheel;

use crate::root::Due;
use crate::topology::{HostId, LinkId, OfHost, PortId};
use tlp::Time;
use wheel::Wheel;

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
    /// The data of this read job of a host's root complex is there.
    ReadReady(OfHost),
    /// Memory of a host has drained posted data of this root port.
    Drained(OfHost),
    /// A request of a host reaches this root port.
    RootPort(OfHost),
    /// A completion timer of a host's root complex.
    RootTimer(HostId),
    /// Something reaches a host, or its timer.
    Host(HostId),
    /// This scheduled change of a link.
    LinkChange(u32),
    /// This link has trained.
    LinkUp(LinkId),
}

impl Event {
    /// The root complex of `host` is to be called because of `due`.
    #[inline]
    pub(crate) fn of_root(host: HostId, due: Due) -> Event {
        match due {
            Due::Drained(port) => Event::Drained(OfHost::new(host, port)),
            Due::Port(port) => Event::RootPort(OfHost::new(host, port)),
            Due::Timer => Event::RootTimer(host),
            Due::Host => Event::Host(host),
        }
    }
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

/// The queue of a fabric: a list sorted by time, the next event last; and where it grows long, a [`wheel`] behind it.
///
/// With the 8 to 32 events that are pending in a lab of one slot, most of them due soon, a short walk from the end finds the
/// place of a new one sooner than a binary heap does its sifting: `cargo bench -p riser-fabric` was a tenth faster with it.
/// Trees of switches have hundreds pending, most of them timers of links: then the list holds what is due in the next
/// nanoseconds, and the wheel all else. Which of the two holds an event changes nothing about the order.
pub struct SortedQueue {
    /// Latest first. Empty only where no event waits.
    near: Vec<Entry>,
    /// What is due from here on is in the wheel; [`Time::MAX`] where nothing is.
    later_from: Time,
    wheel: Option<Box<Wheel>>,
}

#[derive(Clone, Copy)]
struct Entry {
    time: Time,
    event: Event,
}

/// Events that the list holds before it is spread out over the wheel.
const NEAR_MAX: usize = 128;

impl SortedQueue {
    /// Takes the first event, where it is due by `until`: put back, it would stand behind others of its time.
    #[inline]
    pub(crate) fn pop_until(&mut self, until: Time) -> Option<(Time, Event)> {
        let Entry { time, event } = *self.near.last()?;
        if time > until {
            return None;
        }
        self.near.pop();
        if self.near.is_empty() {
            self.advance();
        }
        Some((time, event))
    }

    /// When the first event is due that `counts`; [`Time::MAX`]: none that waits does. `None` where so many wait that to look at
    /// each would take too long.
    pub(crate) fn first_that(&self, counts: impl Fn(Event) -> bool) -> Option<Time> {
        if self.wheel.as_ref().is_some_and(|wheel| wheel.len() > 0) {
            return None;
        }
        // The next event is the last.
        let first = self.near.iter().rev().find(|entry| counts(entry.event));
        Some(first.map_or(Time::MAX, |entry| entry.time))
    }

    #[inline]
    fn insert(near: &mut Vec<Entry>, entry: Entry) {
        near.push(entry);
        let mut places = near.iter_mut().rev();
        let Some(mut place) = places.next() else { return };
        // The place in the list is the sequence: of all events at one time the new one is the last to come.
        for before in places.take_while(|e| e.time <= entry.time) {
            *place = *before;
            place = before;
        }
        *place = entry;
    }

    /// All but the events of the first slot go to the wheel.
    #[cold]
    fn spread(&mut self) {
        let Some(next) = self.near.last() else { return };
        let first = wheel::slot_of(next.time) + 1;
        let later_from = wheel::start_of(first);
        let later = self.near.partition_point(|entry| entry.time >= later_from);
        if later == 0 {
            return;
        }
        let wheel = self.wheel.get_or_insert_with(|| Box::new(Wheel::new()));
        wheel.begin(first);
        // Earliest first, so that those of one time keep their order.
        self.near.drain(..later).rev().for_each(|entry| wheel.push(entry));
        self.later_from = later_from;
    }

    /// The list is empty: the events of the next slot come to it.
    #[cold]
    fn advance(&mut self) {
        let (Some(wheel), near) = (&mut self.wheel, &mut self.near) else { return };
        let first = wheel.take_first(|entry| SortedQueue::insert(near, entry));
        self.later_from = first.filter(|_| wheel.len() > 0).map_or(Time::MAX, wheel::start_of);
    }

    /// An event for the wheel, or one more than the list should hold.
    #[inline(never)]
    fn push_later(&mut self, entry: Entry) {
        if self.later_from == Time::MAX {
            self.spread();
        }
        match &mut self.wheel {
            Some(wheel) if entry.time >= self.later_from => wheel.push(entry),
            _ => SortedQueue::insert(&mut self.near, entry),
        }
    }
}

impl Default for SortedQueue {
    fn default() -> SortedQueue {
        SortedQueue { near: Vec::with_capacity(NEAR_MAX), later_from: Time::MAX, wheel: None }
    }
}

impl EventQueue for SortedQueue {
    // Never inlined: its callers do better without its registers.
    #[inline(never)]
    fn push(&mut self, time: Time, event: Event) {
        let entry = Entry { time, event };
        if time >= self.later_from || self.near.len() >= NEAR_MAX {
            return self.push_later(entry);
        }
        SortedQueue::insert(&mut self.near, entry);
    }

    fn pop(&mut self) -> Option<(Time, Event)> {
        self.pop_until(Time::MAX)
    }

    fn next_time(&self) -> Option<Time> {
        self.near.last().map(|e| e.time)
    }

    fn len(&self) -> usize {
        self.near.len() + self.wheel.as_ref().map_or(0, |wheel| wheel.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

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

    /// What comes later than is asked for stays where it is, before what is put behind it.
    #[test]
    fn nothing_later_is_taken() {
        let mut queue = SortedQueue::default();
        let at = Time::from_ps;
        queue.push(at(5), Event::SlotTimer(0));
        assert_eq!(queue.pop_until(at(4)), None);
        queue.push(at(5), Event::SlotTimer(1));
        queue.push(at(7), Event::SlotTimer(2));
        let taken: Vec<_> = std::iter::from_fn(|| queue.pop_until(at(6))).collect();
        assert_eq!(taken, [(at(5), Event::SlotTimer(0)), (at(5), Event::SlotTimer(1))]);
        assert_eq!((queue.len(), queue.pop_until(at(7))), (1, Some((at(7), Event::SlotTimer(2)))));
        assert_eq!((queue.is_empty(), queue.pop_until(Time::MAX)), (true, None));
    }

    #[test]
    fn the_first_of_some_kinds_is_found_among_few() {
        let mut queue = SortedQueue::default();
        let at = Time::from_ps;
        let of_hosts = |event| event == Event::Host(HostId::FIRST);
        assert_eq!(queue.first_that(of_hosts), Some(Time::MAX));
        queue.push(at(9), Event::Host(HostId::FIRST));
        queue.push(at(5), Event::SlotTimer(0));
        queue.push(at(7), Event::Host(HostId::FIRST));
        assert_eq!((queue.first_that(of_hosts), queue.first_that(|_| true)), (Some(at(7)), Some(at(5))));
        (0..200).for_each(|n| queue.push(at(1_000_000 * n), Event::SlotTimer(1)));
        assert_eq!(queue.first_that(of_hosts), None);
    }

    /// Times as a tree of links has them: now, soon, within the reach of the wheel and beyond, and some of them the same.
    fn delay() -> impl Strategy<Value = u64> {
        prop_oneof![Just(0), Just(4096), 0..5_000u64, 0..1_000_000u64, 0..40_000_000u64, Just(1 << 20)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// However many wait: what comes out is sorted by time and sequence.
        #[test]
        fn order_is_that_of_time_and_sequence(
            steps in prop::collection::vec((delay(), 0..4u32), 1..600), waiting in 1..400usize,
        ) {
            let (mut queue, mut model) = (SortedQueue::default(), BTreeMap::new());
            let mut now = 0;
            for (n, (delay, pops)) in steps.into_iter().enumerate() {
                queue.push(Time::from_ps(now + delay), Event::SlotTimer(n as u32));
                model.insert((Time::from_ps(now + delay), n as u32), ());
                let pops = if model.len() > waiting { pops } else { 0 };
                for _ in 0..pops {
                    let Some(((time, n), ())) = model.pop_first() else { break };
                    prop_assert_eq!(queue.next_time(), Some(time));
                    prop_assert_eq!(queue.pop(), Some((time, Event::SlotTimer(n))));
                    now = time.as_ps();
                }
                prop_assert_eq!(queue.len(), model.len());
            }
            let left: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
            let expected: Vec<_> = model.into_keys().map(|(time, n)| (time, Event::SlotTimer(n))).collect();
            prop_assert_eq!(left, expected);
        }
    }
}
