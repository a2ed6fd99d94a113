// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens a named pipe for writing. Waits for its reader, says so where that takes long, and goes on waiting at no signal. Never
//! writes.

use super::failed;
use crate::failure::Failure;
use crate::{interrupt, output};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Who waits for longer than this says so.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks for a reader.
const EVERY: Duration = Duration::from_millis(20);

/// The pipe at `path`, once somebody reads it.
///
/// # Errors
/// Those of the file system; Ctrl-C, where it comes meanwhile.
pub(super) fn open(path: &Path) -> Result<File, Failure> {
    let begun = Instant::now();
    let mut is_told = false;
    // What came before is no reason to give up what it has left to be written: the next one ends the process.
    let had_come = interrupt::has_come();
    loop {
        match ready(path).map_err(|e| failed(path, &e))? {
            Some(file) => return Ok(file),
            None if interrupt::has_come() && !had_come => {
                let why = format!("interrupted: {}: nobody has read it", path.display());
                return Err(Failure::Interrupted(why));
            }
            None => {}
        }
        if !is_told && begun.elapsed() > PATIENCE {
            is_told = true;
            output::note(format_args!(
                "{}: waiting for a reader of this pipe; Ctrl-C ends it",
                path.display()
            ));
        }
        thread::sleep(EVERY);
    }
}

/// The pipe, where it has a reader. The system would wait for one, and begin again to wait behind a signal that is handled.
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
