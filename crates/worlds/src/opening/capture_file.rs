// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A capture of a session in a file. Opens and completes both; `session` writes the packets.

use files::{ClaimedOutput, Output, Result};
use session::{CaptureHandle, CaptureOptions, Session};
use std::fs::File;

/// The file and its capture. A drop before [`finish`](Self::finish) removes the file.
pub struct CaptureFile {
    out: Output,
    handle: CaptureHandle<File>,
}

impl CaptureFile {
    /// Opens the file, and starts the capture of the session.
    ///
    /// # Errors
    /// The file cannot be opened or written.
    pub fn open(place: ClaimedOutput, session: &mut Session, options: CaptureOptions) -> Result<CaptureFile> {
        let out = place.open()?;
        let handle = out.writer().and_then(|file| session.capture(file, options));
        let handle = handle.map_err(|e| out.failed(&e))?;
        Ok(CaptureFile { out, handle })
    }

    /// Flushes the file, so that a reader of a pipe sees the packets and a crash loses few.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn flush(&self) -> Result<()> {
        self.handle.flush().map_err(|e| self.out.failed(&e))
    }

    /// Ends the capture of the session, and completes the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(self, session: &mut Session) -> Result<()> {
        session.fabric.take_tap();
        self.handle.finish().map_err(|e| self.out.failed(&e))?;
        self.out.finish()
    }
}
