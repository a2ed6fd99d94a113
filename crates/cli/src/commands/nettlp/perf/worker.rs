// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One thread of a measurement: a client that is kept busy.

use super::Pattern;
use super::addresses::{Addresses, Region};
use hdrhistogram::Histogram;
use nettlp::client::{Client, ClientError};
use nettlp::net::{AnyCarrier, SocketCounters};
use nettlp::requester::{Buffers, Counters, Done, Fault};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tlp::{Duration, Time};

/// Longest sleep of a turn: how late an interrupt may be seen.
const TURN: Duration = Duration::from_ms(20);
/// How long a peer that acknowledges may take for the last writes.
const SETTLE: Duration = Duration::from_ms(5000);
/// Longest latency that is told apart, ns; longer ones count as this.
const LONGEST_NS: u64 = 600_000_000_000;

/// What a thread does.
pub(super) struct Plan {
    pub(super) is_write: bool,
    pub(super) len: u64,
    pub(super) outstanding: u64,
    /// Requests that are made at once: none is made before so many may be.
    pub(super) batch: u64,
    pub(super) region: Region,
    pub(super) pattern: Pattern,
    pub(super) seed: u64,
    pub(super) count: u64,
}

device::counters! {
    /// Requests that failed, by what came of them.
    pub struct Faults {
        unsupported_request,
        completer_abort,
        config_retry,
        poisoned,
        timed_out,
    }
}

/// What threads have done.
pub(super) struct Tally {
    pub(super) requests: u64,
    pub(super) bytes: u64,
    pub(super) faults: Faults,
    pub(super) latency_ns: Histogram<u64>,
    pub(super) counters: Counters,
    pub(super) sockets: SocketCounters,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            requests: 0,
            bytes: 0,
            faults: Faults::default(),
            // Three digits; these bounds are legal for any digits.
            latency_ns: Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("legal bounds"),
            counters: Counters::default(),
            sockets: SocketCounters::default(),
        }
    }
}

impl Tally {
    pub(super) fn add(&mut self, other: &Tally) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.faults.add(&other.faults);
        // Both have the same bounds.
        let _ = self.latency_ns.add(&other.latency_ns);
        self.counters.add(&other.counters);
        self.sockets.add(&other.sockets);
    }

    fn count(&mut self, result: Result<u64, Fault>) {
        match result {
            Ok(bytes) => {
                self.requests += 1;
                self.bytes += bytes;
            }
            Err(Fault::UnsupportedRequest(_)) => self.faults.unsupported_request += 1,
            Err(Fault::CompleterAbort(_)) => self.faults.completer_abort += 1,
            Err(Fault::ConfigRetry(_)) => self.faults.config_retry += 1,
            Err(Fault::Poisoned(_)) => self.faults.poisoned += 1,
            Err(Fault::TimedOut { .. } | Fault::Cancelled) => self.faults.timed_out += 1,
        }
    }
}

/// A buffer for each request under way.
struct Slots {
    bytes: Vec<u8>,
    len: usize,
}

impl Buffers for Slots {
    fn place(&mut self, token: u64, offset: u64, len: usize) -> Option<&mut [u8]> {
        let start = token as usize * self.len + offset as usize;
        self.bytes.get_mut(start..start + len)
    }

    fn data(&self, token: u64, offset: u64, len: usize) -> Option<&[u8]> {
        let start = token as usize * self.len + offset as usize;
        self.bytes.get(start..start + len)
    }
}

pub(super) struct Worker {
    client: Client<AnyCarrier>,
    plan: Plan,
    left: u64,
    addresses: Addresses,
    slots: Slots,
    free: Vec<u64>,
    asked: Vec<Time>,
    tally: Tally,
}

impl Worker {
    pub(super) fn new(client: Client<AnyCarrier>, plan: Plan) -> Worker {
        let slots = Slots { bytes: vec![0; (plan.len * plan.outstanding) as usize], len: plan.len as usize };
        Worker {
            client,
            left: plan.count,
            addresses: Addresses::new(plan.region, plan.pattern, plan.len, plan.seed),
            slots,
            free: (0..plan.outstanding).collect(),
            asked: vec![Time::ZERO; plan.outstanding as usize],
            tally: Tally::default(),
            plan,
        }
    }

    /// Keeps the client busy until `span` is over or `stop` is set, and waits for what is under way then. Gives what was
    /// measured, and why it ended early where it did.
    pub(super) fn run(
        mut self,
        stop: &AtomicBool,
        span: std::time::Duration,
    ) -> (Tally, Option<ClientError>) {
        let ended = self.work(stop, span);
        self.gather();
        self.tally.counters = *self.client.counters();
        self.tally.sockets = self.client.carrier().counters();
        (self.tally, ended.err())
    }

    fn work(&mut self, stop: &AtomicBool, span: std::time::Duration) -> Result<(), ClientError> {
        let begun = Instant::now();
        let all = self.free.len();
        loop {
            let is_over = begun.elapsed() >= span || stop.load(Ordering::Relaxed) || self.left == 0;
            if is_over && self.free.len() == all {
                break;
            }
            if !is_over && self.free.len() as u64 >= self.plan.batch {
                self.ask()?;
            }
            self.client.turn(&mut self.slots, &mut (), TURN)?;
            self.gather();
        }
        self.client.settle(SETTLE)
    }

    fn ask(&mut self) -> Result<(), ClientError> {
        let now = self.client.now();
        while self.left > 0
            && let Some(slot) = self.free.pop()
        {
            let address = self.addresses.next();
            let requester = self.client.requester();
            match self.plan.is_write {
                true => requester.write(address, self.plan.len, slot)?,
                false => requester.read(address, self.plan.len, slot)?,
            };
            self.asked[slot as usize] = now;
            self.left -= 1;
        }
        Ok(())
    }

    fn gather(&mut self) {
        if !self.client.requester().has_done() {
            return;
        }
        let now = self.client.now();
        while let Some(Done { token, result, .. }) = self.client.requester().poll_done() {
            self.free.push(token);
            // A write ends when it has been handed over: nothing that a latency could be told of.
            if result.is_ok() && !self.plan.is_write {
                let latency = now.since(self.asked[token as usize]).as_ps() / 1000;
                self.tally.latency_ns.saturating_record(latency);
            }
            self.tally.count(result);
        }
    }
}
