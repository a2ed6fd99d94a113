// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One thread of a measurement: a client with as many outstanding requests as the workload says.

use super::Workload;
use super::addresses::Addresses;
use crate::client::{Client, ClientError};
use crate::dropped::Drops;
use crate::net::{AnyCarrier, SocketCounters};
use crate::requester::{Buffers, Counters, Done, Fault};
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tlp::rules::Refusals;
use tlp::{Duration, Time};

/// Maximum time of a turn, so that the caller's flag is seen.
const TURN: Duration = Duration::from_ms(20);
/// How long a peer that acknowledges TLPs may take for the last writes.
const SETTLE: Duration = Duration::from_ms(5000);
/// Maximum latency in ns. Longer latencies count as this latency.
const LONGEST_NS: u64 = 600_000_000_000;

device::counters! {
    /// Failed requests, by reason.
    pub struct Faults {
        /// Unsupported Request.
        unsupported_request,
        /// Completer Abort.
        completer_abort,
        /// Configuration Request Retry Status.
        config_retry,
        /// A poisoned completion.
        poisoned,
        /// No answer.
        timed_out,
    }
}

/// Counters of all threads.
pub struct Tally {
    /// Requests that succeeded.
    pub requests: u64,
    /// Bytes read or written.
    pub bytes: u64,
    /// Requests that failed.
    pub faults: Faults,
    /// Latency of reads in ns.
    pub latency_ns: Histogram<u64>,
    /// Counters of the requesters.
    pub counters: Counters,
    /// Counters of the sockets.
    pub sockets: SocketCounters,
    /// Reasons why completions were refused, and why reads were not completed.
    pub refusals: Refusals,
    /// Completions that arrived at the port of another tag.
    pub drops: Drops,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            requests: 0,
            bytes: 0,
            faults: Faults::default(),
            // Three significant digits, for which these bounds are legal.
            latency_ns: Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("legal bounds"),
            counters: Counters::default(),
            sockets: SocketCounters::default(),
            refusals: Refusals::default(),
            drops: Drops::default(),
        }
    }
}

impl Tally {
    pub(super) fn add(&mut self, other: &Tally) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.faults.add(&other.faults);
        // This cannot fail, because both histograms have the same bounds.
        let _ = self.latency_ns.add(&other.latency_ns);
        self.counters.add(&other.counters);
        self.sockets.add(&other.sockets);
        self.refusals.extend(other.refusals.kinds());
        self.drops.extend_from(&other.drops, None);
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

/// A buffer for each outstanding request.
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
    workload: Workload,
    left: u64,
    addresses: Addresses,
    slots: Slots,
    free: Vec<u64>,
    sent: Vec<Time>,
    tally: Tally,
}

impl Worker {
    /// Creates thread number `thread` of a workload.
    pub(super) fn new(client: Client<AnyCarrier>, workload: Workload, thread: u64) -> Worker {
        let Workload { len, outstanding, count, pattern, .. } = workload;
        let bytes = workload.share();
        let start = workload.address + if workload.is_split { thread * bytes } else { 0 };
        Worker {
            client,
            left: count,
            addresses: Addresses::new(start, bytes / len, pattern, len, workload.seed.wrapping_add(thread)),
            slots: Slots { bytes: vec![0; (len * outstanding) as usize], len: len as usize },
            free: (0..outstanding).collect(),
            sent: vec![Time::ZERO; outstanding as usize],
            tally: Tally::default(),
            workload,
        }
    }

    /// Keeps the client busy until `span` is over or `stop` is set, then waits for outstanding requests. Returns the counters, and the
    /// error that ended it early, if there was one.
    pub(super) fn run(
        mut self,
        stop: &AtomicBool,
        span: std::time::Duration,
    ) -> (Tally, Option<ClientError>) {
        let ended = self.work(stop, span);
        self.gather();
        self.tally.counters = *self.client.counters();
        self.tally.sockets = self.client.carrier().counters();
        self.tally.refusals.extend(self.client.refusals());
        self.tally.drops = self.client.carrier().drops();
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
            if !is_over && self.free.len() as u64 >= self.workload.batch {
                self.send()?;
            }
            self.client.turn(&mut self.slots, &mut (), TURN)?;
            self.gather();
        }
        self.client.settle(SETTLE)
    }

    fn send(&mut self) -> Result<(), ClientError> {
        let now = self.client.now();
        while self.left > 0
            && let Some(slot) = self.free.pop()
        {
            let address = self.addresses.next();
            let requester = self.client.requester();
            match self.workload.is_write {
                true => requester.write(address, self.workload.len, slot)?,
                false => requester.read(address, self.workload.len, slot)?,
            };
            self.sent[slot as usize] = now;
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
            // A write ends when the carrier has accepted it, so it has no latency.
            if result.is_ok() && !self.workload.is_write {
                let latency = now.since(self.sent[token as usize]).as_ps() / 1000;
                self.tally.latency_ns.saturating_record(latency);
            }
            self.tally.count(result);
        }
    }
}
