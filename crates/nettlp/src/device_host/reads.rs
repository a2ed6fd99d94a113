// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The endpoint's memory reads over a carrier that loses datagrams: each goes out by a [`Requester`], which asks again, a
//! bounded number of times, under tags that rest; what it has read is given to the endpoint as the completions of its own
//! request. Never gives the endpoint what it has stopped waiting for.

use crate::carrier::{Carrier, SendError};
use crate::completer::{Completer, Completions, Fault as MemoryFault, Memory};
use crate::requester::{Buffers, Counters, Done, Fault, RequestId, Requester, Rest, Settings};
use capture::encap::Origin;
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use tlp::{AddressType, Bdf, Body, Duration, MemoryOp, Mps, PayloadPool, Rcb, Repr, Status, Time, Tlp};

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

/// What was read, as memory from its address on.
struct Found<'a> {
    address: u64,
    data: &'a [u8],
}

impl Memory for Found<'_> {
    fn check(&self, address: u64, bytes: u64, is_write: bool) -> Result<(), MemoryFault> {
        let whole = address == self.address && bytes == self.data.len() as u64 && !is_write;
        if whole { Ok(()) } else { Err(MemoryFault::OutOfRange) }
    }

    fn read(&mut self, address: u64, out: &mut [u8]) {
        let from = (address - self.address) as usize;
        out.copy_from_slice(&self.data[from..from + out.len()]);
    }

    fn write(&mut self, _: u64, _: &[u8]) -> Result<(), MemoryFault> {
        Err(MemoryFault::ReadOnly)
    }
}

/// Completions for the endpoint.
struct ToEndpoint<'a> {
    arrived: &'a mut VecDeque<Tlp>,
    pool: &'a PayloadPool,
    scratch: &'a mut Vec<u8>,
}

impl Completions for ToEndpoint<'_> {
    fn room(&self) -> usize {
        crate::completer::COMPLETIONS_MAX
    }

    fn send(&mut self, len: usize, fill: &mut dyn FnMut(&mut [u8])) {
        self.scratch.resize(len, 0);
        fill(self.scratch);
        // What a completer makes is whole.
        self.arrived.extend(Tlp::parse(self.scratch, self.pool));
    }
}

/// See the [module](self).
pub(super) struct Reads {
    requester: Requester,
    slots: Slots,
    completer: Completer,
    /// The first of the requester's tags; those below are the endpoint's own.
    first_tag: u16,
    /// After which the endpoint gives a read up.
    timeout: Duration,
    scratch: Vec<u8>,
}

impl Reads {
    /// Of a function `id`, whose endpoint gives reads up after `timeout`.
    pub(super) fn new(id: Bdf, mps: Mps, tags: RangeInclusive<u16>, rest: Rest, timeout: Duration) -> Reads {
        let attempt = Duration::from_ps(timeout.as_ps() / u64::from(RETRIES + 2));
        let first_tag = *tags.start();
        let settings =
            Settings { mps, timeout: attempt, retries: RETRIES, ..Settings::unreliable(id, tags, rest) };
        Reads {
            requester: Requester::new(settings),
            slots: Slots::default(),
            // In the root complex's place; the endpoint takes completions that are cut anywhere.
            completer: Completer::new(Bdf::default(), mps, Rcb::default()),
            first_tag,
            timeout,
            scratch: Vec::new(),
        }
    }

    pub(super) fn counters(&self) -> &Counters {
        self.requester.counters()
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

    /// Whether a TLP that came is a completion for one of its tags.
    pub(super) fn answers(&self, tlp: &Tlp) -> bool {
        matches!(&tlp.repr.body, Body::Completion(c) if c.tag.bits() >= self.first_tag)
    }

    /// Takes such a completion.
    pub(super) fn handle(&mut self, now: Time, tlp: &Tlp) {
        self.scratch.resize(tlp.wire_len(), 0);
        tlp.emit(&mut self.scratch);
        self.requester.handle(now, &self.scratch, &mut self.slots);
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
            let mut out = ToEndpoint { arrived, pool, scratch: &mut self.scratch };
            let answered = match result {
                Ok(_) => {
                    let Body::Memory(memory) = &slot.request.body else { continue };
                    let mut found = Found { address: memory.span.first_byte(), data: &slot.data };
                    self.completer.handle(&slot.request, &[], &mut found, &mut out)
                }
                Err(fault) => status(fault)
                    .map_or(Ok(()), |status| self.completer.refuse(&slot.request, status, &mut out)),
            };
            debug_assert!(answered.is_ok(), "there is room for all completions of a read");
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

/// What the endpoint is told of a fault; `None`: nothing, as by a completer that is silent.
fn status(fault: Fault) -> Option<Status> {
    match fault {
        Fault::UnsupportedRequest(_) => Some(Status::UnsupportedRequest),
        Fault::CompleterAbort(_) | Fault::Poisoned(_) => Some(Status::CompleterAbort),
        Fault::ConfigRetry(_) => Some(Status::ConfigRetry),
        Fault::TimedOut { .. } | Fault::Cancelled => None,
    }
}
