// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ctrl-C and SIGTERM for commands that run until either comes. Never ends the process at the first one.

use crate::failure::Failure;
use signal_hook::consts::SIGTERM;
use signal_hook::flag as signal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit status of a process that a second Ctrl-C ends: as the shell has it, 128 and the number of the signal.
const INTERRUPTED: i32 = 130;
/// That of one that a second SIGTERM ends.
const TERMINATED: i32 = 143;

/// True once Ctrl-C or SIGTERM has come. A second one ends the process at once. To be called once.
pub(crate) fn flag() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    let handler = flag.clone();
    let handled = ctrlc::set_handler(move || {
        if handler.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED);
        }
    });
    handled.map_err(|e| Failure::Run(format!("Ctrl-C cannot be handled: {e}")))?;
    let second = signal::register_conditional_shutdown(SIGTERM, TERMINATED, Arc::clone(&flag));
    let both = second.and_then(|_| signal::register(SIGTERM, Arc::clone(&flag)));
    both.map_err(|e| Failure::Run(format!("SIGTERM cannot be handled: {e}")))?;
    Ok(flag)
}
