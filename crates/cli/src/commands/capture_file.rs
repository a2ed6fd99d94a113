// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A capture of a session in a file. Opens and completes both; `session` writes the packets.

use crate::failure::Failure;
use files::{ClaimedOutput, Output};
use session::{CaptureHandle, CaptureOptions, Session};
use std::fs::File;

/// The file and its capture. A drop before [`finish`](Self::finish) removes the file.
pub(super) struct CaptureFile {
    out: Output,
    handle: CaptureHandle<File>,
}

impl CaptureFile {
    /// Opens the file, and starts the capture of the session.
    pub(super) fn open(
        place: ClaimedOutput,
        session: &mut Session,
        options: CaptureOptions,
    ) -> Result<CaptureFile, Failure> {
        let out = place.open()?;
        let handle = out.writer().and_then(|file| session.capture(file, options));
        let handle = handle.map_err(|e| out.failed(&e))?;
        Ok(CaptureFile { out, handle })
    }

    /// Flushes the file, so that a reader of a pipe sees the packets and a crash loses few.
    pub(super) fn flush(&self) -> Result<(), Failure> {
        Ok(self.handle.flush().map_err(|e| self.out.failed(&e))?)
    }

    /// Ends the capture of the session, and completes the file.
    pub(super) fn finish(self, session: &mut Session) -> Result<(), Failure> {
        session.fabric.take_tap();
        self.handle.finish().map_err(|e| self.out.failed(&e))?;
        Ok(self.out.finish()?)
    }
}
