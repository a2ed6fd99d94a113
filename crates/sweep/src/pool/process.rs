// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process of one worker: its orders and replies. The pool decides about its points.

use crate::record::Point;
use crate::run::RunError;
use crate::sweep::Sweep;
use crate::worker::{Order, Reply};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Number of bytes that are kept of the end of the worker's standard error.
const TOLD: usize = 4_096;

/// glibc's `malloc` keeps up to 256 MiB of freed memory for the lab of the next point. Other allocators ignore this.
const KEEP_MEMORY: [(&str, &str); 2] =
    [("MALLOC_TRIM_THRESHOLD_", "268435456"), ("MALLOC_MMAP_THRESHOLD_", "33554432")];

/// An event of a worker.
pub(super) enum Event {
    Said(Reply),
    /// The worker ended, or wrote this line, which is not a reply.
    Gone(Option<String>),
}

/// A worker process.
pub(super) struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    /// Points of the worker's orders that have no record yet, in the order in which they run.
    pub(super) orders: VecDeque<Vec<Point>>,
    pub(super) is_ready: bool,
    /// Text of its panic, until a record follows.
    pub(super) last_words: Option<String>,
    told: Arc<Mutex<Vec<u8>>>,
    listener: Option<thread::JoinHandle<()>>,
}

/// Result of a dead worker.
pub(super) struct Dead {
    pub(super) orders: VecDeque<Vec<Point>>,
    pub(super) last_words: Option<String>,
    /// How the process ended, such as `ended with status 1`.
    pub(super) how: String,
    /// The end of its standard error.
    pub(super) told: String,
}

/// Returns the first order of a worker, as a line.
pub(super) fn sweep_order(sweep: &Sweep) -> Vec<u8> {
    line(&Order::Sweep(sweep.packed()))
}

fn line(order: &Order) -> Vec<u8> {
    let mut line = serde_json::to_vec(order).unwrap_or_default();
    line.push(b'\n');
    line
}

impl Worker {
    pub(super) fn start(
        command: &[OsString],
        number: u64,
        order: &[u8],
        events: &Sender<(u64, Event)>,
    ) -> Result<Worker, RunError> {
        let (program, arguments) = command.split_first().ok_or(RunError::NoCommand)?;
        let mut child = Command::new(program)
            .args(arguments)
            .envs(KEEP_MEMORY)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C on the terminal goes only to the master.
            .process_group(0)
            .spawn()
            .map_err(|error| RunError::Start { program: program.clone(), error })?;
        let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let told = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&told);
        let listener = errors.map(|errors| thread::spawn(move || listen(errors, &keep)));
        let (events, order) = (events.clone(), order.to_vec());
        let first = input.as_ref().and_then(|input| input.as_fd().try_clone_to_owned().ok());
        thread::spawn(move || {
            // The order is written in this thread, so that a worker that does not read blocks only this thread.
            let _ = first.map(File::from).map(|mut first| first.write_all(&order));
            let _ = events.send((number, Event::Gone(read_replies(output, number, &events))));
        });
        let orders = VecDeque::new();
        Ok(Worker { child, input, orders, is_ready: false, last_words: None, told, listener })
    }

    /// Sends an order to the worker.
    pub(super) fn give(&mut self, points: Vec<Point>) {
        if let Some(input) = &mut self.input {
            // If the write fails, the worker has ended, and an event reports it.
            let _ = input.write_all(&line(&Order::Points(points.clone())));
        }
        self.orders.push_back(points);
    }

    /// Removes a point that has its record.
    pub(super) fn recorded(&mut self, number: u64) {
        if let Some(current) = self.orders.front_mut() {
            current.retain(|point| point.number != number);
            if current.is_empty() {
                self.orders.pop_front();
            }
        }
    }

    /// Ends the process if it is still running.
    pub(super) fn end(mut self, odd: Option<&str>) -> Dead {
        // A process that closed its output cannot work any more.
        let _ = self.child.kill();
        let how = self.child.wait().map_or_else(|e| e.to_string(), ended);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
        let told =
            String::from_utf8_lossy(&self.told.lock().unwrap_or_else(PoisonError::into_inner)).into_owned();
        let said = |odd| format!("wrote `{}`, which is not a reply", plug::file::brief(odd));
        let how = odd.map_or(how, said);
        let (orders, last_words) = (std::mem::take(&mut self.orders), self.last_words.take());
        Dead { orders, last_words, how, told: told.trim().to_owned() }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Forwards a worker's replies until it ends. Returns a line that is not a reply.
fn read_replies(output: Option<ChildStdout>, number: u64, events: &Sender<(u64, Event)>) -> Option<String> {
    for line in BufReader::new(output?).lines() {
        let line = line.ok()?;
        let Ok(reply) = serde_json::from_str(&line) else { return Some(line) };
        events.send((number, Event::Said(reply))).ok()?;
    }
    None
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".into(),
    }
}

fn listen(mut errors: impl Read, told: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = errors.read(&mut buffer) {
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        told.extend_from_slice(&buffer[..count]);
        let surplus = told.len().saturating_sub(TOLD);
        told.drain(..surplus);
    }
}
