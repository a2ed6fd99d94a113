// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The transaction layer's transmit queue: a FIFO for each class, and the choice of the next TLP by age, credits and
//! ordering rules. Bounded; never drops.

use crate::credit::TxCredits;
use crate::frame::TLP_FRAMING_BYTES;
use crate::order::{Passing, may_pass};
use std::collections::VecDeque;
use tlp::{Class, Tlp};

/// Bytes of the parts of a TLP, computed once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Lengths {
    pub(crate) header: u8,
    pub(crate) digest: u8,
    /// Whole DWs, 0 to 4096.
    pub(crate) data: u16,
}

impl Lengths {
    pub(crate) fn of(tlp: &Tlp) -> Lengths {
        Lengths {
            header: tlp.repr.header_len() as u8,
            digest: if tlp.repr.td { 4 } else { 0 },
            data: (tlp.repr.data_dw() * 4) as u16,
        }
    }

    /// On the wire, framing included.
    pub(crate) const fn wire(self) -> u32 {
        self.header as u32 + self.digest as u32 + self.data as u32 + TLP_FRAMING_BYTES
    }

    /// Data credits: units of 16 B.
    pub(crate) const fn data_credits(self) -> u32 {
        (self.data as u32 + 15) / 16
    }
}

/// A TLP that waits, with its place in the order of arrival.
pub(crate) struct Queued {
    stamp: u64,
    pub(crate) lengths: Lengths,
    pub(crate) tlp: Tlp,
}

/// What [`TransmitQueue::oldest_sendable`] found.
pub(crate) struct Choice<'a> {
    pub(crate) head: Option<&'a Queued>,
    /// Bits by [`Class::index`].
    pub(crate) blocked: u8,
}

/// TLPs that wait to be sent.
pub(crate) struct TransmitQueue {
    fifos: [VecDeque<Queued>; 3],
    capacity: usize,
    next_stamp: u64,
}

impl TransmitQueue {
    pub(crate) fn new(capacity: usize) -> TransmitQueue {
        let fifos = std::array::from_fn(|_| VecDeque::with_capacity(capacity));
        TransmitQueue { fifos, capacity, next_stamp: 0 }
    }

    pub(crate) fn has_room(&self, class: Class) -> bool {
        self.fifos[class.index()].len() < self.capacity
    }

    pub(crate) fn push(&mut self, tlp: Tlp) {
        let queued = Queued { stamp: self.next_stamp, lengths: Lengths::of(&tlp), tlp };
        self.next_stamp += 1;
        self.fifos[queued.tlp.class().index()].push_back(queued);
    }

    pub(crate) fn pop(&mut self, class: Class) -> Option<Queued> {
        self.fifos[class.index()].pop_front()
    }

    pub(crate) fn head(&self, class: Class) -> Option<&Queued> {
        self.fifos[class.index()].front()
    }

    /// The oldest of the heads that credits and ordering rules let go, and the heads that credits do not.
    pub(crate) fn oldest_sendable(&self, credits: &[TxCredits; 3]) -> Choice<'_> {
        let mut choice = Choice { head: None, blocked: 0 };
        for class in Class::ALL {
            let Some(head) = self.head(class) else { continue };
            if !credits[class.index()].covers(head.lengths.data_credits()) {
                choice.blocked |= 1 << class.index();
            } else if choice.head.is_none_or(|best| head.stamp < best.stamp) && self.may_leave(class, head) {
                choice.head = Some(head);
            }
        }
        choice
    }

    /// Whether no older posted request forbids `head` to leave. Within a class TLPs keep their order; of the other
    /// columns of the ordering table none forbids passing.
    fn may_leave(&self, class: Class, head: &Queued) -> bool {
        class == Class::Posted
            || self.fifos[Class::Posted.index()]
                .iter()
                .take_while(|posted| posted.stamp < head.stamp)
                .all(|posted| may_pass(&head.tlp, &posted.tlp) != Passing::MustNot)
    }
}
