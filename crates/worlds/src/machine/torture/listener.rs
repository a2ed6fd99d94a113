// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the lines of a machine while the machine runs, and detects when it is silent.

use super::tally::{LastWord, Tally};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A machine that is silent for this time has locked up, because it writes a line every ten seconds.
const SILENCE: Duration = Duration::from_secs(120);
/// Maximum length of a line in bytes.
const MAX_LINE: usize = 64 << 10;

/// The standard output of `torture.sh` in one machine after another. Clones share their state with the thread that writes.
#[derive(Clone)]
pub struct Listener(Arc<Mutex<ListenerState>>);

struct ListenerState {
    tally: Tally,
    on_progress: Box<dyn FnMut(&Tally) + Send>,
    line: Vec<u8>,
    /// When this machine wrote last. `None` before the machine has written a line.
    at: Option<Instant>,
    last: Option<LastWord>,
}

impl Listener {
    /// A listener that calls `on_progress` after each output.
    pub fn new(tally: Tally, on_progress: impl FnMut(&Tally) + Send + 'static) -> Listener {
        let on_progress = Box::new(on_progress);
        Listener(Arc::new(Mutex::new(ListenerState {
            tally,
            on_progress,
            line: Vec::new(),
            at: None,
            last: None,
        })))
    }

    fn state(&self) -> MutexGuard<'_, ListenerState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the next machine.
    pub fn begin_machine(&self) {
        let mut state = self.state();
        state.tally.machines += 1;
        (state.at, state.last) = (None, None);
        state.line.clear();
    }

    /// Calls `act` with the tally.
    pub fn with<T>(&self, act: impl FnOnce(&mut Tally) -> T) -> T {
        act(&mut self.state().tally)
    }

    /// Returns the last word of the machine, or `None` if it has not sent one.
    pub fn last(&self) -> Option<LastWord> {
        self.state().last.clone()
    }

    /// Returns whether the machine has written anything.
    pub fn has_begun(&self) -> bool {
        self.state().at.is_some()
    }

    /// Returns whether the machine has locked up.
    pub fn is_silent(&self) -> bool {
        self.state().at.is_some_and(|at| at.elapsed() > SILENCE)
    }

    /// Returns whether the machine should continue.
    pub fn is_wanted(&self) -> bool {
        self.last().is_none() && !self.is_silent()
    }
}

impl Write for Listener {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.state();
        let ListenerState { tally, on_progress, line, at, last } = &mut *state;
        *at = Some(Instant::now());
        line.extend_from_slice(bytes);
        while let Some(end) = line.iter().position(|byte| *byte == b'\n') {
            let whole: Vec<u8> = line.drain(..=end).collect();
            *last = tally.count(String::from_utf8_lossy(&whole).trim_end()).or(last.take());
        }
        // No line of the script is that long. The rest of a line that is too long counts as another line.
        if line.len() > MAX_LINE {
            line.clear();
        }
        on_progress(tally);
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
    fn joins_pieces_of_lines() {
        let mut listener = Listener::new(Tally::new(1), |_| {});
        listener.begin_machine();
        assert!(!listener.has_begun() && listener.is_wanted());
        listener.write_all(b"fault 1 fl").unwrap();
        assert!(listener.with(|tally| tally.faults) == 0 && listener.has_begun());
        listener.write_all(b"r\nround well\nov").unwrap();
        assert!(listener.with(|tally| tally.faults) == 1 && listener.is_wanted());
        listener.write_all(b"er\n").unwrap();
        assert!(listener.last() == Some(LastWord::Over) && !listener.is_wanted());
        listener.begin_machine();
        assert!(listener.is_wanted() && !listener.has_begun());
    }
}
