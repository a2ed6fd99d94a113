// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the session, flushes the outputs, checks for Ctrl-C, and shows the progress of a long run. Never reads packets.

use super::taps::Taps;
use crate::progress::{EVERY, PATIENCE};
use crate::{Failure, progress};
use fabric::Stop;
use session::{Progress, Session, Slices};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Events between two checks for Ctrl-C. An event of a design in RTL can take milliseconds.
const SLICE: u64 = 256;

/// Runs until the lab ends, its limit is reached, Ctrl-C arrives ([`Stop::Paused`]), or a file cannot be written.
pub(super) fn drive(session: &mut Session, taps: &Taps, interrupted: &AtomicBool) -> Result<Stop, Failure> {
    let (bar, mut looked) = (progress::spinner("{spinner} {elapsed} {msg}"), Instant::now());
    let before = |session: &mut Session| {
        if interrupted.load(Ordering::Relaxed) {
            return ControlFlow::Break(Ok(Stop::Paused));
        }
        if looked.elapsed() < EVERY {
            return ControlFlow::Continue(());
        }
        looked = Instant::now();
        if bar.elapsed() > PATIENCE {
            bar.set_message(how_far(session.progress(), bar.elapsed()));
        }
        taps.flush().map_or_else(|failure| ControlFlow::Break(Err(failure)), ControlFlow::Continue)
    };
    let stop = session.run_in_slices(Slices::of(SLICE), before).map_or_else(|ended| ended, Ok);
    bar.finish_and_clear();
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
