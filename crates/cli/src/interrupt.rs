// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ctrl-C for commands that run until it comes. Never ends the process at the first one.

use crate::failure::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit status of a process that a second Ctrl-C ends: as the shell has it, 128 and the number of the signal.
const INTERRUPTED: i32 = 130;

/// True once Ctrl-C has come. A second one ends the process at once. To be called once.
pub(crate) fn flag() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    let handler = flag.clone();
    let handled = ctrlc::set_handler(move || {
        if handler.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED);
        }
    });
    handled.map_err(|e| Failure::Run(format!("Ctrl-C cannot be handled: {e}")))?;
    Ok(flag)
}
