// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A worker: a process that runs points for another, by lines of JSON on its standard input and output. Never writes a file.
//!
//! | from | line | means |
//! |---|---|---|
//! | master | `{"sweep": {...}}` | the first line: the sweep as [`Sweep::pack`] has it |
//! | worker | `{"ready": true}` | it can run points |
//! | worker | `{"refused": "why"}` | it cannot; it ends |
//! | master | `{"points": [[number, config, round], ...]}` | run these, in this order; further ones may wait behind them |
//! | worker | `{"record": {...}, "cpu_ns": n, "simulation_ns": n}` | a point has been run, and what CPU time it took |
//! | worker | `{"panic": "why"}` | it panics, and will end |
//!
//! It ends where its input does.

use crate::packed::Packed;
use crate::record::{Point, Record};
use crate::sweep::{Sweep, words};
use plug::Models;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant};

/// Records wait for others that are written with them for so long at most.
const PATIENCE: Duration = Duration::from_millis(5);

/// What a master says.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    Sweep(Packed),
    Points(Vec<Point>),
}

/// What a worker says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Reply {
    // The first that fits is taken: the most frequent one comes first.
    Ran { record: Record, cpu_ns: u64, simulation_ns: u64 },
    Ready { ready: bool },
    Refused { refused: String },
    Panic { panic: String },
}

/// Runs the points that come in by `input`, until it ends, and gives their records to `output`.
///
/// # Errors
/// Those of either, and a line that is no order.
pub fn serve(models: &Models, input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut orders = input.lines().map(|line| {
        let bad = |e: serde_json::Error| io::Error::new(io::ErrorKind::InvalidData, format!("no order: {e}"));
        serde_json::from_str::<Order>(&line?).map_err(bad)
    });
    let Some(first) = orders.next() else { return Ok(()) };
    let Order::Sweep(packed) = first? else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the first order is no sweep"));
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

/// Makes this process a worker: a panic is told on standard output, as its last words, and it ends with the thread that began it.
pub fn prepare() {
    // Where the system has no such thing, it ends with its input.
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
