// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures how fast the memory of an adapter is read and written.
//!
//! - [`addresses`]: the address of each request; [`worker`]: one thread.

mod addresses;
mod worker;

pub use addresses::Pattern;
pub use worker::{Faults, Tally};

use super::client_options::ClientOptions;
use super::target::Scheme;
use crate::client::{Client, ClientError};
use crate::net::{self, AnyCarrier, Ceiling, OpenError};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;
use tlp::Bdf;
use worker::Worker;

/// Bytes of the NetTLP header and of the TLP header of a completion. The headers of a write have the same length, or 4
/// bytes more.
const HEADER_BYTES: usize = 6 + 12;
/// Maximum bytes of a request.
const MAX_LEN: u64 = 1 << 20;
/// Maximum bytes of all buffers.
const MAX_BUFFER_BYTES: u64 = 1 << 30;
/// Time for which [`ceiling`] measures each way of sending.
const CEILING_SPAN: tlp::Duration = tlp::Duration::from_ms(500);

/// Requests of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// True for writes, false for reads.
    pub is_write: bool,
    /// First address of the region.
    pub address: u64,
    /// Size of the region in bytes.
    pub region_bytes: u64,
    /// True if each thread uses its own part of the region.
    pub is_split: bool,
    /// Order of addresses.
    pub pattern: Pattern,
    /// Seed of random addresses.
    pub seed: u64,
    /// Bytes of each request.
    pub len: u64,
    /// Number of threads.
    pub threads: u64,
    /// Maximum number of outstanding requests of each thread.
    pub outstanding: u64,
    /// Number of requests that start together.
    pub batch: u64,
    /// Maximum number of requests of each thread.
    pub count: u64,
}

impl Workload {
    /// Returns the size of each thread's memory in bytes.
    pub fn share(&self) -> u64 {
        if self.is_split { self.region_bytes / self.threads } else { self.region_bytes }
    }

    /// Checks the sizes.
    ///
    /// # Errors
    /// The first invalid size.
    pub fn check(&self) -> Result<(), WorkloadError> {
        let (len, share, most) = (self.len, self.share(), self.outstanding);
        let buffers = len.saturating_mul(most).saturating_mul(self.threads);
        match self.batch {
            _ if len == 0 || len > MAX_LEN => Err(WorkloadError::Len(len)),
            _ if share < len => Err(WorkloadError::Region(share, len)),
            batch if batch > most => Err(WorkloadError::Batch(batch, most)),
            _ if buffers > MAX_BUFFER_BYTES => Err(WorkloadError::Buffers(buffers)),
            _ => Ok(()),
        }
    }

    /// Returns the tags of a thread: as many as its requests need, or its whole share if tags rest.
    fn tags(&self, options: &ClientOptions, thread: u64) -> Result<RangeInclusive<u16>, PerfError> {
        let all = options.all_tags();
        let share = all.len() as u64 / self.threads;
        if share == 0 {
            return Err(PerfError::Tags(self.threads, all.len()));
        }
        let tlps = self.len.div_ceil(u64::from(options.mrrs.bytes())) + 1;
        let needed = self.outstanding.saturating_mul(tlps);
        let count = if options.rests_after_all() { share } else { share.min(needed) };
        let first = u64::from(*all.start()) + thread * share;
        Ok(first as u16..=(first + count - 1) as u16)
    }
}

/// An invalid size of a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum WorkloadError {
    /// Bytes of each request.
    #[error("--len {0}: expected 1 to {MAX_LEN} bytes")]
    Len(u64),
    /// Bytes of each thread's region, and of each request.
    #[error("region of {0} bytes per thread: expected at least --len, {1}")]
    Region(u64, u64),
    /// Requests that start together, and outstanding requests.
    #[error("--batch {0}: expected 1 to {1}, the value of --outstanding")]
    Batch(u64, u64),
    /// Bytes of all buffers.
    #[error(
        "--len, --outstanding and --threads need {0} bytes of buffers: expected at most {MAX_BUFFER_BYTES}"
    )]
    Buffers(u64),
}

/// Reason why a measurement cannot start.
#[derive(Debug, Error)]
pub enum PerfError {
    /// More threads than tags.
    #[error("{0} threads share {1} tags; each thread needs at least one")]
    Tags(u64, usize),
    /// A carrier cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// A measurement whose clients are connected.
pub struct Measurement {
    workers: Vec<Worker>,
    /// How TLPs travel: `session`, `tagged` or `paper`.
    pub scheme: &'static str,
}

/// A finished measurement.
pub struct Measured {
    /// Counters of all threads.
    pub tally: Tally,
    /// How long it took.
    pub elapsed: Duration,
    /// The error that ended it early, if there was one.
    pub error: Option<ClientError>,
}

impl Measurement {
    /// Connects a client for each thread.
    ///
    /// # Errors
    /// There are fewer tags than threads, or a carrier cannot be opened.
    pub fn connect(
        options: &ClientOptions,
        requester: Bdf,
        workload: &Workload,
    ) -> Result<Measurement, PerfError> {
        let connect = |thread| Ok(options.client(requester, workload.tags(options, thread)?)?);
        let clients: Result<Vec<Client<AnyCarrier>>, PerfError> =
            (0..workload.threads).map(connect).collect();
        let clients = clients?;
        let scheme = match options.target.scheme {
            _ if clients.iter().all(Client::is_reliable) => "session",
            Scheme::Paper => "paper",
            _ => "tagged",
        };
        let workers = clients.into_iter().zip(0..).map(|(client, n)| Worker::new(client, *workload, n));
        Ok(Measurement { workers: workers.collect(), scheme })
    }

    /// Measures until `span` is over or `stop` is set. Calls `progress` every 20 ms with the time since the start.
    pub fn run(self, stop: &AtomicBool, span: Duration, progress: impl Fn(Duration)) -> Measured {
        let (begun, count) = (Instant::now(), self.workers.len() as u16);
        thread::scope(|scope| {
            let workers = (0..).zip(self.workers);
            let caller = thread::current();
            let work = |(index, w): (u16, Worker), caller: thread::Thread| {
                net::stay_on_core(index, count);
                let done = (w.run(stop, span), begun.elapsed());
                caller.unpark();
                done
            };
            let threads =
                workers.map(|w| (w, caller.clone())).map(|(w, caller)| scope.spawn(move || work(w, caller)));
            let threads: Vec<_> = threads.collect();
            while !threads.iter().all(thread::ScopedJoinHandle::is_finished) && !stop.load(Ordering::Relaxed)
            {
                thread::park_timeout(Duration::from_millis(20));
                progress(begun.elapsed());
            }
            let (mut tally, mut elapsed, mut error) = (Tally::default(), Duration::ZERO, None);
            for thread in threads {
                let ((one, why), took) =
                    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                tally.add(&one);
                if why.is_some() {
                    stop.store(true, Ordering::Relaxed);
                }
                elapsed = elapsed.max(took);
                error = error.or(why);
            }
            Measured { tally, elapsed, error }
        })
    }
}

/// Measures the datagram rate of this machine's loopback, with datagrams as large as those with the data of `tally`.
///
/// # Errors
/// A socket fails.
pub fn ceiling(options: &ClientOptions, workload: &Workload, tally: &Tally) -> Result<Ceiling, OpenError> {
    let carriers = if workload.is_write { tally.counters.write_tlps } else { tally.counters.completions };
    let bytes = tally.bytes.checked_div(carriers).unwrap_or(workload.len) as usize + HEADER_BYTES;
    let address = options.target.local.filter(IpAddr::is_loopback).unwrap_or(Ipv4Addr::LOCALHOST.into());
    net::ceiling(address, bytes, CEILING_SPAN)
}
