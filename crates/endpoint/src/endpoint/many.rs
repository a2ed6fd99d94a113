// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The agenda of an endpoint with several functions: the functions that have something to do. With this agenda, the
//! cost of a call depends on the functions that the call reaches, not on the total number. An endpoint with one
//! function has no agenda, and polls the function each time.
//!
//! The answer of a function changes only in calls of that function, which then [touch](Endpoint::touch) it, or when its
//! device notifies. So the endpoint asks only these functions again, and functions whose devices may change without a
//! notification.

use super::Endpoint;
use super::function::Work;
use crate::front::{Front, Function, MAX_STALE_PER_POLL, Shared, earlier};
use crate::marks::Marks;
use crate::port::CreditReturn;
use device::seam::{Device, Ready};
use device::shared::Notifiers;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use tlp::{Class, TcSet, Time, Tlp};

/// Questions to a function, numbered as the bits of [`Ready`]: whether it has output of each class, and whether it has
/// accepted requests. The last question is for non-posted output that needs a tag of the pool. It is not asked while
/// the pool has no free tag.
const QUESTIONS: usize = 5;
const NON_POSTED: usize = Class::NonPosted.index();
const TAKEN: usize = 3;
const WITH_A_TAG: usize = 4;

/// One deadline per function, as a binary tree: each node is the earlier of its two children, node 1 is the root.
struct Deadlines {
    nodes: Vec<Time>,
    leaves: usize,
}

impl Deadlines {
    fn new(functions: usize) -> Deadlines {
        let leaves = functions.next_power_of_two();
        Deadlines { nodes: vec![Time::MAX; 2 * leaves], leaves }
    }

    fn set(&mut self, index: usize, deadline: Time) {
        let mut at = self.leaves + index;
        self.nodes[at] = deadline;
        while at > 1 {
            let first = self.nodes[at].min(self.nodes[at ^ 1]);
            at /= 2;
            if self.nodes[at] == first {
                return;
            }
            self.nodes[at] = first;
        }
    }

    fn first(&self) -> Option<Time> {
        Some(self.nodes[1]).filter(|t| *t < Time::MAX)
    }

    /// Appends to `found` the functions below node `at` whose deadline has passed or is now.
    fn due(&self, now: Time, at: usize, found: &mut Vec<usize>) {
        if self.nodes[at] > now || self.nodes[at] == Time::MAX {
            return;
        }
        match at.checked_sub(self.leaves) {
            Some(index) => found.push(index),
            None => {
                self.due(now, 2 * at, found);
                self.due(now, 2 * at + 1, found);
            }
        }
    }
}

/// The pending work of several functions.
pub(super) struct Agenda {
    marks: [Marks; QUESTIONS],
    /// The last answer of each function.
    said: Vec<u8>,
    deadlines: Deadlines,
    notifiers: Notifiers,
    /// The functions, by index, whose devices may change without a notification.
    silent: BTreeSet<u16>,
    several_channels: bool,
    /// Scratch space, stored to reuse the allocation.
    due: Vec<usize>,
}

impl Agenda {
    /// Returns the agenda of these functions, or `None` if there is only one. Gives all devices their notifiers, and
    /// asks all of them.
    pub(super) fn of(functions: &mut [Function<Work>], several_channels: bool) -> Option<Box<Agenda>> {
        let count = functions.len();
        if count == 1 {
            return None;
        }
        let mut agenda = Agenda {
            marks: std::array::from_fn(|_| Marks::new(count)),
            said: vec![0; count],
            deadlines: Deadlines::new(count),
            notifiers: Notifiers::new(count as u16),
            silent: BTreeSet::new(),
            several_channels,
            due: Vec::with_capacity(count),
        };
        for (index, function) in functions.iter_mut().enumerate() {
            agenda.give_notifier(&mut *function.behind.device, index as u16);
            function.behind.wants_notifier = false;
            agenda.ask(function, index);
        }
        Some(Box::new(agenda))
    }

    /// Gives the new device of a function its notifier.
    pub(super) fn give_notifier(&mut self, device: &mut dyn Device, index: u16) {
        if device.set_notifier(self.notifiers.notifier(index)) {
            self.silent.remove(&index);
        } else {
            self.silent.insert(index);
        }
    }

    fn ask(&mut self, function: &Function<Work>, index: usize) {
        let (ready, timeout) = function.status(self.several_channels);
        let mut questions = ready.bits();
        if function.settings.pooled && function.settings.bus_master {
            questions = questions & !(1 << NON_POSTED) | (questions >> NON_POSTED & 1) << WITH_A_TAG;
        }
        let mut changed = std::mem::replace(&mut self.said[index], questions) ^ questions;
        while changed != 0 {
            self.marks[changed.trailing_zeros() as usize].flip(index);
            changed &= changed - 1;
        }
        self.deadlines.set(index, timeout.unwrap_or(Time::MAX));
    }

    fn touch(&mut self, functions: &[Function<Work>], index: usize) {
        self.ask(&functions[index], index);
        self.ask_stirred(functions);
    }

    /// Asks the functions whose devices have notified, and the functions that may change without a notification.
    fn ask_stirred(&mut self, functions: &[Function<Work>]) {
        if !self.silent.is_empty() {
            self.ask_silent(functions);
        }
        while let Some(index) = self.notifiers.take() {
            if let Some(function) = functions.get(usize::from(index)) {
                self.ask(function, index.into());
            }
        }
    }

    fn ask_silent(&mut self, functions: &[Function<Work>]) {
        let silent = std::mem::take(&mut self.silent);
        for &index in &silent {
            self.ask(&functions[usize::from(index)], index.into());
        }
        self.silent = silent;
    }

    /// Returns the polls that may return an output. These are all polls if a device has notified, because a
    /// notification may concern any poll.
    pub(super) fn ready(&self, front: &Front<Work>) -> Ready {
        if self.notifiers.any() {
            return Ready::ALL;
        }
        let bits = (0..).zip(&self.marks).map(|(bit, marks)| u8::from(marks.count > 0) << bit);
        let with_a_tag = Ready::when(self.has_for_tags(&front.shared), Ready::output(Class::NonPosted));
        let silent = self.silent.iter().map(|&index| &front.functions[usize::from(index)]);
        let marked = Ready::from_bits(bits.sum()).or(with_a_tag);
        silent.fold(marked, |ready, f| ready.or(f.ready(self.several_channels)))
    }

    /// Returns whether a function has an output that needs a tag, and the pool has a tag for it.
    fn has_for_tags(&self, shared: &Shared) -> bool {
        self.marks[WITH_A_TAG].count > 0 && shared.tags.as_ref().is_some_and(|pool| pool.has_free())
    }

    /// Returns the first function from `from` on that has something to do about `question`.
    fn next(&self, question: usize, from: usize, shared: &Shared) -> Option<usize> {
        let found = self.marks[question].next(from);
        if question != NON_POSTED || !self.has_for_tags(shared) {
            return found;
        }
        [found, self.marks[WITH_A_TAG].next(from)].into_iter().flatten().min()
    }

    /// Returns the earliest deadline of all functions; time zero if a device has notified.
    pub(super) fn next_timeout(&self, functions: &[Function<Work>]) -> Option<Time> {
        if self.notifiers.any() {
            return Some(Time::ZERO);
        }
        let silent = self.silent.iter().map(|&index| &functions[usize::from(index)]);
        silent.fold(self.deadlines.first(), |first, f| earlier(first, f.poll_timeout()))
    }
}

impl Endpoint {
    /// Follows changes made by the front: new functions, and functions with another device or other settings.
    #[cold]
    pub(super) fn follow_changes(&mut self) {
        let functions = &mut self.front.functions;
        if functions.len() > self.agenda.as_ref().map_or(1, |agenda| agenda.said.len()) {
            self.agenda = Agenda::of(functions, self.front.shared.several_channels);
            self.notifier = None;
        }
        if self.agenda.is_none() && std::mem::take(&mut functions[0].behind.wants_notifier) {
            self.give_notifier();
        }
        let functions = &mut self.front.functions;
        for index in self.front.changed.drain(..) {
            let Some(agenda) = &mut self.agenda else { continue };
            if std::mem::take(&mut functions[index].behind.wants_notifier) {
                agenda.give_notifier(&mut *functions[index].behind.device, index as u16);
            }
            agenda.touch(functions, index);
        }
    }

    /// Asks a function again. To be called if its work may have changed.
    pub(super) fn touch(&mut self, index: usize) {
        if let Some(agenda) = &mut self.agenda {
            agenda.touch(&self.front.functions, index);
        }
    }

    /// Notes that there are several channels from now on, which do not wait for each other.
    #[cold]
    pub(super) fn find_several_channels(&mut self) {
        let Some(agenda) = &mut self.agenda else { return };
        agenda.several_channels = true;
        for (index, function) in self.front.functions.iter().enumerate() {
            agenda.ask(function, index);
        }
    }

    /// Like [`touch`](Self::touch), for a function polled for posted output. Outputs that waited for its posted TLPs
    /// were not polled. These classes have to be polled when the last posted TLP has been sent.
    pub(super) fn touch_posted(&mut self, now: Time, index: usize, held: bool) {
        self.touch(index);
        let other = 1 << NON_POSTED | 1 << WITH_A_TAG | 1 << Class::Completion.index();
        let said = self.agenda.as_ref().map_or(0, |agenda| agenda.said[index]);
        if held && !self.front.functions[index].holds_posted() && said & other != 0 {
            self.front.shared.wake_at(now);
        }
    }

    fn next_marked(&mut self, question: usize, from: usize) -> Option<usize> {
        let agenda = self.agenda.as_mut()?;
        agenda.ask_stirred(&self.front.functions);
        agenda.next(question, from, &self.front.shared)
    }

    /// Returns the next TLP of `class`, round robin over the functions.
    pub(super) fn next_of_many(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        let (count, turn) = (self.front.functions.len(), usize::from(self.turn[class.index()]));
        for part in [turn..count, 0..turn] {
            let mut at = part.start;
            while let Some(index) = self.next_marked(class.index(), at).filter(|i| *i < part.end) {
                let held = self.front.functions[index].holds_posted();
                let tlp = self.poll_function(now, class, room, index);
                self.touch_posted(now, index, held);
                if tlp.is_some() {
                    self.turn[class.index()] = if index + 1 < count { index as u16 + 1 } else { 0 };
                    return tlp;
                }
                at = index + 1;
            }
        }
        None
    }

    pub(super) fn next_credit_of_many(&mut self) -> Option<CreditReturn> {
        let (mut at, mut stale) = (0, 0);
        while let Some(index) = self.next_marked(TAKEN, at) {
            let found = self.next_taken(index, &mut stale);
            self.touch(index);
            if let ControlFlow::Break(credit) = found {
                return credit;
            }
            at = index + 1;
        }
        None
    }

    /// Asks a function for accepted requests, up to the first that returns credits.
    pub(super) fn next_taken(&mut self, index: usize, stale: &mut u32) -> ControlFlow<Option<CreditReturn>> {
        let function = &mut self.front.functions[index];
        while let Some(token) = function.behind.device.poll_taken() {
            if !self.front.shared.requests.take(function.number, token) {
                self.front.shared.counters.stale_tokens += 1;
                *stale += 1;
                if *stale == MAX_STALE_PER_POLL {
                    return ControlFlow::Break(None);
                }
            } else if let Some(credit) = self.front.shared.requests.next_credit() {
                return ControlFlow::Break(Some(credit));
            }
        }
        ControlFlow::Continue(())
    }

    /// Calls the functions whose deadline has passed or is now.
    pub(super) fn handle_timeout_of_many(&mut self, now: Time) {
        let Some(agenda) = &mut self.agenda else { return };
        agenda.ask_stirred(&self.front.functions);
        let mut due = std::mem::take(&mut agenda.due);
        agenda.deadlines.due(now, 1, &mut due);
        for index in due.drain(..) {
            self.front.functions[index].handle_timeout(now, &mut self.front.shared);
            self.touch(index);
        }
        if let Some(agenda) = &mut self.agenda {
            agenda.due = due;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Compares the tree with a map of the standard library.
        #[test]
        fn deadlines_behave_like_a_map(
            sets in prop::collection::vec((0usize..20, 0u64..50), 0..100),
            now in 0u64..60,
        ) {
            let (mut deadlines, mut model) = (Deadlines::new(20), BTreeMap::new());
            for (index, time) in sets {
                // Zero means no deadline.
                let time = if time == 0 { Time::MAX } else { Time::from_ps(time) };
                deadlines.set(index, time);
                model.insert(index, time);
            }
            model.retain(|_, time| *time < Time::MAX);
            prop_assert_eq!(deadlines.first(), model.values().min().copied());
            let mut due = Vec::new();
            deadlines.due(Time::from_ps(now), 1, &mut due);
            let expected: Vec<usize> =
                model.iter().filter(|(_, t)| **t <= Time::from_ps(now)).map(|(i, _)| *i).collect();
            prop_assert_eq!(due, expected);
        }
    }
}
