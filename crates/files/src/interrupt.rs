// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ctrl-C, SIGTERM, and SIGHUP, which is sent when the terminal closes. A command that has called [`flag`] ends itself after the first
//! signal, and exits at the second. All other commands end at the first. Unfinished files are removed in both cases, and the programs
//! of [`output_of`] end. SIGHUP has no effect if the process was started with it ignored (`nohup`).

use crate::{Error, Result};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Exit status of a process killed by a signal, minus the signal number, as in a shell.
const SIGNALLED: i32 = 128;

/// Flag that commands poll. It exists after the first call of [`flag`].
static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Returns a flag that is true after one of the signals. A second signal ends the process immediately.
pub fn flag() -> Result<Arc<AtomicBool>> {
    let failed = |e: io::Error| Error::File(format!("signals cannot be handled: {e}"));
    watch().map_err(failed)?;
    let flag = Arc::clone(FLAG.get_or_init(Arc::default));
    // The signal handler itself sets the flag, so that code woken by the signal sees it.
    for signal in heard_of() {
        signal_hook::flag::register(*signal, Arc::clone(&flag)).map_err(failed)?;
    }
    Ok(flag)
}

/// Makes a write beyond the file size limit (`ulimit -f`) an I/O error instead of the end of the process.
pub fn outlive_file_limits() {
    // On failure the signal ends the process as before.
    let _ = signal_hook::flag::register(Signal::SIGXFSZ as i32, Arc::default());
}

/// Returns true if a command has called [`flag`], and a signal has arrived since.
pub fn has_come() -> bool {
    FLAG.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// Signals that end commands.
fn heard_of() -> &'static [i32] {
    static HEARD: OnceLock<&[i32]> = OnceLock::new();
    HEARD.get_or_init(|| match is_ignored(SIGHUP) {
        true => &[SIGINT, SIGTERM],
        false => &[SIGINT, SIGTERM, SIGHUP],
    })
}

/// True if the process was started with this signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// From now on, removes unfinished files if a signal ends the process.
pub fn watch() -> io::Result<()> {
    static WATCHED: Mutex<bool> = Mutex::new(false);
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*watched {
        let signals = Signals::new(heard_of())?;
        std::thread::Builder::new().name("signals".into()).spawn(move || wait(signals))?;
        *watched = true;
    }
    Ok(())
}

/// Files to remove if a signal ends the process.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Locks the list of the files to remove if a signal ends the process.
pub fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a file from this list.
pub fn forget(path: &Path) {
    unfinished().retain(|other| other != path);
}

/// Removes all unfinished files, because the process ends.
fn take_away() {
    for path in unfinished().drain(..) {
        let _ = fs::remove_file(path);
    }
}

/// Process groups that end with this process.
static GROUPS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

fn groups() -> MutexGuard<'static, Vec<Pid>> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a program without input, and returns its output. A signal that ends this process also ends the program and all programs
/// that it has started.
pub fn output_of(command: &mut Command) -> io::Result<Output> {
    watch()?;
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // The lock is held, so that a signal does not come between the start and the entry.
    let mut running = groups();
    let child = command.spawn()?;
    let group = Pid::from_raw(child.id().cast_signed());
    running.push(group);
    drop(running);
    let output = child.wait_with_output();
    groups().retain(|other| *other != group);
    output
}

fn wait(mut signals: Signals) {
    let mut heard = false;
    for signal in signals.forever() {
        let first = !std::mem::replace(&mut heard, true);
        if let (true, Some(flag)) = (first, FLAG.get()) {
            flag.store(true, Ordering::Relaxed);
            continue;
        }
        take_away();
        // Locked to the end, so that no other program starts.
        let running = groups();
        for group in running.iter() {
            let _ = killpg(*group, Signal::SIGTERM);
        }
        std::process::exit(SIGNALLED + signal);
    }
}
