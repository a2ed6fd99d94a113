// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens a named pipe for writing, after its reader has opened it. Reports a long wait, and keeps waiting after signals other than Ctrl-C.

use crate::{Error, Note, Result, failed, interrupt};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Time after which the wait is reported.
const PATIENCE: Duration = Duration::from_secs(2);
/// Interval between two attempts to open the pipe.
const EVERY: Duration = Duration::from_millis(20);

/// Opens the pipe at `path` when it has a reader.
///
/// # Errors
/// Errors of the file system; Ctrl-C during the wait.
pub(crate) fn open(path: &Path, note: Note) -> Result<File> {
    let begun = Instant::now();
    let mut is_told = false;
    // A Ctrl-C from before the wait must not discard the remaining output. A second Ctrl-C ends the process.
    let had_come = interrupt::has_come();
    loop {
        match ready(path).map_err(|e| failed(path, &e))? {
            Some(file) => return Ok(file),
            None if interrupt::has_come() && !had_come => {
                let why = format!("interrupted: {}: no process has opened it for reading", path.display());
                return Err(Error::Interrupted(why));
            }
            None => {}
        }
        if !is_told && begun.elapsed() > PATIENCE {
            is_told = true;
            note(&format_args!("{}: waiting for a reader of this pipe; Ctrl-C ends it", path.display()));
        }
        thread::sleep(EVERY);
    }
}

/// Opens the pipe if it has a reader. A blocking `open` would wait, and would be restarted after a handled signal.
fn ready(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    match OpenOptions::new().write(true).custom_flags(flags).open(path) {
        Ok(file) => {
            fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
            Ok(Some(file))
        }
        Err(e) if e.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => Ok(None),
        Err(e) => Err(e),
    }
}
