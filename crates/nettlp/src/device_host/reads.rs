// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The endpoint's memory reads over a carrier that loses datagrams: each goes out by a [`Requester`], which asks again, a
//! bounded number of times, under tags that rest; what it has read is given to the endpoint as the completions of its own
//! request. Never gives the endpoint what it has stopped waiting for.

use crate::carrier::{Carrier, SendError};
use crate::requester::{Buffers, Counters, Done, Fault, RequestId, Requester, Rest, Settings};
use capture::encap::Origin;
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use tlp::completion::transaction_value;
use tlp::rules::Refusal;
use tlp::wire::Header;
use tlp::{
    AddressType, Asked, Bdf, Body, Data, Duration, MemoryOp, Mps, PayloadPool, Rcb, Repr, Status, Time, Tlp,
};

/// How often a read TLP is sent again. With the first time, and as long again for what is on its way, all of that fits into the
/// endpoint's completion timeout.
const RETRIES: u8 = 3;

/// A read of the endpoint's.
struct Slot {
    request: Repr,
    id: Option<RequestId>,
    since: Time,
    data: Vec<u8>,
}

/// For whom a TLP is.
pub(super) enum Whose {
    /// A completion for one of the tags of the reads.
    Reads,
    /// A completion under the endpoint's own tag of a read that went out under another: nobody asked for it.
    /// With its Requester ID and tag.
    Nobody(u64),
    Endpoint,
}

/// Reads that are under way, by their tokens.
#[derive(Default)]
struct Slots {
    slots: Vec<Slot>,
    free: Vec<usize>,
}

impl Buffers for Slots {
    fn place(&mut self, token: u64, offset: u64, len: usize) -> Option<&mut [u8]> {
        self.slots.get_mut(token as usize)?.data.get_mut(offset as usize..offset as usize + len)
    }

    fn data(&self, _: u64, _: u64, _: usize) -> Option<&[u8]> {
        None
    }
}

/// See the [module](self).
pub(super) struct Reads {
    requester: Requester,
    slots: Slots,
    /// Completions for the endpoint have up to so many bytes; it takes those that are cut anywhere.
    mps: Mps,
    /// The first of the requester's tags; those below are the endpoint's own.
    first_tag: u16,
    /// After which the endpoint gives a read up.
    timeout: Duration,
}

impl Reads {
    /// Of a function `id`, whose endpoint gives reads up after `timeout`.
    pub(super) fn new(id: Bdf, mps: Mps, tags: RangeInclusive<u16>, rest: Rest, timeout: Duration) -> Reads {
        let attempt = Duration::from_ps(timeout.as_ps() / u64::from(RETRIES + 2));
        let first_tag = *tags.start();
        let settings =
            Settings { mps, timeout: attempt, retries: RETRIES, ..Settings::unreliable(id, tags, rest) };
        Reads { requester: Requester::new(settings), slots: Slots::default(), mps, first_tag, timeout }
    }

    pub(super) fn counters(&self) -> &Counters {
        self.requester.counters()
    }

    pub(super) fn refusals(&self) -> &[Refusal] {
        self.requester.refusals()
    }

    /// Whether a TLP of the endpoint's is a read that can be asked again: of memory, without anything that the requester does not
    /// say. Relaxed Ordering and No Snoop are leave that need not be taken.
    pub(super) fn takes(tlp: &Tlp) -> bool {
        let repr = &tlp.repr;
        let plain = repr.at == AddressType::Untranslated
            && repr.th.is_none()
            && repr.tc == tlp::TrafficClass::default();
        let read =
            matches!(&repr.body, Body::Memory(m) if m.op == MemoryOp::Read && !m.span.is_zero_length());
        read && plain && tlp.prefixes.as_slice().is_empty()
    }

    /// Takes a read that it [`takes`](Self::takes).
    pub(super) fn begin(&mut self, now: Time, request: Repr) {
        let Body::Memory(memory) = &request.body else { return };
        let (address, len) = (memory.span.first_byte(), memory.span.byte_count());
        let token = self.slots.free.pop().unwrap_or_else(|| {
            self.slots.slots.push(Slot { request, id: None, since: now, data: Vec::new() });
            self.slots.slots.len() - 1
        });
        // Refused only where there are thousands, and the endpoint has no such number of tags: it would time out.
        let id = self.requester.read(address, u64::from(len), token as u64).ok();
        let slot = &mut self.slots.slots[token];
        (slot.request, slot.id, slot.since) = (request, id, now);
        slot.data.clear();
        slot.data.resize(len as usize, 0);
        if id.is_none() {
            self.slots.free.push(token);
        }
    }

    /// For whom a TLP is that came.
    pub(super) fn whose(&self, tlp: &[u8]) -> Whose {
        let completion = Header::new(tlp).ok().and_then(|header| header.completion());
        let Some(completion) = completion else { return Whose::Endpoint };
        let tag = completion.tag;
        let is_hidden = |slot: &Slot| slot.id.is_some() && slot.request.transaction().1 == tag;
        match tag.bits() >= self.first_tag {
            true => Whose::Reads,
            false if self.slots.slots.iter().any(is_hidden) => Whose::Nobody(transaction_value(&completion)),
            false => Whose::Endpoint,
        }
    }

    /// Takes a completion of one of its tags.
    pub(super) fn handle(&mut self, now: Time, tlp: &[u8]) {
        self.requester.handle(now, tlp, &mut self.slots);
    }

    /// Looks after timers, and puts completions of what has ended into `arrived`.
    pub(super) fn advance(&mut self, now: Time, arrived: &mut VecDeque<Tlp>, pool: &PayloadPool) {
        self.requester.handle_timeout(now);
        // What has ended goes first: else it would count as given up.
        self.finish(now, arrived, pool);
        let timeout = self.timeout;
        let overdue = |slot: &&Slot| now.since(slot.since) >= timeout;
        for id in self.slots.slots.iter().filter(overdue).filter_map(|slot| slot.id) {
            self.requester.cancel(now, id);
        }
        self.finish(now, arrived, pool);
    }

    fn finish(&mut self, now: Time, arrived: &mut VecDeque<Tlp>, pool: &PayloadPool) {
        while let Some(Done { token, result, .. }) = self.requester.poll_done() {
            let Some(slot) = self.slots.slots.get_mut(token as usize) else { continue };
            slot.id = None;
            self.slots.free.push(token as usize);
            // The endpoint has given it up: its tag may be that of another read soon.
            if now.since(slot.since) >= self.timeout {
                continue;
            }
            let asked = Asked::of_non_posted(&slot.request);
            match result {
                Ok(_) => arrived.extend(completions(&asked, &slot.data, self.mps, pool)),
                Err(fault) => arrived.extend(
                    status(fault)
                        .map(|status| Tlp::new(asked.without_data(Bdf::default(), status), Data::NONE)),
                ),
            }
        }
    }

    /// Sends what may be sent; how many TLPs that were.
    pub(super) fn send(&mut self, now: Time, carrier: &mut impl Carrier) -> usize {
        let mut sent = 0;
        while carrier.room() > 0 {
            let Some(outgoing) = self.requester.poll_transmit() else { break };
            let result = carrier.send(Origin::Device, outgoing.tag(), outgoing.tlp_len(), |slot| {
                outgoing.emit(&self.slots, slot);
            });
            match result {
                // One that the carrier cannot carry is lost as on the way.
                Ok(()) | Err(SendError::TooLong { .. } | SendError::Tag(_)) => {
                    self.requester.sent(now, &outgoing);
                    sent += 1;
                }
                Err(SendError::NoRoom) => break,
            }
        }
        sent
    }

    /// When [`advance`](Self::advance) is due.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.requester.poll_timeout()
    }
}

/// The completions of what was read, as if the root complex had answered.
fn completions(asked: &Asked, data: &[u8], mps: Mps, pool: &PayloadPool) -> impl Iterator<Item = Tlp> {
    let mut sent = 0;
    std::iter::from_fn(move || {
        let rest = asked.bytes.behind(sent);
        let piece = (rest.byte_count > 0).then(|| rest.next_piece(mps, Rcb::default()))?;
        let bytes = pool.copy(&data[sent as usize..][..piece as usize]);
        let tlp = Tlp::new(asked.with_data(Bdf::default(), sent, piece), Data::Carried(bytes));
        sent += piece;
        Some(tlp)
    })
}

/// What the endpoint is told of a fault; `None`: nothing, as by a completer that is silent.
fn status(fault: Fault) -> Option<Status> {
    match fault {
        Fault::UnsupportedRequest(_) => Some(Status::UnsupportedRequest),
        Fault::CompleterAbort(_) | Fault::Poisoned(_) => Some(Status::CompleterAbort),
        Fault::ConfigRetry(_) => Some(Status::ConfigRetry),
        Fault::TimedOut { .. } | Fault::Cancelled => None,
    }
}
