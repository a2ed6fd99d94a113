// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory reads of the endpoint over a carrier that can lose datagrams. A [`Requester`] issues each read and retries it a bounded number
//! of times, under tags that rest. The endpoint receives the data in completions of its own request. It never
//! receives a completion of a read that it has given up.

use crate::carrier::{Carrier, SendError};
use crate::requester::{Buffers, Counters, Done, Fault, RequestId, Requester, RequesterSettings, Rest};
use capture::encap::Origin;
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use tlp::completion::transaction_value;
use tlp::rules::Refusal;
use tlp::wire::Header;
use tlp::{
    AddressType, Bdf, Body, CompletedRequest, Data, Duration, MemoryOp, Mps, PayloadPool, Rcb, Repr, Status,
    Time, Tlp,
};

/// Maximum number of retries of a read TLP. All attempts together, plus the time of one more attempt for TLPs still
/// in flight, fit into the endpoint's completion timeout.
const RETRIES: u8 = 3;

/// A read of the endpoint.
struct HostedRead {
    request: Repr,
    id: Option<RequestId>,
    since: Time,
    data: Vec<u8>,
}

/// Recipient of a TLP.
pub(super) enum Whose {
    /// A completion with one of the tags of the reads.
    Reads,
    /// An unexpected completion: its tag is the endpoint's tag of a read that was sent under another tag. Holds
    /// Requester ID and tag of the completion.
    Unknown(u64),
    Endpoint,
}

/// Reads in progress, indexed by their tokens.
#[derive(Default)]
struct Slots {
    slots: Vec<HostedRead>,
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
    /// Maximum data of a completion for the endpoint. The endpoint accepts completions that are split at any address.
    mps: Mps,
    /// The first of the requester's tags; lower tags belong to the endpoint.
    first_tag: u16,
    /// Time after which the endpoint gives up a read.
    timeout: Duration,
}

impl Reads {
    /// Creates the reads of function `id`, whose endpoint gives up a read after `timeout`.
    pub(super) fn new(id: Bdf, mps: Mps, tags: RangeInclusive<u16>, rest: Rest, timeout: Duration) -> Reads {
        let attempt = Duration::from_ps(timeout.as_ps() / u64::from(RETRIES + 2));
        let first_tag = *tags.start();
        let settings = RequesterSettings {
            mps,
            timeout: attempt,
            retries: RETRIES,
            ..RequesterSettings::unreliable(id, tags, rest)
        };
        Reads { requester: Requester::new(settings), slots: Slots::default(), mps, first_tag, timeout }
    }

    pub(super) fn counters(&self) -> &Counters {
        self.requester.counters()
    }

    pub(super) fn refusals(&self) -> &[Refusal] {
        self.requester.refusals()
    }

    /// Returns true if a TLP of the endpoint is a read that can be retried: a memory read without any field that the requester cannot
    /// set. Relaxed Ordering and No Snoop are only permissions, so they may be left out.
    pub(super) fn takes(tlp: &Tlp) -> bool {
        let repr = &tlp.repr;
        let plain = repr.at == AddressType::Untranslated
            && repr.th.is_none()
            && repr.tc == tlp::TrafficClass::default();
        let read =
            matches!(&repr.body, Body::Memory(m) if m.op == MemoryOp::Read && !m.span.is_zero_length());
        read && plain && tlp.prefixes.as_slice().is_empty()
    }

    /// Starts a read for which [`takes`](Self::takes) returns true.
    pub(super) fn begin(&mut self, now: Time, request: Repr) {
        let Body::Memory(memory) = &request.body else { return };
        let (address, len) = (memory.span.first_byte(), memory.span.byte_count());
        let token = self.slots.free.pop().unwrap_or_else(|| {
            self.slots.slots.push(HostedRead { request, id: None, since: now, data: Vec::new() });
            self.slots.slots.len() - 1
        });
        // This fails only if thousands of reads are in progress, and the endpoint does not have so many tags. The
        // read would then time out.
        let id = self.requester.read(address, u64::from(len), token as u64).ok();
        let slot = &mut self.slots.slots[token];
        (slot.request, slot.id, slot.since) = (request, id, now);
        slot.data.clear();
        slot.data.resize(len as usize, 0);
        if id.is_none() {
            self.slots.free.push(token);
        }
    }

    /// Returns the recipient of a received TLP.
    pub(super) fn whose(&self, tlp: &[u8]) -> Whose {
        let completion = Header::new(tlp).ok().and_then(|header| header.completion());
        let Some(completion) = completion else { return Whose::Endpoint };
        let tag = completion.tag;
        let is_hidden = |slot: &HostedRead| slot.id.is_some() && slot.request.transaction().1 == tag;
        match tag.bits() >= self.first_tag {
            true => Whose::Reads,
            false if self.slots.slots.iter().any(is_hidden) => Whose::Unknown(transaction_value(&completion)),
            false => Whose::Endpoint,
        }
    }

    /// Handles a completion whose tag belongs to the requester.
    pub(super) fn handle(&mut self, now: Time, tlp: &[u8]) {
        self.requester.handle(now, tlp, &mut self.slots);
    }

    /// Runs expired timers, and adds the completions of finished reads to `arrived`.
    pub(super) fn advance(&mut self, now: Time, arrived: &mut VecDeque<Tlp>, pool: &PayloadPool) {
        self.requester.handle_timeout(now);
        // Finished reads go first: otherwise they would count as given up.
        self.finish(now, arrived, pool);
        let timeout = self.timeout;
        let overdue = |slot: &&HostedRead| now.since(slot.since) >= timeout;
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
            // The endpoint has given up the read. Another read may use its tag soon.
            if now.since(slot.since) >= self.timeout {
                continue;
            }
            let asked = CompletedRequest::of_non_posted(&slot.request);
            match result {
                Ok(_) => arrived.extend(completions(&asked, &slot.data, self.mps, pool)),
                Err(fault) => arrived.extend(
                    status(fault)
                        .map(|status| Tlp::new(asked.without_data(Bdf::default(), status), Data::NONE)),
                ),
            }
        }
    }

    /// Sends read TLPs, and returns their number.
    pub(super) fn send(&mut self, now: Time, carrier: &mut impl Carrier) -> usize {
        let mut sent = 0;
        while carrier.room() > 0 {
            let Some(outgoing) = self.requester.poll_transmit() else { break };
            let result = carrier.send(Origin::Device, outgoing.tag(), outgoing.tlp_len(), |slot| {
                outgoing.emit(&self.slots, slot);
            });
            match result {
                // A TLP that the carrier cannot send counts as lost on the way.
                Ok(()) | Err(SendError::TooLong { .. } | SendError::Tag(_)) => {
                    self.requester.sent(now, &outgoing);
                    sent += 1;
                }
                Err(SendError::NoRoom) => break,
            }
        }
        sent
    }

    /// Returns when [`advance`](Self::advance) is due.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.requester.poll_timeout()
    }
}

/// Returns the completions for the data of a read, as if from the root complex.
fn completions(
    asked: &CompletedRequest,
    data: &[u8],
    mps: Mps,
    pool: &PayloadPool,
) -> impl Iterator<Item = Tlp> {
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

/// Returns the status that the endpoint receives for a fault. Returns `None` if the endpoint receives no
/// completion, like from a completer that does not answer.
fn status(fault: Fault) -> Option<Status> {
    match fault {
        Fault::UnsupportedRequest(_) => Some(Status::UnsupportedRequest),
        Fault::CompleterAbort(_) | Fault::Poisoned(_) => Some(Status::CompleterAbort),
        Fault::ConfigRetry(_) => Some(Status::ConfigRetry),
        Fault::TimedOut { .. } | Fault::Cancelled => None,
    }
}
