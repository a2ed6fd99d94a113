// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a lab to its end or to Ctrl-C, and shows how far it is where that takes long. Never looks into packets.

use super::taps::Taps;
use crate::failure::Failure;
use crate::progress;
use fabric::{Limits, Stop};
use indicatif::ProgressBar;
use lab::Assembly;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tlp::Time;

/// Events between two looks at the wall clock.
const SLICE: u64 = 200_000;
/// Progress is shown on runs longer than this.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it is shown, and what was written is handed on.
const EVERY: Duration = Duration::from_millis(500);

/// Runs until the lab's end, its limit or Ctrl-C comes ([`Stop::Paused`]), or a file cannot be written.
pub(super) fn drive(
    assembly: &mut Assembly,
    limit_us: Option<u64>,
    taps: &Taps,
    interrupted: &AtomicBool,
) -> Result<Stop, Failure> {
    let until = lab::limit(limit_us);
    let begun = Instant::now();
    let mut looked = begun;
    let mut bar: Option<ProgressBar> = None;
    let stop = loop {
        let stop = assembly.run(Limits { until, events: SLICE, ..Limits::default() });
        if stop != Stop::Paused || interrupted.load(Ordering::Relaxed) {
            break Ok(stop);
        }
        if looked.elapsed() < EVERY {
            continue;
        }
        looked = Instant::now();
        if let Err(failure) = taps.flush() {
            break Err(failure);
        }
        if begun.elapsed() > PATIENCE {
            let bar = bar.get_or_insert_with(|| {
                progress::spinner("{spinner} {elapsed} {msg}").with_elapsed(begun.elapsed())
            });
            bar.set_message(how_far(assembly, until, begun.elapsed()));
        }
    };
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    stop
}

/// Virtual time, the shares of the limit and of transfers where they are known, and events per second.
fn how_far(assembly: &Assembly, until: Time, elapsed: Duration) -> String {
    let share = |done: u64, of: u64| done.min(of) as f64 * 100.0 / of.max(1) as f64;
    let now = assembly.fabric.now();
    let mut text = format!("{:.3} us simulated", now.as_ps() as f64 / 1e6);
    if until != Time::MAX {
        text += &format!(", {:.1} % of limit_us", share(now.as_ps(), until.as_ps()));
    }
    if let Some((done, of)) = assembly.transfers() {
        text += &format!(", {:.1} % of {of} transfers", share(done, of));
    }
    let rate = assembly.fabric.totals().events as f64 / elapsed.as_secs_f64();
    text + &format!(", {:.1} M events/s", rate / 1e6)
}
