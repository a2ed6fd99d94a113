// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Places in receive buffers that requests keep until they are answered, as in bridges with room for the response to
//! every request they let in (gem5's, IISWC'18, §V-A). Switches of the specification free a place as soon as a TLP has
//! left it, and so does this one unless told otherwise. The paper does not say when places are free; here it is when
//! the answer is in the switch. This module never decides where a TLP goes.

use endpoint::CreditReturn;
use std::collections::BTreeMap;
use tlp::{Bdf, Body, Class, Tag, Tlp};

/// The places of requests that have left and await an answer. Bounded by the receive buffers.
#[derive(Default)]
pub(super) struct Places {
    keeps: bool,
    kept: BTreeMap<(Bdf, Tag), (usize, CreditReturn)>,
}

impl Places {
    /// From now on requests keep their places.
    pub(super) fn keep_all(&mut self) {
        self.keeps = true;
    }

    /// `tlp` of port `from` leaves: returns the place that is now free; a request that needs an answer keeps its own.
    pub(super) fn left(
        &mut self,
        tlp: &Tlp,
        from: usize,
        credit: CreditReturn,
    ) -> Option<(usize, CreditReturn)> {
        if !self.keeps || tlp.class() != Class::NonPosted {
            return Some((from, credit));
        }
        // An earlier request of the same requester and tag was never answered: its place is no longer lost.
        self.kept.insert(tlp.repr.transaction(), (from, credit))
    }

    /// The place of the request whose last completion `tlp` is.
    pub(super) fn answered(&mut self, tlp: &Tlp) -> Option<(usize, CreditReturn)> {
        match &tlp.repr.body {
            Body::Completion(c) if self.keeps && c.is_last() => self.kept.remove(&(c.requester, c.tag)),
            _ => None,
        }
    }

    /// The link of `port` starts again with all places free.
    pub(super) fn forget(&mut self, port: usize) {
        self.kept.retain(|_, (of, _)| *of != port);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tlp::{Completion, Data, MemoryOp, MemoryRequest, Repr, Span, Status};

    fn read(tag: u16) -> Tlp {
        let (requester, span) = (Bdf::from_bits(0x0300), Span::zero_length(0x1000));
        let body = MemoryRequest { op: MemoryOp::Read, requester, tag: Tag::from_bits(tag), span };
        Tlp::new(Repr::new(Body::Memory(body)), Data::NONE)
    }

    fn answer(tag: u16) -> Tlp {
        let body = Completion {
            locked: false,
            completer: Bdf::default(),
            requester: Bdf::from_bits(0x0300),
            tag: Tag::from_bits(tag),
            status: Status::Success,
            bcm: false,
            byte_count: 4,
            lower_address: 0,
            length_dw: None,
        };
        Tlp::new(Repr::new(Body::Completion(body)), Data::NONE)
    }

    #[test]
    fn a_place_is_free_at_once_or_with_the_answer() {
        let credit = CreditReturn::of(&read(1));
        let mut places = Places::default();
        assert_eq!(places.left(&read(1), 2, credit), Some((2, credit)), "as the specification has it");
        assert_eq!(places.answered(&answer(1)), None);
        places.keep_all();
        assert_eq!(places.left(&read(1), 2, credit), None);
        assert_eq!(places.answered(&answer(7)), None, "another request's");
        assert_eq!(places.answered(&answer(1)), Some((2, credit)));
        assert_eq!(places.answered(&answer(1)), None, "once");
        assert_eq!(places.left(&answer(1), 2, credit), Some((2, credit)), "nothing answers a completion");
        assert_eq!(places.left(&read(3), 4, credit), None);
        places.forget(4);
        assert_eq!(places.answered(&answer(3)), None, "its link has begun anew");
    }
}
