// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Common parts of raw-TLP devices: credits, UR completions for the host's requests, and the interrupt that signals
//! the end. It sends no other requests.

use device::Ready;
use endpoint::CreditReturn;
use endpoint::raw::refusal;
use std::collections::VecDeque;
use tlp::{
    Bdf, Body, Class, Data, MemoryOp, MemoryRequest, PayloadPool, Repr, Span, Tag, TcSet, Tlp, TrafficClass,
};

/// Address of message-signalled interrupts on x86 hosts (Intel SDM volume 3, §11.11.1).
const MSI_ADDRESS: u64 = 0xfee0_0000;

/// The side of a raw-TLP device that faces its host.
pub(crate) struct RawEnd {
    id: Bdf,
    credits: VecDeque<CreditReturn>,
    /// Requests of the host to complete with UR.
    refused: VecDeque<Tlp>,
    /// Data of the final interrupt, until it is sent.
    interrupt: Option<Data>,
}

impl RawEnd {
    /// Creates an end that raises `done_vector` as function `id`.
    pub(crate) fn new(id: Bdf, done_vector: Option<u16>, pool: &PayloadPool) -> RawEnd {
        let data = |vector: u16| Data::Carried(pool.copy(&u32::from(vector).to_le_bytes()));
        RawEnd {
            id,
            credits: VecDeque::with_capacity(256),
            refused: VecDeque::new(),
            interrupt: done_vector.map(data),
        }
    }

    /// Handles a received TLP; returns it if it is a completion.
    pub(crate) fn receive<'a>(&mut self, tlp: &'a Tlp) -> Option<&'a Tlp> {
        if tlp.class() == Class::NonPosted {
            // Its credits return with its completion, so the receive buffer bounds the queue.
            self.refused.push_back(tlp.clone());
            return None;
        }
        self.credits.push_back(CreditReturn::of(tlp));
        matches!(tlp.repr.body, Body::Completion(_)).then_some(tlp)
    }

    pub(crate) fn poll_credits(&mut self) -> Option<CreditReturn> {
        self.credits.pop_front()
    }

    /// Returns the next UR completion whose Traffic Class has room.
    pub(crate) fn next_refusal(&mut self, room: TcSet) -> Option<Tlp> {
        let at = self.refused.iter().position(|tlp| room.contains(tlp.repr.tc))?;
        let request = self.refused.remove(at)?;
        self.credits.push_back(CreditReturn::of(&request));
        refusal(&request)
    }

    /// Returns the final interrupt, once.
    pub(crate) fn done_interrupt(&mut self, room: TcSet) -> Option<Tlp> {
        if !room.contains(TrafficClass::default()) {
            return None;
        }
        let data = self.interrupt.take()?;
        let span = Span::covering(MSI_ADDRESS, 4).ok()?;
        let body = MemoryRequest { op: MemoryOp::Write, requester: self.id, tag: Tag::default(), span };
        Some(Tlp::new(Repr::new(Body::Memory(body)), data))
    }

    /// Returns whether the final interrupt is still to be sent.
    pub(crate) fn has_interrupt(&self) -> bool {
        self.interrupt.is_some()
    }

    /// Returns which polls of this side may return something.
    pub(crate) fn ready(&self) -> Ready {
        let when = |yes: bool, what: Ready| if yes { what } else { Ready::NONE };
        when(!self.refused.is_empty(), Ready::output(Class::Completion))
            .or(when(!self.credits.is_empty(), Ready::TAKEN))
    }
}
