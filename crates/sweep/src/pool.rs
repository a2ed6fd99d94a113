// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Workers of this machine, each a process: one that dies takes no more with it than the point that it was at. Never runs a point itself.

mod process;

use crate::pace::Pace;
use crate::record::{Outcome, Point, Record};
use crate::run::{Progress, Run, RunError};
use crate::sweep::panicked;
use crate::worker::Reply;
use process::{Event, Worker};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Orders that a worker has at a time: while it is at one, the next one waits.
const ORDERS: usize = 2;
/// How often a point is tried that its worker dies at.
const TRIES: u32 = 3;
/// Workers in a row that may die before they are ready.
const FALSE_STARTS: u32 = 10;
/// How often it is looked whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// How workers are started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Workers {
    /// The command of one, and its arguments: a program that calls [`serve`](crate::worker::serve).
    pub command: Vec<OsString>,
    /// How many.
    pub count: usize,
}

/// What a pool has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Done {
    /// CPU time of points, in all.
    pub cpu: Duration,
    /// Of this, in the simulation itself.
    pub simulation: Duration,
    /// Workers that were started.
    pub started: u64,
    /// Workers that died.
    pub died: u64,
    /// Whether it was stopped before the sweep was done.
    pub stopped: bool,
}

/// Has workers run what is left of a sweep, until it is done or `stop` says so. `watch` is told how far it is, as records come.
///
/// # Errors
/// Those of [`Run::accept`]; workers that cannot be started. What was recorded until then is in the journal.
pub fn run(
    run: &mut Run<'_>,
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
    run: &'r mut Run<'s>,
    how: &'r Workers,
    /// The first order of each worker.
    order: Vec<u8>,
    sender: Sender<(u64, Event)>,
    workers: BTreeMap<u64, Worker>,
    /// Number of the next worker.
    next: u64,
    false_starts: u32,
    pace: Pace,
    /// Points that a worker has died with: each is an order of its own.
    singly: VecDeque<Point>,
    /// How often workers have died at a point alone.
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
                // The pool has a sender itself.
                Err(RecvTimeoutError::Disconnected) => break,
            };
            // What has come meanwhile is one write of the journal.
            let mut records = Vec::new();
            for (number, event) in std::iter::once(first).chain(events.try_iter()) {
                self.hear(number, event, &mut records)?;
            }
            if !records.is_empty() {
                self.run.accept(records)?;
                watch(self.run.progress());
            }
        }
        Ok(())
    }

    /// Workers for which there is work, or soon will be.
    fn start_missing(&mut self) -> Result<(), RunError> {
        let progress = self.run.progress();
        let wanted = (progress.points - progress.recorded).min(self.how.count.max(1) as u64);
        while (self.workers.len() as u64) < wanted {
            let worker = Worker::start(&self.how.command, self.next, &self.order, &self.sender)
                .map_err(RunError::Worker)?;
            self.workers.insert(self.next, worker);
            self.next += 1;
            self.done.started += 1;
        }
        Ok(())
    }

    fn give_out(&mut self) {
        // One order each before a second one for any.
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
                // Where it cannot be written, the worker has died, which is heard of.
                worker.give(points);
            }
        }
    }

    fn hear(&mut self, number: u64, event: Event, records: &mut Vec<Record>) -> Result<(), RunError> {
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

    /// What becomes of the points of a worker that has died: a record of the one that it has died at too often.
    fn bury(&mut self, worker: Worker, odd: Option<&str>) -> Result<Option<Record>, RunError> {
        self.done.died += 1;
        let (was_ready, dead) = (worker.is_ready, worker.end(odd));
        if !was_ready {
            self.false_starts += 1;
            if self.false_starts >= FALSE_STARTS {
                let why = format!(
                    "{FALSE_STARTS} workers in a row have ended before they were ready; the last one {}",
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
