// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A worker: a process that runs points for another process, with lines of JSON on its standard input and output.
//!
//! | from | line | meaning |
//! |---|---|---|
//! | master | `{"sweep": {...}}` | the first line: the sweep in the form of [`Sweep::pack`] |
//! | worker | `{"ready": true}` | it can run points |
//! | worker | `{"refused": "why"}` | it cannot; it ends |
//! | master | `{"points": [[number, config, round], ...]}` | run these in order; one more such line may wait |
//! | worker | `{"record": {...}, "cpu_ns": n, "simulation_ns": n}` | a point was run, with its CPU time |
//! | worker | `{"panic": "why"}` | it panicked, and will end |
//!
//! The worker ends when its input ends.

use crate::packed::Packed;
use crate::record::{Point, Record};
use crate::sweep::{Sweep, words};
use plug::Models;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant};

/// Maximum time for which a record waits to be written together with others.
const PATIENCE: Duration = Duration::from_millis(5);

/// An order of the master.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    Sweep(Packed),
    Points(Vec<Point>),
}

/// A reply of the worker.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Reply {
    // serde takes the first variant that fits, so the most frequent variant is the first.
    Ran { record: Record, cpu_ns: u64, simulation_ns: u64 },
    Ready { ready: bool },
    Refused { refused: String },
    Panic { panic: String },
}

/// Runs the points that arrive on `input` until it ends, and writes their records to `output`.
///
/// # Errors
/// Errors of either stream, or a line that is not an order.
pub fn serve(models: &Models, input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut orders = input.lines().map(|line| {
        let bad =
            |e: serde_json::Error| io::Error::new(io::ErrorKind::InvalidData, format!("not an order: {e}"));
        serde_json::from_str::<Order>(&line?).map_err(bad)
    });
    let Some(first) = orders.next() else { return Ok(()) };
    let Order::Sweep(packed) = first? else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the first order is not a sweep"));
    };
    let sweep = match Sweep::unpacked(models, packed) {
        Ok(sweep) => sweep,
        Err(errors) => return say(&mut output, &Reply::Refused { refused: errors.to_string() }),
    };
    say(&mut output, &Reply::Ready { ready: true })?;
    let mut output = io::BufWriter::with_capacity(1 << 16, output);
    let mut flushed = Instant::now();
    for order in orders {
        let Order::Points(points) = order? else { continue };
        for point in &points {
            let ran = sweep.run(point);
            let [cpu_ns, simulation_ns] = [ran.cpu, ran.simulation].map(|time| time.as_nanos() as u64);
            write(&mut output, &Reply::Ran { record: ran.record, cpu_ns, simulation_ns })?;
            if flushed.elapsed() >= PATIENCE {
                output.flush()?;
                flushed = Instant::now();
            }
        }
        output.flush()?;
    }
    Ok(())
}

/// Makes this process a worker: a panic is reported on standard output, and the process ends with the thread that started it.
pub fn prepare() {
    // On other systems, the worker ends with its input.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let at = panic.location().map_or_else(String::new, |at| format!(" ({}:{})", at.file(), at.line()));
        let reply = Reply::Panic { panic: words(panic.payload()) + &at };
        let _ = say(&mut io::stdout(), &reply);
        before(panic);
    }));
}

fn write(output: &mut impl Write, reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    output.write_all(&line)
}

fn say(output: &mut impl Write, reply: &Reply) -> io::Result<()> {
    write(output, reply)?;
    output.flush()
}
