// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ctrl-C and SIGTERM. A command that asks for the [`flag`] ends by itself at the first one, and at once at the second; any
//! other ends at once. Files that are not whole go with it. Never ends a command that has asked at the first one.

use crate::failure::{Failure, INTERRUPTED};
use crate::outputs;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Exit status of a process that a second SIGTERM ends: as the shell has it, 128 and the number of the signal.
const TERMINATED: i32 = 143;

/// What a command looks at, once it has asked.
static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// True once Ctrl-C or SIGTERM has come. A second one ends the process at once.
pub(crate) fn flag() -> Result<Arc<AtomicBool>, Failure> {
    let failed = |e: io::Error| Failure::Run(format!("signals cannot be handled: {e}"));
    watch().map_err(failed)?;
    let flag = Arc::clone(FLAG.get_or_init(Arc::default));
    // By the signal itself, so that whoever it wakes finds the flag set.
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&flag)).map_err(failed)?;
    }
    Ok(flag)
}

/// From now on unfinished files go where a signal ends the process.
pub(crate) fn watch() -> io::Result<()> {
    static WATCHED: Mutex<bool> = Mutex::new(false);
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*watched {
        let signals = Signals::new([SIGINT, SIGTERM])?;
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
        std::process::exit(if signal == SIGTERM { TERMINATED } else { i32::from(INTERRUPTED) });
    }
}
