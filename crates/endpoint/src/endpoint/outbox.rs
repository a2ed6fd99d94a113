// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The outputs of one class that a function has accepted from its device but not yet sent. Entries of one Traffic Class
//! keep their order. Entries of different Traffic Classes may pass each other, so that a virtual channel without room
//! does not block others (`PCIe 5.0 §2.5`).

use std::collections::VecDeque;
use tlp::{TcSet, TrafficClass};

/// Maximum number of entries of one Traffic Class and class that wait here. When it is reached, no further output of
/// the class is taken from the device. Completions have no such limit, because there are only as many as requests.
pub(super) const MAX_PARKED: usize = 32;

struct Entry<T> {
    stamp: u64,
    tc: TrafficClass,
    item: T,
}

/// One entry is being sent, a TLP at a time; the others wait until there is room for their Traffic Class. With one
/// channel, only the entry being split waits here.
pub(super) struct Outbox<T> {
    current: Option<Entry<T>>,
    parked: VecDeque<Entry<T>>,
    /// Maximum number of parked entries of one Traffic Class.
    limit: usize,
}

impl<T> Outbox<T> {
    /// Makes an empty outbox for at most `limit` waiting entries of each Traffic Class.
    pub(super) fn new(limit: usize) -> Outbox<T> {
        Outbox { current: None, parked: VecDeque::new(), limit }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.current.is_none() && self.parked.is_empty()
    }

    /// Returns whether there is an entry of `tc`, for which a new entry has to wait.
    pub(super) fn holds(&self, tc: TrafficClass) -> bool {
        !self.is_empty() && self.oldest(tc).is_some()
    }

    /// Returns the stamp of the oldest entry of `tc`.
    pub(super) fn oldest(&self, tc: TrafficClass) -> Option<u64> {
        let of_tc = |e: &&Entry<T>| e.tc == tc;
        self.current.iter().chain(&self.parked).filter(of_tc).map(|e| e.stamp).min()
    }

    /// Returns true if the device may be polled for more outputs.
    pub(super) fn has_room(&self) -> bool {
        self.parked.len() < self.limit || self.fullest() < self.limit
    }

    fn fullest(&self) -> usize {
        let mut counts = [0; 8];
        for entry in &self.parked {
            counts[usize::from(entry.tc.bits())] += 1;
        }
        counts.into_iter().max().unwrap_or(0)
    }

    /// Adds an entry. It is sent immediately if `at_once` allows it, and otherwise waits.
    pub(super) fn accept(&mut self, stamp: u64, tc: TrafficClass, item: T, at_once: bool) {
        let entry = Entry { stamp, tc, item };
        if at_once && self.current.is_none() {
            self.current = Some(entry);
        } else {
            self.parked.push_back(entry);
        }
    }

    /// Selects the next entry to send: the one being sent, or the first waiting one for which there is room and
    /// `may_go` (of its Traffic Class and stamp) is true. Returns whether an entry was found.
    pub(super) fn select(&mut self, room: TcSet, may_go: impl Fn(TrafficClass, u64) -> bool) -> bool {
        match &self.current {
            Some(current) if room.contains(current.tc) => true,
            None if self.parked.is_empty() => false,
            _ => self.select_parked(room, may_go),
        }
    }

    /// [Selects](Self::select) among the entries that need not wait for an older TLP of `posted`. Sets `is_held` if
    /// posted TLPs may be the reason that no output is available.
    pub(super) fn select_behind<P>(&mut self, room: TcSet, posted: &Outbox<P>, is_held: &mut bool) -> bool {
        let found = self.select(room, |tc, stamp| posted.oldest(tc).is_none_or(|p| stamp < p));
        *is_held |= !found && !posted.is_empty();
        found
    }

    fn select_parked(&mut self, room: TcSet, may_go: impl Fn(TrafficClass, u64) -> bool) -> bool {
        // The current entry is older than all waiting entries of its Traffic Class.
        if let Some(current) = self.current.take() {
            self.parked.push_front(current);
        }
        let mut tried = TcSet::NONE;
        let found = self.parked.iter().position(|e| {
            let first = !tried.contains(e.tc);
            tried = tried.or(TcSet::of(e.tc));
            first && room.contains(e.tc) && may_go(e.tc, e.stamp)
        });
        self.current = found.and_then(|at| self.parked.remove(at));
        self.current.is_some()
    }

    /// Returns the entry that is being sent.
    pub(super) fn current(&mut self) -> Option<&mut T> {
        self.current.as_mut().map(|e| &mut e.item)
    }

    /// Removes the entry that was being sent and is complete.
    pub(super) fn finish(&mut self) -> Option<T> {
        self.current.take().map(|e| e.item)
    }

    /// Removes the entries for which `keep` returns false.
    pub(super) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        if self.current.as_ref().is_some_and(|e| !keep(&e.item)) {
            self.current = None;
        }
        self.parked.retain(|e| keep(&e.item));
    }

    /// Removes all entries, and calls `forgotten` with the Traffic Class of each.
    pub(super) fn clear(&mut self, forgotten: impl FnMut(TrafficClass)) {
        self.current.take().into_iter().chain(self.parked.drain(..)).map(|e| e.tc).for_each(forgotten);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tc(n: u8) -> TrafficClass {
        TrafficClass::from_bits(n)
    }

    #[test]
    fn class_without_room_is_skipped_and_keeps_its_order() {
        let mut outbox = Outbox::new(4);
        outbox.accept(1, tc(0), "a", true);
        outbox.accept(2, tc(0), "b", false);
        outbox.accept(3, tc(1), "c", false);
        let mut sent = Vec::new();
        for room in [2, 2, 1, 1] {
            if outbox.select(TcSet::from_bits(room), |_, _| true) {
                sent.extend(outbox.finish());
            }
        }
        assert_eq!(sent, ["c", "a", "b"]);
        assert!(outbox.is_empty());
    }

    #[test]
    fn later_entry_of_other_class_passes_blocked_entry() {
        let mut outbox = Outbox::new(4);
        outbox.accept(5, tc(1), "behind a write", false);
        outbox.accept(6, tc(2), "free", false);
        assert!(outbox.select(TcSet::ALL, |tc, stamp| tc.bits() != 1 || stamp < 5));
        assert_eq!(outbox.finish(), Some("free"));
        assert!(!outbox.select(TcSet::ALL, |_, stamp| stamp < 5));
        assert_eq!(outbox.oldest(tc(1)), Some(5));
    }

    proptest! {
        /// For any changes of the room, no entry is lost and each Traffic Class keeps its order.
        #[test]
        fn each_traffic_class_keeps_its_order(
            items in prop::collection::vec(0u8..8, 0..40),
            rooms in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let mut outbox = Outbox::new(64);
            for (n, &of) in (0u64..).zip(&items) {
                outbox.accept(n, tc(of), (of, n), n % 3 == 0);
            }
            let mut sent = Vec::new();
            let all = std::iter::repeat_n(0xff, items.len());
            for room in rooms.into_iter().chain(all) {
                if outbox.select(TcSet::from_bits(room), |_, _| true) {
                    let (of, n) = outbox.finish().unwrap();
                    prop_assert!(room >> of & 1 == 1);
                    sent.push((of, n));
                }
            }
            prop_assert_eq!(sent.len(), items.len());
            for of in 0..8 {
                let order: Vec<u64> = sent.iter().filter(|(t, _)| *t == of).map(|(_, n)| *n).collect();
                prop_assert!(order.is_sorted(), "TC{} left as {:?}", of, order);
            }
        }
    }
}
