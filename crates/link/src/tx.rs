// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The transmit queue of one virtual channel: a FIFO for each class, and the choice of the next TLP by age, credits and
//! ordering rules. The queue is bounded and never drops a TLP.

use crate::config::CREDIT_BYTES;
use crate::credit::TxCredits;
use crate::frame::TLP_FRAMING_BYTES;
use crate::order::{Passing, may_pass};
use crate::store::{Handle, TlpStore};
use std::collections::VecDeque;
use tlp::{Class, Time, Tlp};

/// Lengths of the parts of a TLP in bytes, computed once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Lengths {
    /// Bytes of the header, prefixes included.
    pub(crate) header: u8,
    /// Bytes of the digest.
    digest: u8,
    /// Bytes of data in whole DWs, 0 to 4096.
    pub(crate) data: u16,
}

impl Lengths {
    #[inline(always)]
    pub(crate) fn of(tlp: &Tlp) -> Lengths {
        Lengths {
            header: (tlp.prefixes.wire_len() + tlp.repr.header_len()) as u8,
            digest: u8::from(tlp.repr.td) * 4,
            data: (tlp.repr.data_dw() * 4) as u16,
        }
    }

    /// Bytes on the wire, framing included.
    pub(crate) const fn wire(self) -> u32 {
        self.header as u32 + self.digest() as u32 + self.data as u32 + TLP_FRAMING_BYTES
    }

    /// Bytes of the digest.
    pub(crate) const fn digest(self) -> u8 {
        self.digest
    }

    /// Data credits that the TLP needs, of 16 B.
    pub(crate) const fn data_credits(self) -> u32 {
        (self.data as u32).div_ceil(CREDIT_BYTES)
    }
}

/// A TLP that waits, with its place in the order of arrival.
#[derive(Clone, Copy)]
pub(crate) struct Queued {
    stamp: u64,
    /// Time when the TLP was queued.
    pub(crate) at: Time,
    pub(crate) lengths: Lengths,
    pub(crate) handle: Handle,
}

/// Result of [`TransmitQueue::oldest_sendable`].
pub(crate) struct Choice {
    /// Class and lengths of the next TLP.
    pub(crate) head: Option<(Class, Lengths)>,
    /// Classes whose heads lack credits, bits by [`Class::index`].
    pub(crate) blocked: u8,
}

/// TLPs that wait to be sent.
pub(crate) struct TransmitQueue {
    fifos: [VecDeque<Queued>; 3],
    /// The classes with waiting TLPs, bits by [`Class::index`].
    waiting: u8,
    capacity: usize,
    next_stamp: u64,
}

impl TransmitQueue {
    pub(crate) fn new(capacity: usize) -> TransmitQueue {
        let fifos = std::array::from_fn(|_| VecDeque::with_capacity(capacity));
        TransmitQueue { fifos, waiting: 0, capacity, next_stamp: 0 }
    }

    pub(crate) fn has_room(&self, class: Class) -> bool {
        self.fifos[class.index()].len() < self.capacity
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, at: Time, class: Class, lengths: Lengths, handle: Handle) {
        self.fifos[class.index()].push_back(Queued { stamp: self.next_stamp, at, lengths, handle });
        self.next_stamp += 1;
        self.waiting |= 1 << class.index();
    }

    #[inline(always)]
    pub(crate) fn pop(&mut self, class: Class) -> Option<Queued> {
        let fifo = &mut self.fifos[class.index()];
        let first = fifo.pop_front();
        self.waiting &= !(u8::from(fifo.is_empty()) << class.index());
        first
    }

    /// Empties the queue. Returns its TLPs with their classes, oldest first.
    #[cold]
    pub(crate) fn drain(&mut self) -> Vec<(Class, Queued)> {
        let fifos = Class::ALL.into_iter().zip(&mut self.fifos);
        let of_class = |(class, fifo): (Class, &mut VecDeque<Queued>)| -> Vec<(Class, Queued)> {
            fifo.drain(..).map(|queued| (class, queued)).collect()
        };
        let mut all: Vec<(Class, Queued)> = fifos.flat_map(of_class).collect();
        self.waiting = 0;
        all.sort_by_key(|(_, queued)| queued.stamp);
        all
    }

    /// The waiting TLPs of `class`, oldest first.
    pub(crate) fn waiting(&self, class: Class) -> impl Iterator<Item = &Queued> {
        self.fifos[class.index()].iter()
    }

    pub(crate) fn head(&self, class: Class) -> Option<&Queued> {
        self.fifos[class.index()].front()
    }

    /// Returns the oldest head that credits and ordering rules permit, and the heads that lack credits.
    pub(crate) fn oldest_sendable(&self, credits: &[TxCredits; 3], store: &TlpStore) -> Choice {
        if self.waiting & self.waiting.wrapping_sub(1) == 0 {
            self.only_sendable(credits)
        } else {
            self.oldest_of_several(credits, store)
        }
    }

    #[inline(never)]
    fn oldest_of_several(&self, credits: &[TxCredits; 3], store: &TlpStore) -> Choice {
        let mut choice = Choice { head: None, blocked: 0 };
        let mut oldest = u64::MAX;
        for class in Class::ALL {
            let Some(head) = self.head(class) else { continue };
            if !credits[class.index()].covers(head.lengths.data_credits()) {
                choice.blocked |= 1 << class.index();
            } else if head.stamp < oldest && self.may_leave(class, head, store) {
                oldest = head.stamp;
                choice.head = Some((class, head.lengths));
            }
        }
        choice
    }

    /// Returns the only head, if it has its credits. `Some(None)` if no TLP waits, `None` if the general selection is
    /// needed.
    #[inline(always)]
    pub(crate) fn only_head(&self, credits: &[TxCredits; 3]) -> Option<Option<(Class, Lengths)>> {
        if self.waiting & self.waiting.wrapping_sub(1) != 0 {
            return None;
        }
        let Some(class) = Class::ALL.get(self.waiting.trailing_zeros() as usize) else { return Some(None) };
        let lengths = self.head(*class)?.lengths;
        credits[class.index()].covers(lengths.data_credits()).then_some(Some((*class, lengths)))
    }

    /// Does the work of `oldest_sendable` if TLPs of at most one class wait. The ordering rules then block no TLP.
    fn only_sendable(&self, credits: &[TxCredits; 3]) -> Choice {
        match self.only_head(credits) {
            Some(head) => Choice { head, blocked: 0 },
            None => Choice { head: None, blocked: self.waiting },
        }
    }

    /// Returns whether `head` may pass all older posted requests. Within a class TLPs keep their order; the other
    /// columns of the ordering table never forbid passing.
    fn may_leave(&self, class: Class, head: &Queued, store: &TlpStore) -> bool {
        let first = self.fifos[Class::Posted.index()].front();
        class == Class::Posted
            || first.is_none_or(|p| p.stamp > head.stamp)
            || self.may_pass_older_posted(head, store)
    }

    #[inline(never)]
    fn may_pass_older_posted(&self, head: &Queued, store: &TlpStore) -> bool {
        let posted = &self.fifos[Class::Posted.index()];
        let Some(tlp) = store.get(head.handle) else { return true };
        let mut older =
            posted.iter().take_while(|p| p.stamp < head.stamp).filter_map(|p| store.get(p.handle));
        older.all(|posted| may_pass(tlp, posted) != Passing::MustNot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tlp::{
        Account, Attributes, Bdf, Body, Completion, Data, FlowControl, FlowControlKind, MemoryOp,
        MemoryRequest, Repr, Span, Tag,
    };

    const NONE: Attributes = Attributes::empty();
    const RO: Attributes = Attributes::RELAXED_ORDERING;
    const IDO: Attributes = Attributes::ID_BASED_ORDERING;

    fn memory(op: MemoryOp, id: u16, attr: Attributes) -> Tlp {
        let span = Span::covering(0x1000, 64).unwrap();
        let (requester, tag) = (Bdf::from_bits(id), Tag::default());
        let repr = Repr { attr, ..Repr::new(Body::Memory(MemoryRequest { op, requester, tag, span })) };
        Tlp::new(repr, Data::NONE)
    }

    fn write() -> Tlp {
        memory(MemoryOp::Write, 1, NONE)
    }

    fn read(id: u16, attr: Attributes) -> Tlp {
        memory(MemoryOp::Read, id, attr)
    }

    fn completion(attr: Attributes) -> Tlp {
        let body = Completion {
            byte_count: 64,
            length_dw: Some(16),
            ..Completion::new(Bdf::from_bits(1), Bdf::from_bits(0), Tag::default())
        };
        let repr = Repr { attr, ..Repr::new(Body::Completion(body)) };
        Tlp::new(repr, Data::NONE)
    }

    /// Returns credits for one TLP with 64 B of each class in `classes`, and no credits for the others.
    fn credits(classes: &[Class]) -> [TxCredits; 3] {
        Class::ALL.map(|class| {
            let kind = FlowControlKind::InitFc1;
            let mut credits = TxCredits::init(&FlowControl::new(kind, class, tlp::Vc::VC0, 1, 4));
            if !classes.contains(&class) {
                credits.consume(4);
            }
            credits
        })
    }

    /// Rows: the waiting TLPs, oldest first; the classes with credits; the TLP that is sent first (`PCIe 5.0 Table
    /// 2-40`).
    #[test]
    fn oldest_permitted_tlp_is_sent_first() {
        use Class::{Completion as C, NonPosted as N, Posted as P};
        let all = [P, N, C];
        type Row<'a> = (&'a str, Vec<Tlp>, &'a [Class], Option<Class>);
        let rows: [Row<'_>; 11] = [
            ("by age", vec![read(1, NONE), write(), completion(NONE)], &all, Some(N)),
            ("by age", vec![completion(NONE), read(1, NONE), write()], &all, Some(C)),
            ("posted passes a blocked read", vec![read(1, NONE), write()], &[P, C], Some(P)),
            ("completion passes a blocked read", vec![read(1, NONE), completion(NONE)], &[P, C], Some(C)),
            ("posted passes a blocked completion", vec![completion(NONE), write()], &[P, N], Some(P)),
            ("read passes a blocked completion", vec![completion(NONE), read(1, NONE)], &[P, N], Some(N)),
            ("read stays behind blocked posted", vec![write(), read(2, RO)], &[N, C], None),
            ("completion stays behind blocked posted", vec![write(), completion(NONE)], &[N, C], None),
            ("but not with RO", vec![write(), completion(RO)], &[N, C], Some(C)),
            ("nor a read of another with IDO", vec![write(), read(2, IDO)], &[N, C], Some(N)),
            ("read before blocked posted", vec![read(1, NONE), write()], &[N, C], Some(N)),
        ];
        for (what, tlps, with_credits, first) in rows {
            let (mut queue, mut store) = (TransmitQueue::new(4), TlpStore::new(4));
            for tlp in tlps {
                let (class, lengths) = (tlp.class(), Lengths::of(&tlp));
                queue.push(Time::ZERO, class, lengths, store.insert(tlp, Account::NONE));
            }
            let choice = queue.oldest_sendable(&credits(with_credits), &store);
            assert_eq!(choice.head.map(|h| h.0), first, "{what}");
        }
    }
}
