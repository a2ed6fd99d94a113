// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Workers of this machine. Each is a process: if a worker dies, at most the point that it was running is affected.

mod process;

use crate::pace::Pace;
use crate::record::{Outcome, Point, Record};
use crate::run::{Progress, RunError, RunningSweep};
use crate::sweep::panicked;
use crate::worker::Reply;
use process::{Event, Worker};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Number of orders of a worker at a time: one is running, the next one waits.
const ORDERS: usize = 2;
/// Number of times that a point is run alone if its worker dies.
const TRIES: u32 = 3;
/// Number of consecutive workers that may die before they are ready.
const FALSE_STARTS: u32 = 10;
/// Interval between checks whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// How to start workers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Workers {
    /// Command of a worker, and its arguments: a program that calls [`serve`](crate::worker::serve).
    pub command: Vec<OsString>,
    /// Number of workers.
    pub count: usize,
}

/// Work of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Done {
    /// Total CPU time of points.
    pub cpu: Duration,
    /// The part of this time in the simulation itself.
    pub simulation: Duration,
    /// Workers started.
    pub started: u64,
    /// Workers that died.
    pub died: u64,
    /// True if the pool was stopped before the sweep was done.
    pub stopped: bool,
}

/// Lets workers run the remaining points of a sweep, until it is done or `stop` returns true. `watch` receives the progress as records
/// arrive.
///
/// # Errors
/// Errors of [`RunningSweep::accept`], or workers that cannot be started. Records until then are in the journal.
pub fn run(
    run: &mut RunningSweep<'_>,
    workers: &Workers,
    stop: impl Fn() -> bool,
    watch: impl FnMut(&Progress),
) -> Result<Done, RunError> {
    let order = process::sweep_order(run.sweep());
    let (sender, events) = channel();
    let mut pool = Pool {
        run,
        how: workers,
        order,
        sender,
        workers: BTreeMap::new(),
        next: 0,
        false_starts: 0,
        pace: Pace::default(),
        singly: VecDeque::new(),
        tries: BTreeMap::new(),
        done: Done::default(),
    };
    pool.drive(&events, stop, watch)?;
    pool.run.sync()?;
    Ok(pool.done)
}

struct Pool<'r, 's> {
    run: &'r mut RunningSweep<'s>,
    how: &'r Workers,
    /// First order of each worker.
    order: Vec<u8>,
    sender: Sender<(u64, Event)>,
    workers: BTreeMap<u64, Worker>,
    /// Number of the next worker.
    next: u64,
    false_starts: u32,
    pace: Pace,
    /// Points with which a worker died. Each is a separate order.
    singly: VecDeque<Point>,
    /// For each point, the number of times that a worker died while it ran this point alone.
    tries: BTreeMap<u64, u32>,
    done: Done,
}

impl Pool<'_, '_> {
    fn drive(
        &mut self,
        events: &Receiver<(u64, Event)>,
        stop: impl Fn() -> bool,
        mut watch: impl FnMut(&Progress),
    ) -> Result<(), RunError> {
        while !self.run.is_done() {
            if stop() {
                self.done.stopped = true;
                break;
            }
            self.start_missing()?;
            self.give_out();
            let first = match events.recv_timeout(LOOK) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => continue,
                // The pool itself has a sender.
                Err(RecvTimeoutError::Disconnected) => break,
            };
            // Records that have arrived by now are one write of the journal.
            let mut records = Vec::new();
            for (number, event) in std::iter::once(first).chain(events.try_iter()) {
                self.handle(number, event, &mut records)?;
            }
            if !records.is_empty() {
                self.run.accept(records)?;
                watch(self.run.progress());
            }
        }
        Ok(())
    }

    /// Starts workers for which there is work, or will soon be work.
    fn start_missing(&mut self) -> Result<(), RunError> {
        let progress = self.run.progress();
        let wanted = (progress.points - progress.recorded).min(self.how.count.max(1) as u64);
        while (self.workers.len() as u64) < wanted {
            let worker = Worker::start(&self.how.command, self.next, &self.order, &self.sender)?;
            self.workers.insert(self.next, worker);
            self.next += 1;
            self.done.started += 1;
        }
        Ok(())
    }

    fn give_out(&mut self) {
        // Every worker gets one order before any gets a second one.
        for orders in 0..ORDERS {
            for worker in self.workers.values_mut().filter(|w| w.is_ready && w.orders.len() == orders) {
                let points = match self.singly.pop_front() {
                    Some(point) => vec![point],
                    None => {
                        let progress = self.run.progress();
                        let left = progress.points - progress.recorded - progress.handed_out;
                        self.run.next_chunk(self.pace.chunk(left, self.how.count))
                    }
                };
                if points.is_empty() {
                    return;
                }
                // If the write fails, the worker has died, and its end is reported by an event.
                worker.give(points);
            }
        }
    }

    fn handle(&mut self, number: u64, event: Event, records: &mut Vec<Record>) -> Result<(), RunError> {
        let Some(worker) = self.workers.get_mut(&number) else { return Ok(()) };
        match event {
            Event::Said(Reply::Ready { .. }) => {
                worker.is_ready = true;
                self.false_starts = 0;
            }
            Event::Said(Reply::Refused { refused }) => return Err(RunError::Worker(refused)),
            Event::Said(Reply::Ran { record, cpu_ns, simulation_ns }) => {
                worker.recorded(record.point);
                worker.last_words = None;
                self.done.cpu += Duration::from_nanos(cpu_ns);
                self.done.simulation += Duration::from_nanos(simulation_ns);
                self.pace.learn(Duration::from_nanos(cpu_ns));
                records.push(record);
            }
            Event::Said(Reply::Panic { panic }) => worker.last_words = Some(panicked(&panic)),
            Event::Gone(odd) => {
                if let Some(worker) = self.workers.remove(&number) {
                    records.extend(self.bury(worker, odd.as_deref())?);
                }
            }
        }
        Ok(())
    }

    /// Handles the points of a dead worker. Returns a record for a point at which workers died too often.
    fn bury(&mut self, worker: Worker, odd: Option<&str>) -> Result<Option<Record>, RunError> {
        self.done.died += 1;
        let (was_ready, dead) = (worker.is_ready, worker.end(odd));
        if !was_ready {
            self.false_starts += 1;
            if self.false_starts >= FALSE_STARTS {
                let why = format!(
                    "{FALSE_STARTS} consecutive workers ended before they were ready; the last one {}",
                    dead.how
                );
                return Err(RunError::Worker(if dead.told.is_empty() {
                    why
                } else {
                    format!("{why}:\n{}", dead.told)
                }));
            }
        }
        let mut orders = dead.orders.into_iter();
        let Some(current) = orders.next() else { return Ok(None) };
        orders.for_each(|later| self.run.give_back(&later));
        let &[point] = &current[..] else {
            self.singly.extend(current);
            return Ok(None);
        };
        let tries = self.tries.entry(point.number).or_default();
        *tries += 1;
        if *tries < TRIES {
            self.singly.push_back(point);
            return Ok(None);
        }
        let why = dead.last_words.unwrap_or_else(|| format!("the process {}", dead.how));
        Ok(Some(Record::without_run(point.number, Outcome::Crashed, format!("{why}, {TRIES} times"))))
    }
}
