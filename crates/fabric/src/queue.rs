// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The queue of pending events, ordered by `(time, sequence)`: events at one time keep the order of their insertion.

mod wheel;

use crate::effects::Due;
use crate::topology::{HostId, LinkId, OfHost, PortId};
use tlp::{Duration, Time};
use wheel::Wheel;

/// A pending event. An event is small on purpose. Its data waits at its owner, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// The oldest frame in flight to this port arrives.
    Arrive(PortId),
    /// The header of the oldest frame in flight to this port, of a cut-through switch, arrives.
    Head(PortId),
    /// The wire out of this port is free again.
    Transmit(PortId),
    /// A timer of this port's link layer may be due.
    PortTimer(PortId),
    /// A timer of the device in this slot is due.
    SlotTimer(u32),
    /// A timer of this switch is due: a TLP may leave, or the switch stops waiting for something.
    SwitchTimer(u32),
    /// The data of this read job of a host's root complex is available.
    ReadReady(OfHost),
    /// Memory of a host has drained posted data of this root port.
    Drained(OfHost),
    /// A request of a host reaches this root port.
    RootPort(OfHost),
    /// A completion timer of a host's root complex is due.
    RootTimer(HostId),
    /// An input reaches a host, or its timer is due.
    Host(HostId),
    /// This scheduled change of a link is due.
    LinkChange(u32),
    /// This link's training is over.
    LinkUp(LinkId),
    /// This link comes out of Recovery.
    Trained(LinkId),
}

impl Event {
    /// Returns whether it belongs to a port or to a frame on its way there. All other events do something outside the links.
    pub(crate) fn is_of_port(self) -> bool {
        matches!(self, Event::Arrive(_) | Event::Head(_) | Event::Transmit(_) | Event::PortTimer(_))
    }

    /// The event that calls the root complex of `host` for `due`.
    pub(crate) fn of_root(host: HostId, due: Due) -> Event {
        match due {
            Due::Drained(port) => Event::Drained(OfHost::new(host, port)),
            Due::Port(port) => Event::RootPort(OfHost::new(host, port)),
            Due::Timer => Event::RootTimer(host),
            Due::Host => Event::Host(host),
        }
    }
}

/// The queue of a fabric: a list sorted by time, the next event last; a [`wheel`] takes later events if it grows long.
///
/// A lab with one slot has 8 to 32 pending events, most of them due soon. A short walk from the end then finds the
/// place of a new event faster than a binary heap would: `cargo bench -p riser-fabric` was a tenth faster with the
/// list. Trees of switches have hundreds of pending events, most of them timers of links. Then the list holds the
/// events of the next nanoseconds, and the wheel all others. Which of the two holds an event does not affect the order.
pub(crate) struct SortedQueue {
    /// Events, the latest first. Empty only if no event is pending.
    near: Vec<Entry>,
    /// Events from this time on are in the wheel. [`Time::MAX`]: the wheel is empty.
    later_from: Time,
    wheel: Option<Box<Wheel>>,
}

#[derive(Clone, Copy)]
struct Entry {
    time: Time,
    event: Event,
}

/// Number of events that the list holds before it is spread over the wheel.
const NEAR_MAX: usize = 128;
/// Number of events in the wheel below which the list takes all of them back.
const FEW: usize = 48;
/// Minimum number of events that the empty list takes from the wheel: if few links are busy among many idle ones, each
/// slot of the wheel has one event.
const BATCH: usize = 32;

impl SortedQueue {
    /// Inserts `event` at `time`, after all events already at that time.
    // Not inlined: its callers do better without its registers.
    #[inline(never)]
    pub(crate) fn push(&mut self, time: Time, event: Event) {
        let entry = Entry { time, event };
        // The list holds `NEAR_MAX` events without growing. The second comparison lets the compiler see that.
        let len = self.near.len();
        if time >= self.later_from || len >= NEAR_MAX || len == self.near.capacity() {
            return self.push_later(entry);
        }
        SortedQueue::insert(&mut self.near, entry);
    }

    /// Returns whether no event is pending.
    pub(crate) fn is_empty(&self) -> bool {
        self.near.is_empty()
    }

    /// Returns when the first event is due; [`Time::MAX`] if none is pending.
    pub(crate) fn next_time(&self) -> Time {
        self.near.last().map_or(Time::MAX, |entry| entry.time)
    }

    /// Takes the first event if it is due by `until`. The caller cannot put an event back, because the event would then
    /// come after others at the same time.
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

    /// Returns pending events, in no order: all [of ports](Event::is_of_port), and at least the first of the others and
    /// the ones that are due soon. The cost does not grow with the number of pending timers.
    pub(crate) fn next_of_each(&self) -> impl Iterator<Item = (Time, Event)> {
        let later = self.wheel.iter().flat_map(|wheel| wheel.next_of_each());
        self.near.iter().chain(later).map(|entry| (entry.time, entry.event))
    }

    /// Postpones by `span` the events of ports for which `moves` is true. Events already pending for the same time come first.
    #[cold]
    pub(crate) fn put_off(&mut self, span: Duration, moves: impl Fn(Time, Event) -> bool) {
        let mut moved = Vec::new();
        let mut goes = |entry: &Entry| {
            let goes = entry.event.is_of_port() && moves(entry.time, entry.event);
            if goes {
                moved.push(*entry);
            }
            goes
        };
        self.near.reverse();
        self.near.retain(|entry| !goes(entry));
        self.near.reverse();
        if let Some(wheel) = &mut self.wheel {
            wheel.remove_of_ports(goes);
        }
        if self.near.is_empty() {
            self.advance();
        }
        moved.into_iter().for_each(|entry| self.push(entry.time + span, entry.event));
    }

    fn insert(near: &mut Vec<Entry>, entry: Entry) {
        near.push(entry);
        // The position in the list is the sequence: a new event comes after all others at the same time. Entries that
        // it passes move by one place, eight at a time as long as there are so many.
        let mut list = near.as_mut_slice();
        while let Some(block) = list.last_chunk_mut::<9>() {
            if block[0].time > entry.time {
                break;
            }
            let [passed @ .., _] = *block;
            let [_, places @ ..] = block;
            *places = passed;
            let left = list.len() - 8;
            list = &mut list[..left];
        }
        let mut places = list.iter_mut().rev();
        let Some(mut place) = places.next() else { return };
        for before in places.take_while(|e| e.time <= entry.time) {
            *place = *before;
            place = before;
        }
        *place = entry;
    }

    /// Moves all but the events of the first slot to the wheel.
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
        // In ascending order, so that events at one time keep their order.
        self.near.drain(..later).rev().for_each(|entry| wheel.push(entry));
        self.later_from = later_from;
    }

    /// Refills the empty list with the events of the next slot, or with all if few are left.
    #[cold]
    fn advance(&mut self) {
        let (Some(wheel), near) = (&mut self.wheel, &mut self.near) else { return };
        let takes_all = wheel.len() <= FEW;
        loop {
            let first = wheel.take_first(|entry| near.push(entry));
            self.later_from = first.filter(|_| wheel.len() > 0).map_or(Time::MAX, wheel::start_of);
            if wheel.len() == 0 || (!takes_all && near.len() >= BATCH) {
                break;
            }
        }
        SortedQueue::sort(near);
    }

    /// Sorts events from the order of their insertion. Thousands may be due at the same time, for example frames that
    /// wait for a delayed frame. They keep their order.
    fn sort(near: &mut [Entry]) {
        near.reverse();
        for end in 1..near.len() {
            let entry = near[end];
            let mut at = end;
            while at > 0 && near[at - 1].time < entry.time {
                near[at] = near[at - 1];
                at -= 1;
            }
            near[at] = entry;
        }
    }

    /// Inserts an event that belongs into the wheel, or for which the list has no room.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Side;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    impl SortedQueue {
        fn pop(&mut self) -> Option<(Time, Event)> {
            self.pop_until(Time::MAX)
        }

        fn len(&self) -> usize {
            self.near.len() + self.wheel.as_ref().map_or(0, |wheel| wheel.len())
        }
    }

    #[test]
    fn events_at_one_time_keep_their_order() {
        let mut queue = SortedQueue::default();
        for (ps, n) in [(5, 0), (3, 1), (5, 2), (3, 3), (1, 4)] {
            queue.push(Time::from_ps(ps), Event::SlotTimer(n));
        }
        assert_eq!(queue.next_time(), Time::from_ps(1));
        let order: Vec<Event> = std::iter::from_fn(|| queue.pop().map(|(_, e)| e)).collect();
        assert_eq!(order, [4, 1, 3, 0, 2].map(Event::SlotTimer));
        assert!(queue.is_empty());
    }

    /// An event later than the limit stays in place, before events inserted after it.
    #[test]
    fn pop_until_returns_no_later_event() {
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

    /// Two of three events are of ports.
    fn is_of_port(n: u32) -> bool {
        !n.is_multiple_of(3)
    }

    /// The event that tests give number `n`.
    fn event(n: u32) -> Event {
        let port = PortId::new(LinkId(n / 2), if n.is_multiple_of(2) { Side::Root } else { Side::Device });
        if is_of_port(n) { Event::PortTimer(port) } else { Event::SlotTimer(n) }
    }

    /// With ten thousand pending timers, as with a hundred links, the search for idle time visits no more events than
    /// with few timers, and moves no timer.
    #[test]
    fn idle_search_cost_is_independent_of_timers() {
        let count = |timers: u32| {
            let mut queue = SortedQueue::default();
            for port in (0..300).filter(|&n| is_of_port(n)) {
                queue.push(Time::from_ps(30_000_000), event(port));
            }
            for n in 0..timers {
                queue.push(Time::ZERO + Duration::from_us(50_000 + u64::from(n)), Event::SlotTimer(n));
            }
            let before = queue.next_of_each().count();
            queue.put_off(Duration::from_ms(1), |_, event| event.is_of_port());
            assert_eq!(queue.len(), 200 + timers as usize);
            (before, queue.next_of_each().count())
        };
        let (few, many) = (count(100), count(10_000));
        assert!(many.0 <= few.0 + NEAR_MAX && many.1 <= few.1 + NEAR_MAX, "{few:?}, {many:?}");
    }

    /// Delays as in a tree of links: zero, short, within the reach of the wheel and beyond, some of them equal.
    fn delay() -> impl Strategy<Value = u64> {
        prop_oneof![Just(0), Just(4096), 0..5_000u64, 0..1_000_000u64, 0..40_000_000u64, Just(1 << 20)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// For any number of pending events, they come out sorted by time and sequence.
        #[test]
        fn events_are_ordered_by_time_and_sequence(
            steps in prop::collection::vec((delay(), 0..4u32), 1..600), waiting in 1..400usize,
        ) {
            let (mut queue, mut model) = (SortedQueue::default(), BTreeMap::new());
            let mut now = 0;
            for (n, (delay, pops)) in steps.into_iter().enumerate() {
                queue.push(Time::from_ps(now + delay), event(n as u32));
                model.insert((Time::from_ps(now + delay), n as u32), ());
                let pops = if model.len() > waiting { pops } else { 0 };
                for _ in 0..pops {
                    let Some(((time, n), ())) = model.pop_first() else { break };
                    prop_assert_eq!(queue.next_time(), time);
                    prop_assert_eq!(queue.pop(), Some((time, event(n))));
                    now = time.as_ps();
                }
                prop_assert_eq!(queue.len(), model.len());
            }
            let left: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
            let expected: Vec<_> = model.into_keys().map(|(time, n)| (time, event(n))).collect();
            prop_assert_eq!(left, expected);
        }

        /// Postponed events come after the others at their new time; all others keep their order.
        #[test]
        fn postponed_events_keep_their_order(
            delays in prop::collection::vec(delay(), 1..300), span in delay(), every in 1..4u32,
        ) {
            let (mut queue, mut expected) = (SortedQueue::default(), Vec::new());
            for (n, delay) in (0..).zip(delays) {
                queue.push(Time::from_ps(delay), event(n));
                let moved = is_of_port(n) && n % every == 0;
                expected.push((delay + if moved { span } else { 0 }, moved, n));
            }
            queue.put_off(Duration::from_ps(span), |_, moves| (0..300).any(|n| n % every == 0 && moves == event(n)));
            // Moved events keep the order of their former times.
            expected.sort_unstable();
            let expected: Vec<_> = expected.into_iter().map(|(ps, _, n)| (Time::from_ps(ps), event(n))).collect();
            let next = |of_ports| move |(_, event): &(Time, Event)| event.is_of_port() == of_ports;
            let mut of_ports: Vec<Time> = queue.next_of_each().filter(next(true)).map(|(time, _)| time).collect();
            of_ports.sort_unstable();
            prop_assert_eq!(of_ports, expected.iter().copied().filter(next(true)).map(|(time, _)| time).collect::<Vec<_>>());
            let first = queue.next_of_each().filter(next(false)).map(|(time, _)| time).min();
            prop_assert_eq!(first, expected.iter().copied().find(next(false)).map(|(time, _)| time));
            prop_assert_eq!(std::iter::from_fn(|| queue.pop()).collect::<Vec<_>>(), expected);
        }
    }
}
