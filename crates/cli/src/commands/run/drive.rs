// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the session, flushes the outputs, checks for Ctrl-C, and shows the progress of a long run. Never reads packets.

use super::taps::Taps;
use crate::{Failure, progress};
use fabric::Stop;
use indicatif::ProgressBar;
use session::{Progress, Session, Slices};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Events between two checks for Ctrl-C. An event of a design in RTL can take milliseconds.
const SLICE: u64 = 256;
/// A run that takes longer than this shows progress.
const PATIENCE: Duration = Duration::from_secs(2);
/// Interval between two updates of the progress, and between two flushes of the outputs.
const EVERY: Duration = Duration::from_millis(500);

/// Runs until the lab ends, its limit is reached, Ctrl-C arrives ([`Stop::Paused`]), or a file cannot be written.
pub(super) fn drive(session: &mut Session, taps: &Taps, interrupted: &AtomicBool) -> Result<Stop, Failure> {
    let begun = Instant::now();
    let mut looked = begun;
    let mut bar: Option<ProgressBar> = None;
    let before = |session: &mut Session| {
        if interrupted.load(Ordering::Relaxed) {
            return ControlFlow::Break(Ok(Stop::Paused));
        }
        if looked.elapsed() < EVERY {
            return ControlFlow::Continue(());
        }
        looked = Instant::now();
        if let Err(failure) = taps.flush() {
            return ControlFlow::Break(Err(failure));
        }
        if begun.elapsed() > PATIENCE {
            let bar = bar.get_or_insert_with(|| {
                progress::spinner("{spinner} {elapsed} {msg}").with_elapsed(begun.elapsed())
            });
            bar.set_message(how_far(session.progress(), begun.elapsed()));
        }
        ControlFlow::Continue(())
    };
    let stop = session.run_in_slices(Slices::of(SLICE), before).map_or_else(|ended| ended, Ok);
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    stop
}

/// Text of the progress: virtual time, the known shares of the limit and of the transfers, and events per second.
fn how_far(progress: Progress, elapsed: Duration) -> String {
    let mut text = format!("{:.3} us simulated", progress.now.as_ps() as f64 / 1e6);
    if let Some(share) = progress.of_limit {
        text += &format!(", {:.1} % of limit_us", share * 100.0);
    }
    if let Some((done, of)) = progress.transfers {
        text += &format!(", {:.1} % of {of} transfers", session::share(done, of) * 100.0);
    }
    text + &format!(", {:.1} M events/s", progress.events as f64 / elapsed.as_secs_f64() / 1e6)
}
