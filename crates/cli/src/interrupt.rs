// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ctrl-C, SIGTERM, and SIGHUP, which a terminal sends that goes. A command that asks for the [`flag`] ends by itself at the
//! first one, and at once at the second; any other ends at once. Files that are not whole go with it. Never ends a command that
//! has asked at the first one, nor hears SIGHUP where whoever began it (`nohup`) wants it not to.

use crate::failure::Failure;
use crate::outputs;
use nix::sys::signal::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Exit status of a process that a signal ends, less the number of the signal: as the shell has it.
const SIGNALLED: i32 = 128;

/// What a command looks at, once it has asked.
static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// True once one of the signals has come. A second one ends the process at once.
pub(crate) fn flag() -> Result<Arc<AtomicBool>, Failure> {
    let failed = |e: io::Error| Failure::Run(format!("signals cannot be handled: {e}"));
    watch().map_err(failed)?;
    let flag = Arc::clone(FLAG.get_or_init(Arc::default));
    // By the signal itself, so that whoever it wakes finds the flag set.
    for signal in heard_of() {
        signal_hook::flag::register(*signal, Arc::clone(&flag)).map_err(failed)?;
    }
    Ok(flag)
}

/// Has a file that may grow no further (`ulimit -f`) be an error of whoever writes it, and not the end of the process.
pub(crate) fn outlive_file_limits() {
    // Where it cannot be had, the process ends as before.
    let _ = signal_hook::flag::register(Signal::SIGXFSZ as i32, Arc::default());
}

/// True where a command has asked for the [`flag`], and a signal has come.
pub(crate) fn has_come() -> bool {
    FLAG.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// The signals that end commands.
fn heard_of() -> &'static [i32] {
    static HEARD: OnceLock<&[i32]> = OnceLock::new();
    HEARD.get_or_init(|| match is_ignored(SIGHUP) {
        true => &[SIGINT, SIGTERM],
        false => &[SIGINT, SIGTERM, SIGHUP],
    })
}

/// True where the process was begun with this signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// From now on unfinished files go where a signal ends the process.
pub(crate) fn watch() -> io::Result<()> {
    static WATCHED: Mutex<bool> = Mutex::new(false);
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*watched {
        let signals = Signals::new(heard_of())?;
        std::thread::Builder::new().name("signals".into()).spawn(move || wait(signals))?;
        *watched = true;
    }
    Ok(())
}

fn wait(mut signals: Signals) {
    let mut heard = false;
    for signal in signals.forever() {
        let first = !std::mem::replace(&mut heard, true);
        if let (true, Some(flag)) = (first, FLAG.get()) {
            flag.store(true, Ordering::Relaxed);
            continue;
        }
        outputs::take_away();
        std::process::exit(SIGNALLED + signal);
    }
}
