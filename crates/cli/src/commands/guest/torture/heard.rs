// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hears the machine that is tortured while it runs: line by line, and whether it says anything at all.

use super::tally::{Last, Tally};
use crate::commands::guest::run::Overseer;
use crate::{output, progress};
use indicatif::ProgressBar;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A machine that says nothing for so long has locked up: it tells every ten seconds that it is there.
const SILENCE: Duration = Duration::from_secs(120);
/// Where no bar is drawn, a line tells of so many faults.
const NOTE_FAULTS: u32 = 50;
/// Bytes of the longest line.
const LINE: usize = 64 << 10;

/// What is heard, shared with the thread that hears it.
#[derive(Clone)]
pub(super) struct Heard(Arc<Mutex<Inner>>);

struct Inner {
    tally: Tally,
    bar: ProgressBar,
    pending: Vec<u8>,
    /// When this machine was heard; `None`: it has not begun.
    at: Option<Instant>,
    last: Option<Last>,
}

impl Heard {
    pub(super) fn new(tally: Tally, faults: u32) -> Heard {
        let bar = progress::bar("{bar:30} {pos}/{len} faults, {msg} {elapsed}");
        bar.set_length(faults.into());
        Heard(Arc::new(Mutex::new(Inner { tally, bar, pending: Vec::new(), at: None, last: None })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another machine begins.
    pub(super) fn begin_machine(&self) {
        let mut inner = self.inner();
        inner.tally.machines += 1;
        (inner.at, inner.last) = (None, None);
        inner.pending.clear();
    }

    /// Does something with what was heard.
    pub(super) fn with<T>(&self, what: impl FnOnce(&mut Tally) -> T) -> T {
        what(&mut self.inner().tally)
    }

    /// What the machine has said as its last.
    pub(super) fn last(&self) -> Option<Last> {
        self.inner().last.clone()
    }

    /// Whether it has said anything.
    pub(super) fn was_there(&self) -> bool {
        self.inner().at.is_some()
    }

    /// Whether it was there, and says nothing any more.
    pub(super) fn is_silent(&self) -> bool {
        self.inner().at.is_some_and(|at| at.elapsed() > SILENCE)
    }

    /// No more is heard.
    pub(super) fn end(&self) {
        self.inner().bar.finish_and_clear();
    }
}

impl Overseer for Heard {
    fn stdout(&self) -> Box<dyn Write + Send> {
        Box::new(self.clone())
    }

    fn goes_on(&self) -> bool {
        self.last().is_none() && !self.is_silent()
    }
}

impl Write for Heard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut inner = self.inner();
        let Inner { tally, bar, pending, at, last } = &mut *inner;
        *at = Some(Instant::now());
        pending.extend_from_slice(bytes);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            *last = tally.hear(String::from_utf8_lossy(&line).trim_end()).or(last.take());
        }
        // Nothing of the script's is as long; the rest of such a line is another.
        if pending.len() > LINE {
            pending.clear();
        }
        let state = format!("machine {}, {} findings,", tally.machines, tally.findings.len());
        if bar.is_hidden() && tally.faults / NOTE_FAULTS > bar.position() as u32 / NOTE_FAULTS {
            output::note(format_args!("torture: {} faults, {}", tally.faults, state.trim_end_matches(',')));
        }
        bar.set_position(tally.faults.into());
        bar.set_message(state);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_in_pieces() {
        let heard = Heard::new(Tally::new(1), 10);
        heard.begin_machine();
        assert!(!heard.was_there() && heard.goes_on());
        let mut out = heard.stdout();
        out.write_all(b"fault 1 fl").unwrap();
        assert!(heard.with(|tally| tally.faults) == 0 && heard.was_there());
        out.write_all(b"r\nround well\nov").unwrap();
        assert!(heard.with(|tally| tally.faults) == 1 && heard.goes_on());
        out.write_all(b"er\n").unwrap();
        assert!(heard.last() == Some(Last::Over) && !heard.goes_on());
        heard.begin_machine();
        assert!(heard.goes_on() && !heard.was_there());
    }
}
