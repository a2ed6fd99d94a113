// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queues by Traffic Class: items of one class keep their order, and items of different classes may pass each other. So
//! a virtual channel without room does not block the others (`PCIe 5.0 §2.5`). After the queues have grown, they do not
//! allocate.

use std::collections::VecDeque;
use tlp::{TcSet, TrafficClass};

/// An item with a place in the order of everything that is sent.
pub(super) trait Stamped {
    /// Its place in that order.
    fn stamp(&self) -> u64;
}

/// A queue for each Traffic Class.
pub(super) struct Lanes<T> {
    queues: [VecDeque<T>; 8],
    /// The classes with items.
    filled: TcSet,
}

impl<T> Lanes<T> {
    /// Empty queues. The queue of TC0 has room for `capacity` without growing.
    pub(super) fn with_capacity(capacity: usize) -> Lanes<T> {
        let mut queues: [VecDeque<T>; 8] = Default::default();
        queues[0].reserve(capacity);
        Lanes { queues, filled: TcSet::NONE }
    }

    pub(super) fn push(&mut self, tc: TrafficClass, item: T) {
        self.queues[usize::from(tc.bits())].push_back(item);
        self.filled = self.filled.or(TcSet::of(tc));
    }

    pub(super) fn pop(&mut self, tc: TrafficClass) -> Option<T> {
        let queue = &mut self.queues[usize::from(tc.bits())];
        let item = queue.pop_front();
        if queue.is_empty() {
            self.filled = TcSet::from_bits(self.filled.bits() & !TcSet::of(tc).bits());
        }
        item
    }

    pub(super) fn front(&self, tc: TrafficClass) -> Option<&T> {
        self.queues[usize::from(tc.bits())].front()
    }

    /// The latest item of each class.
    pub(super) fn backs(&self) -> impl Iterator<Item = &T> {
        self.queues.iter().filter_map(VecDeque::back)
    }

    /// All items, in no order.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.queues.iter_mut().flatten()
    }

    /// Takes all items, class by class.
    pub(super) fn drain(&mut self) -> Vec<T> {
        self.filled = TcSet::NONE;
        self.queues.iter_mut().flat_map(|queue| queue.drain(..)).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.filled.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    pub(super) fn len_of(&self, tc: TrafficClass) -> usize {
        self.queues[usize::from(tc.bits())].len()
    }
}

impl<T: Stamped> Lanes<T> {
    /// Returns the class in `room` whose first item is the oldest for which `may_go` is true.
    pub(super) fn oldest(
        &self,
        room: TcSet,
        may_go: impl Fn(TrafficClass, &T) -> bool,
    ) -> Option<TrafficClass> {
        let mut left = self.filled.bits() & room.bits();
        if left & left.wrapping_sub(1) == 0 {
            // Usually at most one class has items.
            let tc = TrafficClass::from_bits(left.trailing_zeros() as u8 & 7);
            return self.front(tc).filter(|item| left != 0 && may_go(tc, item)).map(|_| tc);
        }
        let mut best: Option<(u64, TrafficClass)> = None;
        while left != 0 {
            let tc = TrafficClass::from_bits(left.trailing_zeros() as u8);
            left &= left - 1;
            let first = self.front(tc).filter(|item| may_go(tc, item)).map(|item| (item.stamp(), tc));
            best = match (first, best) {
                (Some(a), Some(b)) if b.0 < a.0 => Some(b),
                (None, b) => b,
                (a, _) => a,
            };
        }
        best.map(|(_, tc)| tc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Stamped for u64 {
        fn stamp(&self) -> u64 {
            *self
        }
    }

    #[test]
    fn oldest_item_with_room_is_sent_first() {
        let tc = TrafficClass::from_bits;
        let mut lanes = Lanes::with_capacity(4);
        for (of, stamp) in [(3, 1), (0, 2), (3, 3), (7, 4), (0, 5)] {
            lanes.push(tc(of), stamp);
        }
        let mut left = Vec::new();
        for room in [0x01, 0x80, 0xff, 0x09, 0x01] {
            let of = lanes.oldest(TcSet::from_bits(room), |_, _| true);
            left.extend(of.and_then(|of| lanes.pop(of)));
        }
        assert_eq!(left, [2, 4, 1, 3, 5]);
        assert!(lanes.is_empty() && lanes.oldest(TcSet::ALL, |_, _| true).is_none());
    }

    #[test]
    fn blocked_item_is_skipped() {
        let mut lanes = Lanes::with_capacity(0);
        lanes.push(TrafficClass::from_bits(1), 1);
        lanes.push(TrafficClass::from_bits(2), 2);
        let may_go = |_, stamp: &u64| *stamp != 1;
        assert_eq!(lanes.oldest(TcSet::ALL, may_go), Some(TrafficClass::from_bits(2)));
        assert_eq!((lanes.len(), lanes.len_of(TrafficClass::from_bits(1))), (2, 1));
    }
}
