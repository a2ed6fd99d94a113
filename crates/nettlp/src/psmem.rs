// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pseudo memory: device software that serves a host's MMIO. Answers the host's reads and writes in a window of its
//! address space, like upstream's `psmem`.
//!
//! ```text
//!   host ── MRd, MWr ──▶ carrier ──▶ handle: writes are executed, other requests wait for an answer
//!        ◀── CplD, Cpl ── carrier ◀── answer: as many as the carrier has room for
//! ```
//!
//! Sans-IO except for [`serve`], which runs it over a [`Carrier`]. Never sleeps between requests, and allocates only while its queue
//! grows.

use crate::carrier::{Arrival, Carrier, Wait, announce};
use crate::completer::{
    COMPLETIONS_MAX, Completer, CompleterCounters, CompleterMemory, Completions, Fault, Image, Incoming,
    reason_to_drop,
};
use crate::net::Clock;
use capture::encap::Origin;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use tlp::rules::reasons::unrouted;
use tlp::rules::{Head, Refusal};
use tlp::{Bdf, Body, Duration, MemoryOp, Mps, Rcb, Repr, RuleId, Status, Tag, Time, Violation};

/// Maximum number of requests that wait to be answered; further ones are dropped and counted. Larger than a session's window, and
/// than one batch from the sockets of upstream's ports.
pub const WAITING_MAX: usize = 1 << 16;

/// How long [`serve`] waits for a request before it calls `go_on`.
const TURN: Duration = Duration::from_ms(50);
/// How long [`serve`] waits for room: for a session's credits, or a socket's buffer.
const ROOM: Duration = Duration::from_ms(1);

/// Memory that starts at the address where the host sees it.
#[derive(Clone, Debug)]
pub struct Window {
    /// First address.
    pub base: u64,
    /// Content of the window.
    pub image: Arc<Image>,
}

impl Window {
    fn offset(&self, address: u64) -> Result<u64, Fault> {
        address.checked_sub(self.base).ok_or(Fault::OutOfRange)
    }
}

impl CompleterMemory for Window {
    fn check(&self, address: u64, bytes: u64, is_write: bool) -> Result<(), Fault> {
        self.image.check(self.offset(address)?, bytes, is_write)
    }

    fn prepare(&mut self, address: u64, bytes: u64) -> Result<(), Fault> {
        let offset = self.offset(address)?;
        self.image.prepare(offset, bytes)
    }

    fn read(&mut self, address: u64, out: &mut [u8]) {
        self.image.read(address.wrapping_sub(self.base), out);
    }

    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), Fault> {
        let offset = self.offset(address)?;
        self.image.write(offset, data)
    }
}

device::counters! {
    /// Outcomes of received TLPs, in addition to [`CompleterCounters`].
    pub struct PsmemCounters {
        /// Received TLPs.
        received,
        /// Malformed datagrams, dropped.
        malformed,
        /// Malformed TLPs of upstream's software that were accepted with their intended meaning.
        mended,
        /// TLPs with a wrong digest, dropped.
        wrong_digest,
        /// Requests dropped because too many waited, or because the carrier lost the answer.
        unanswered,
    }
}

/// A non-posted request that waits for its answer.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    origin: Origin,
    repr: Repr,
    /// True if the answer is always Unsupported Request, for every address.
    refused: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Psmem<M> {
    completer: Completer,
    memory: M,
    waiting: VecDeque<Waiting>,
    counters: PsmemCounters,
}

impl<M: CompleterMemory> Psmem<M> {
    /// Creates a memory that answers as `id` from `memory`, with completions of at most `mps` data.
    pub fn new(id: Bdf, mps: Mps, memory: M) -> Psmem<M> {
        Psmem {
            completer: Completer::new(id, mps, Rcb::ENDPOINT),
            memory,
            waiting: VecDeque::with_capacity(1024),
            counters: PsmemCounters::default(),
        }
    }

    /// Returns the counters of received TLPs.
    pub const fn counters(&self) -> &PsmemCounters {
        &self.counters
    }

    /// Returns the counters of the completer.
    pub const fn completer_counters(&self) -> &CompleterCounters {
        &self.completer.counters
    }

    /// Returns the reasons why TLPs were refused or dropped, one reason of each kind.
    pub fn refusals(&self) -> &[Refusal] {
        self.completer.refusals()
    }

    /// Returns how many requests [`answer`](Self::answer) has not answered yet.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Handles a TLP at `now`. A write is executed at once, even before earlier reads (`PCIe 5.0 §2.4.1`: posted
    /// requests pass reads). A non-posted request waits for [`answer`](Self::answer).
    pub fn handle(&mut self, now: Time, arrival: &Arrival<'_>) {
        self.counters.received += 1;
        self.completer.set_time(now);
        let mut scratch = [0; 4];
        let incoming = Incoming::parse(arrival.tlp, &mut scratch);
        if let Some(why) = reason_to_drop(arrival.tlp, &incoming) {
            self.completer.record(why, Head::of_bytes(arrival.tlp));
        }
        let Ok(incoming) = incoming else {
            self.counters.malformed += 1;
            return;
        };
        if incoming.is_digest_wrong {
            self.counters.wrong_digest += 1;
            return;
        }
        self.counters.mended += u64::from(incoming.is_mended);
        // No host sends a request across 4 KiB. Such a write is executed as two writes. Such a read is refused,
        // because no completions could answer it.
        if incoming.rest.is_some() && wants_answer(&incoming.repr) {
            let why = Violation::new(RuleId::Crosses4K, unrouted(&incoming.repr).found);
            self.completer.record(why, Head::new(&incoming.prefixes, &incoming.repr));
            return self.wait(Waiting { origin: arrival.origin, repr: incoming.repr, refused: true });
        }
        self.take(arrival.origin, incoming.repr, incoming.data);
        if let Some((repr, data)) = incoming.second_write() {
            self.take(arrival.origin, repr, data);
        }
    }

    fn take(&mut self, origin: Origin, repr: Repr, data: &[u8]) {
        if wants_answer(&repr) {
            return self.wait(Waiting { origin, repr, refused: false });
        }
        // Posted requests have no completions.
        let _ = self.completer.handle(&repr, data, &mut self.memory, &mut Nowhere);
    }

    fn wait(&mut self, waiting: Waiting) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(waiting);
        } else {
            self.counters.unanswered += 1;
            let why = Violation::new(RuleId::RequestLimit, WAITING_MAX as u64);
            self.completer.record(why, Head::of_header(&waiting.repr));
        }
    }

    /// Answers waiting requests in order, as many as the carrier has room for. The caller flushes.
    pub fn answer(&mut self, carrier: &mut impl Carrier) {
        while let Some(Waiting { origin, repr, refused }) = self.waiting.front().copied() {
            let mut way = ReplyPort { carrier, origin, tag: repr.transaction().1, lost: false };
            // The data is not needed: non-posted requests with data are refused.
            let done = match refused {
                true => self.completer.refuse(&repr, Status::UnsupportedRequest, &mut way),
                false => self.completer.handle(&repr, &[], &mut self.memory, &mut way),
            };
            if done.is_err() {
                return;
            }
            self.counters.unanswered += u64::from(way.lost);
            self.waiting.pop_front();
        }
    }
}

/// Returns true if the request is answered by a completion (`PCIe 5.0 §2.2.9`).
fn wants_answer(repr: &Repr) -> bool {
    match &repr.body {
        Body::Memory(m) => m.op != MemoryOp::Write,
        Body::Completion(_) | Body::Message(_) => false,
        Body::Io(_) | Body::Atomic(_) | Body::Config(_) => true,
    }
}

/// Output for posted requests, which have no completions.
struct Nowhere;

impl Completions for Nowhere {
    fn room(&self) -> usize {
        0
    }

    fn send(&mut self, _: usize, _: &mut dyn FnMut(&mut [u8])) {}
}

/// Output for the completions of one request. Its origin and tag select the port.
struct ReplyPort<'a, C> {
    carrier: &'a mut C,
    origin: Origin,
    tag: Tag,
    lost: bool,
}

impl<C: Carrier> Completions for ReplyPort<'_, C> {
    fn room(&self) -> usize {
        self.carrier.room()
    }

    fn send(&mut self, len: usize, fill: &mut dyn FnMut(&mut [u8])) {
        self.lost |= self.carrier.send(self.origin, self.tag, len, fill).is_err();
    }
}

/// Answers requests from `carrier` until `go_on` returns false. Blocks until then. `go_on` is called after each
/// turn, at least every 50 ms. With `busy`, polls the sockets instead of sleeping.
///
/// If the carrier is not reliable, an absent peer is no error, because it may start later.
///
/// # Errors
/// Errors of the sockets. In a session, the peer has gone.
pub fn serve<M: CompleterMemory>(
    carrier: &mut impl Carrier,
    psmem: &mut Psmem<M>,
    busy: bool,
    mut go_on: impl FnMut(&Psmem<M>) -> bool,
) -> io::Result<()> {
    // A new session has room for the announcement.
    let _ = announce(carrier, psmem.completer.id);
    let flushed = carrier.flush();
    tolerate(carrier, flushed)?;
    let clock = Clock::new();
    while go_on(psmem) {
        let most = if psmem.waiting() == 0 { TURN } else { ROOM };
        let wait = if busy { Wait::Busy(most) } else { Wait::AtMost(most) };
        let wait = if carrier.room() >= COMPLETIONS_MAX && psmem.waiting() > 0 { Wait::Never } else { wait };
        let mut now = None;
        let received = carrier.receive(wait, |arrival| {
            psmem.handle(*now.get_or_insert_with(|| clock.now()), &arrival);
        });
        tolerate(carrier, received.map(drop))?;
        psmem.answer(carrier);
        let flushed = carrier.flush();
        tolerate(carrier, flushed)?;
    }
    Ok(())
}

/// Ignores the absence of a peer on upstream's ports, and interrupted calls.
fn tolerate(carrier: &impl Carrier, result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && !carrier.is_reliable() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        other => other,
    }
}
