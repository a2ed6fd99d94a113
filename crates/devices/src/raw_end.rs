// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What raw-TLP devices have in common: credits, the host's requests that are refused with UR, and the interrupt that
//! tells the host of the end. Never sends a request but that one.

use device::Ready;
use endpoint::CreditReturn;
use endpoint::raw::refusal;
use std::collections::VecDeque;
use tlp::{
    Bdf, Body, Class, Data, MemoryOp, MemoryRequest, PayloadPool, Repr, Span, Tag, TcSet, Tlp, TrafficClass,
};

/// Where message-signalled interrupts go on x86 hosts (Intel SDM volume 3, §11.11.1).
const MSI_ADDRESS: u64 = 0xfee0_0000;

/// The side of a raw-TLP device that its host sees.
pub(crate) struct RawEnd {
    id: Bdf,
    credits: VecDeque<CreditReturn>,
    /// Requests of the host that are to be refused.
    refused: VecDeque<Tlp>,
    /// The data of the interrupt at the end, until it is sent.
    interrupt: Option<Data>,
}

impl RawEnd {
    /// An end that raises `done_vector` as function `id`.
    pub(crate) fn new(id: Bdf, done_vector: Option<u16>, pool: &PayloadPool) -> RawEnd {
        let data = |vector: u16| Data::Carried(pool.copy(&u32::from(vector).to_le_bytes()));
        RawEnd {
            id,
            credits: VecDeque::with_capacity(256),
            refused: VecDeque::new(),
            interrupt: done_vector.map(data),
        }
    }

    /// Takes a TLP that has arrived; returns it if it is a completion.
    pub(crate) fn receive<'a>(&mut self, tlp: &'a Tlp) -> Option<&'a Tlp> {
        if tlp.class() == Class::NonPosted {
            // Its credits return with its answer, so that no more wait here than the receive buffer holds.
            self.refused.push_back(tlp.clone());
            return None;
        }
        self.credits.push_back(CreditReturn::of(tlp));
        matches!(tlp.repr.body, Body::Completion(_)).then_some(tlp)
    }

    pub(crate) fn poll_credits(&mut self) -> Option<CreditReturn> {
        self.credits.pop_front()
    }

    /// The next refusal, of a Traffic Class that has room.
    pub(crate) fn next_refusal(&mut self, room: TcSet) -> Option<Tlp> {
        let at = self.refused.iter().position(|tlp| room.contains(tlp.repr.tc))?;
        let request = self.refused.remove(at)?;
        self.credits.push_back(CreditReturn::of(&request));
        refusal(&request)
    }

    /// The interrupt at the end, once.
    pub(crate) fn done_interrupt(&mut self, room: TcSet) -> Option<Tlp> {
        if !room.contains(TrafficClass::default()) {
            return None;
        }
        let data = self.interrupt.take()?;
        let span = Span::covering(MSI_ADDRESS, 4).ok()?;
        let body = MemoryRequest { op: MemoryOp::Write, requester: self.id, tag: Tag::default(), span };
        Some(Tlp::new(Repr::new(Body::Memory(body)), data))
    }

    /// True until the interrupt at the end is sent.
    pub(crate) fn has_interrupt(&self) -> bool {
        self.interrupt.is_some()
    }

    /// Which polls of this side may return something.
    pub(crate) fn ready(&self) -> Ready {
        let when = |yes: bool, what: Ready| if yes { what } else { Ready::NONE };
        when(!self.refused.is_empty(), Ready::output(Class::Completion))
            .or(when(!self.credits.is_empty(), Ready::TAKEN))
    }
}
