// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The threads of an adapter, each with sockets and counters of its own. Never share more than the memory and the function.

use nettlp::adapter::{Adapter, Function, MemoryBackend, MemoryCounters, PeerCounters, Settings, Strangers};
use nettlp::completer::{CompleterCounters, Image};
use nettlp::net::{AdapterOptions, AdapterSockets, Clock, OpenError, SocketCounters, serve};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tlp::{Mps, Rcb};

/// How long a thread may take to say what it has counted; one that serves does so within 50 ms.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a thread is started with.
#[derive(Clone)]
pub(super) struct Worker {
    pub(super) options: AdapterOptions,
    pub(super) settings: Settings,
    pub(super) image: Arc<Image>,
    pub(super) function: Arc<Function>,
    pub(super) mps: Mps,
    pub(super) rcb: Rcb,
    pub(super) busy: bool,
}

/// What threads have counted.
#[derive(Clone, Default)]
pub(super) struct Counted {
    /// In the order of the peers' addresses.
    pub(super) peers: Vec<PeerCounters>,
    pub(super) strangers: Strangers,
    pub(super) completer: CompleterCounters,
    pub(super) function: MemoryCounters,
    pub(super) sockets: SocketCounters,
    pub(super) sessions: BTreeMap<&'static str, u64>,
}

/// How threads are told to end, and asked for their counts.
#[derive(Default)]
struct Board {
    stop: AtomicBool,
    /// Counts up; a thread that has seen less puts up its counts.
    asked: AtomicU64,
    counts: Mutex<Vec<(u64, Counted)>>,
}

impl Board {
    /// Puts up what thread `index` has counted.
    fn put(&self, index: usize, seen: u64, counted: Counted) {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)[index] = (seen, counted);
    }
}

pub(super) struct Workers {
    board: Arc<Board>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Workers {
    /// Opens all sockets, then starts all threads.
    pub(super) fn start(plan: &Worker, threads: u16) -> Result<Workers, OpenError> {
        let board = Arc::new(Board::default());
        let counts = vec![(0, Counted::default()); usize::from(threads)];
        *board.counts.lock().unwrap_or_else(PoisonError::into_inner) = counts;
        let share = |thread| AdapterOptions { share: (thread, threads), ..plan.options.clone() };
        let sockets: Result<Vec<AdapterSockets>, OpenError> =
            (0..threads).map(|thread| AdapterSockets::bind(&share(thread))).collect();
        let clock = Clock::new();
        let spawn = |(index, sockets)| {
            let (plan, board) = (plan.clone(), Arc::clone(&board));
            std::thread::spawn(move || plan.run(index, sockets, clock, &board))
        };
        let threads = sockets?.into_iter().enumerate().map(spawn).collect();
        Ok(Workers { board, threads })
    }

    /// Whether all still serve.
    pub(super) fn are_running(&self) -> bool {
        self.threads.iter().all(|thread| !thread.is_finished())
    }

    /// What all have counted by now. Blocks for up to 50 ms, where a thread hangs for a second.
    pub(super) fn counted(&self) -> Counted {
        let asked = self.board.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let start = Instant::now();
        loop {
            let counts = self.board.counts.lock().unwrap_or_else(PoisonError::into_inner);
            if counts.iter().all(|(seen, _)| *seen >= asked) || start.elapsed() > PATIENCE {
                return sum(&counts);
            }
            drop(counts);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends all, and says what they have counted.
    pub(super) fn stop(self) -> io::Result<Counted> {
        self.board.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().map_err(|_| io::Error::other("a thread has failed"))??;
        }
        Ok(sum(&self.board.counts.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn sum(counts: &[(u64, Counted)]) -> Counted {
    let mut sum = Counted::default();
    for (_, one) in counts {
        sum.peers.resize(one.peers.len().max(sum.peers.len()), PeerCounters::default());
        sum.peers.iter_mut().zip(&one.peers).for_each(|(sum, one)| sum.add(one));
        sum.strangers.add(&one.strangers);
        sum.completer.add(&one.completer);
        sum.function.add(&one.function);
        sum.sockets.add(&one.sockets);
        one.sessions.iter().for_each(|(name, count)| *sum.sessions.entry(name).or_default() += count);
    }
    sum
}

impl Worker {
    fn run(self, index: usize, mut sockets: AdapterSockets, clock: Clock, board: &Board) -> io::Result<()> {
        let mut backend = MemoryBackend::new(self.image, self.function, self.mps);
        backend.completer_mut().rcb = self.rcb;
        let mut adapter = Adapter::new(self.settings, backend);
        let mut seen = 0;
        let served = serve(&mut sockets, &mut adapter, clock, self.busy, |adapter, sockets, _| {
            let asked = board.asked.load(Ordering::Relaxed);
            if asked > seen {
                seen = asked;
                board.put(index, asked, snapshot(adapter, sockets));
            }
            !board.stop.load(Ordering::Relaxed)
        });
        // What the kernel has dropped is known in full only now.
        board.put(index, seen, snapshot(&adapter, &sockets));
        served
    }
}

fn snapshot(adapter: &Adapter<MemoryBackend>, sockets: &AdapterSockets) -> Counted {
    Counted {
        peers: adapter.peers().map(|(_, counters)| *counters).collect(),
        strangers: adapter.strangers(),
        completer: adapter.backend().completer_counters(),
        function: adapter.backend().counters(),
        sockets: sockets.counters(),
        sessions: sockets.session_counters().rows().collect(),
    }
}
