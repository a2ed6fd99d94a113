// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `riser run` writes while a lab runs: its capture, and a line for each transaction. Never decides when.

use super::Args;
use crate::failure::Failure;
use crate::outputs::{Output, Outputs, Place};
use lab::LabFile;
use session::{CaptureHandle, CaptureOptions, Session, TransactionLogHandle};
use std::fs::File;
use std::io;

/// The files, and what goes into them.
#[derive(Default)]
pub(super) struct Taps {
    capture: Option<(Output, CaptureHandle<File>)>,
    log: Option<(Output, TransactionLogHandle<File>)>,
}

impl Taps {
    /// Begins both, where they were asked for.
    pub(super) fn open(args: &Args, file: &LabFile, session: &mut Session) -> Result<Taps, Failure> {
        let mut outputs = Outputs::new(args.force);
        outputs.reads(&args.lab);
        file.base.named().iter().for_each(|path| outputs.reads(path));
        let capture = outputs.claim_if("--capture", args.capture.as_deref())?;
        let log = outputs.claim_if("--transactions-json", args.transactions_json.as_deref())?;
        let options = CaptureOptions { at: args.tap, dllps: args.dllps };
        let capture = begin(capture, |file| session.capture(file, options))?;
        let log = begin(log, |file| Ok(session.log_transactions(file)))?;
        Ok(Taps { capture, log })
    }

    /// Hands on what was seen so far: to a reader at the other end of a pipe, and against what may come.
    pub(super) fn flush(&self) -> Result<(), Failure> {
        if let Some((out, handle)) = &self.capture {
            handle.flush().map_err(|e| out.failed(&e))?;
        }
        if let Some((out, handle)) = &self.log {
            handle.flush().map_err(|e| out.failed(&e))?;
        }
        Ok(())
    }

    /// The files are whole.
    pub(super) fn finish(self, session: &mut Session) -> Result<(), Failure> {
        if let Some((out, handle)) = self.capture {
            session.fabric.take_tap();
            handle.finish().map_err(|e| out.failed(&e))?;
            out.finish()?;
        }
        if let Some((out, handle)) = self.log {
            handle.finish().map_err(|e| out.failed(&e))?;
            out.finish()?;
        }
        Ok(())
    }
}

fn begin<H>(
    place: Option<Place>,
    tap: impl FnOnce(File) -> io::Result<H>,
) -> Result<Option<(Output, H)>, Failure> {
    let Some(out) = place.map(Place::open).transpose()? else { return Ok(None) };
    let handle = out.writer().and_then(tap).map_err(|e| out.failed(&e))?;
    Ok(Some((out, handle)))
}
