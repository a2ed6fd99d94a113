// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One worker's process: what it is told and what it says. Never decides what becomes of its points.

use crate::record::Point;
use crate::sweep::Sweep;
use crate::worker::{Order, Reply};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Bytes of its standard error that are kept, the last ones.
const TOLD: usize = 4_096;

/// What is heard of a worker.
pub(super) enum Event {
    Said(Reply),
    /// It has ended, or says what is no reply.
    Gone,
}

/// A worker.
pub(super) struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    /// Points of its orders that have no record, in the order in which it runs them.
    pub(super) orders: VecDeque<Vec<Point>>,
    pub(super) is_ready: bool,
    /// What it has said of a panic, until a record follows.
    pub(super) last_words: Option<String>,
    told: Arc<Mutex<Vec<u8>>>,
    listener: Option<thread::JoinHandle<()>>,
}

/// What is left of a worker.
pub(super) struct Dead {
    pub(super) orders: VecDeque<Vec<Point>>,
    pub(super) last_words: Option<String>,
    /// `exited with status 1`.
    pub(super) how: String,
    /// The end of its standard error.
    pub(super) told: String,
}

/// The first order of a worker, as a line.
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
    ) -> Result<Worker, String> {
        let (program, arguments) = command.split_first().ok_or("no command for workers")?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C on the terminal is for the master.
            .process_group(0)
            .spawn()
            .map_err(|e| format!("worker {}: {e}", program.display()))?;
        let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let told = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&told);
        let listener = errors.map(|errors| thread::spawn(move || listen(errors, &keep)));
        let events = events.clone();
        thread::spawn(move || {
            let lines = output.into_iter().flat_map(|output| BufReader::new(output).lines());
            for reply in lines.map_while(|line| serde_json::from_str(&line.ok()?).ok()) {
                if events.send((number, Event::Said(reply))).is_err() {
                    return;
                }
            }
            let _ = events.send((number, Event::Gone));
        });
        let orders = VecDeque::new();
        let mut worker = Worker { child, input, orders, is_ready: false, last_words: None, told, listener };
        // It reads this before it says anything, whatever its length.
        worker.write(order);
        Ok(worker)
    }

    /// Gives it an order.
    pub(super) fn give(&mut self, points: Vec<Point>) {
        self.write(&line(&Order::Points(points.clone())));
        self.orders.push_back(points);
    }

    /// Where it cannot be written, it has ended, which is heard of.
    fn write(&mut self, line: &[u8]) {
        if let Some(input) = &mut self.input {
            let _ = input.write_all(line);
        }
    }

    /// A point has its record.
    pub(super) fn recorded(&mut self, number: u64) {
        if let Some(current) = self.orders.front_mut() {
            current.retain(|point| point.number != number);
            if current.is_empty() {
                self.orders.pop_front();
            }
        }
    }

    /// Ends it, where it has not yet ended.
    pub(super) fn end(mut self) -> Dead {
        // What closes its output is no worker any more.
        let _ = self.child.kill();
        let how = self.child.wait().map_or_else(|e| e.to_string(), ended);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
        let told =
            String::from_utf8_lossy(&self.told.lock().unwrap_or_else(PoisonError::into_inner)).into_owned();
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
