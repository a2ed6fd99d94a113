// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Threads that serve memory as an adapter. Each thread has its own sockets and counters. The threads share only
//! the memory and the function.

use crate::adapter::{Adapter, AdapterSettings, Function, MemoryBackend, Strangers};
use crate::completer::Image;
use crate::dropped::Drops;
use crate::net::{AdapterOptions, AdapterSockets, Clock, OpenError, serve, stay_on_core};
use capture::encap::PORT_DEVICE;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tlp::rules::Refusals;
use tlp::{Mps, Rcb};

/// Tags whose ports have a thread for each peer; upstream's programs use them first. A client that waits for one answer per tag is
/// then served with two system calls per read, and with few switches between cores.
const OWN_TAGS: std::ops::Range<u16> = 0..16;
/// Maximum number of peers that have such threads.
const OWN_PEERS: usize = 4;

/// How long a thread may take to publish its counters. A thread that serves publishes them within 50 ms.
const PATIENCE: Duration = Duration::from_secs(1);

/// Interval at which a waiting server looks for an end.
const LOOK: Duration = Duration::from_millis(20);

/// Memory, and the adapter in front of it.
#[derive(Clone)]
pub struct ServedMemory {
    /// The adapter's ports.
    pub options: AdapterOptions,
    /// The adapter.
    pub settings: AdapterSettings,
    /// The memory.
    pub image: Arc<Image>,
    /// The adapter's function.
    pub function: Arc<Function>,
    /// Maximum size of a completion.
    pub mps: Mps,
    /// Read Completion Boundary.
    pub rcb: Rcb,
    /// Poll the sockets instead of sleeping.
    pub busy: bool,
}

/// Counters by name.
pub type Counts = BTreeMap<&'static str, u64>;

/// Counters of all threads.
#[derive(Clone, Default, Serialize)]
pub struct ServedCounters {
    /// Counters of each peer, in the order of their addresses.
    #[serde(skip)]
    pub peers: Vec<Counts>,
    /// Datagrams of peers that are not allowed.
    pub strangers: Strangers,
    /// Counters of the completer.
    pub completer: Counts,
    /// Counters of the function.
    pub function: Counts,
    /// Counters of the sockets.
    pub sockets: Counts,
    /// Counters of sessions.
    pub sessions: Counts,
    /// Reasons why TLPs were refused.
    #[serde(skip)]
    pub refusals: Refusals,
    /// Dropped datagrams and completions, with reasons.
    #[serde(skip)]
    pub drops: Drops,
}

/// State that the threads share with the server.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// Number of times that a thread refused a TLP for a new reason.
    kinds: AtomicUsize,
    /// Number of times that counters were requested. A thread that has seen fewer requests publishes its counters.
    requested: AtomicU64,
    /// For each thread, the number of requests that it has seen, and its counters at that time.
    counters: Mutex<Vec<(u64, ServedCounters)>>,
}

impl Shared {
    fn counters(&self) -> MutexGuard<'_, Vec<(u64, ServedCounters)>> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Threads that serve memory.
pub struct MemoryServer {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl MemoryServer {
    /// Opens all sockets, then starts all threads: `threads` that share the ports and, if these are several that do not poll, further
    /// ones that each serve one of the tags 0 to 15 for one peer, if at most four peers are allowed.
    ///
    /// # Errors
    /// A socket cannot be opened.
    pub fn start(memory: &ServedMemory, threads: u16) -> Result<MemoryServer, OpenError> {
        let share = |thread| AdapterOptions { share: (thread, threads), ..memory.options.clone() };
        let sockets: Result<Vec<AdapterSockets>, OpenError> =
            (0..threads).map(|thread| AdapterSockets::bind(&share(thread))).collect();
        let mut sockets = sockets?;
        if threads > 1 && !memory.busy {
            sockets.extend(memory.connect(&sockets));
        }
        let shared = Arc::new(Shared::default());
        *shared.counters() = vec![(0, ServedCounters::default()); sockets.len()];
        let clock = Clock::new();
        let spawn = |(index, sockets)| {
            let (memory, shared) = (memory.clone(), Arc::clone(&shared));
            std::thread::spawn(move || {
                if index < usize::from(threads) {
                    stay_on_core(index as u16, threads);
                }
                memory.serve(index, sockets, clock, &shared)
            })
        };
        let threads = sockets.into_iter().enumerate().map(spawn).collect();
        Ok(MemoryServer { shared, threads })
    }

    /// Serves until `end` is set or a thread has failed. Calls `each` every 20 ms.
    pub fn wait(&self, end: &AtomicBool, mut each: impl FnMut(&MemoryServer)) {
        while !end.load(Ordering::Relaxed) && self.threads.iter().all(|thread| !thread.is_finished()) {
            std::thread::sleep(LOOK);
            each(self);
        }
    }

    /// Returns how often a thread has refused a TLP for a new reason.
    pub fn refusal_kinds(&self) -> usize {
        self.shared.kinds.load(Ordering::Relaxed)
    }

    /// Returns the current counters. Blocks for up to 50 ms, or for a second if a thread hangs.
    pub fn counters(&self) -> ServedCounters {
        let requested = self.shared.requested.fetch_add(1, Ordering::Relaxed) + 1;
        let start = Instant::now();
        loop {
            let counters = self.shared.counters();
            if counters.iter().all(|(seen, _)| *seen >= requested) || start.elapsed() > PATIENCE {
                return sum(&counters);
            }
            drop(counters);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops all threads, and returns their counters.
    ///
    /// # Errors
    /// The sockets of a thread have failed, or the thread has panicked.
    pub fn stop(self) -> io::Result<ServedCounters> {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().map_err(|_| io::Error::other("a thread has failed"))??;
        }
        Ok(sum(&self.shared.counters()))
    }
}

fn sum(counters: &[(u64, ServedCounters)]) -> ServedCounters {
    let add = |sum: &mut Counts, one: &Counts| {
        one.iter().for_each(|(name, count)| *sum.entry(name).or_default() += count);
    };
    let mut sum = ServedCounters::default();
    for (_, one) in counters {
        sum.peers.resize(one.peers.len().max(sum.peers.len()), Counts::default());
        sum.peers.iter_mut().zip(&one.peers).for_each(|(sum, one)| add(sum, one));
        sum.strangers.add(&one.strangers);
        add(&mut sum.completer, &one.completer);
        add(&mut sum.function, &one.function);
        add(&mut sum.sockets, &one.sockets);
        add(&mut sum.sessions, &one.sessions);
        sum.refusals.extend(one.refusals.kinds());
        sum.drops.extend_from(&one.drops, None);
    }
    sum
}

impl ServedMemory {
    /// Opens the sockets of threads that serve one port for one peer.
    fn connect(&self, sockets: &[AdapterSockets]) -> Vec<AdapterSockets> {
        let peers: Vec<IpAddr> = self.settings.allow.addresses().take(OWN_PEERS + 1).collect();
        let peers = if peers.len() > OWN_PEERS { Vec::new() } else { peers };
        let places = peers.iter().flat_map(|peer| OWN_TAGS.map(|tag| (PORT_DEVICE + tag, *peer)));
        places.filter_map(|(port, peer)| sockets.iter().find_map(|all| all.connect(port, peer))).collect()
    }

    /// Runs thread `index`: serves until the server stops.
    fn serve(
        self,
        index: usize,
        mut sockets: AdapterSockets,
        clock: Clock,
        shared: &Shared,
    ) -> io::Result<()> {
        let mut backend = MemoryBackend::new(self.image, self.function, self.mps);
        backend.completer_mut().rcb = self.rcb;
        let mut adapter = Adapter::new(self.settings, backend);
        let (mut seen, mut kinds) = (0, 0);
        let served = serve(&mut sockets, &mut adapter, clock, self.busy, |adapter, sockets, _| {
            let requested = shared.requested.load(Ordering::Relaxed);
            if requested > seen {
                seen = requested;
                shared.counters()[index] = (seen, snapshot(adapter, sockets));
            }
            let new = adapter.refusal_kinds() - kinds;
            if new > 0 {
                kinds += new;
                shared.kinds.fetch_add(new, Ordering::Relaxed);
            }
            !shared.stop.load(Ordering::Relaxed)
        });
        // Only now, the number of datagrams that the kernel has dropped is complete.
        shared.counters()[index] = (seen, snapshot(&adapter, &sockets));
        served
    }
}

fn snapshot(adapter: &Adapter<MemoryBackend>, sockets: &AdapterSockets) -> ServedCounters {
    let mut refusals = Refusals::default();
    refusals.extend(&adapter.refusals());
    let mut drops = adapter.drops();
    drops.extend_from(&sockets.session_drops(), None);
    ServedCounters {
        refusals,
        drops,
        peers: adapter.peers().map(|(_, counters)| counters.rows().collect()).collect(),
        strangers: adapter.strangers(),
        completer: adapter.backend().completer_counters().rows().collect(),
        function: adapter.backend().counters().rows().collect(),
        sockets: sockets.counters().rows().collect(),
        sessions: sockets.session_counters().rows().collect(),
    }
}
