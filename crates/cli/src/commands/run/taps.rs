// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that `riser run` writes: while a lab runs, its capture and a line for each transaction; at the end, a picture of latencies.

use super::Args;
use crate::failure::Failure;
use crate::outputs::{Output, Outputs, Place};
use lab::LabFile;
use session::{CaptureHandle, CaptureOptions, Session, TransactionLogHandle};
use std::fs::File;
use std::io;

/// The open files, each with the handle that writes it.
#[derive(Default)]
pub(super) struct Taps {
    capture: Option<(Output, CaptureHandle<File>)>,
    log: Option<(Output, TransactionLogHandle<File>)>,
    /// The picture of latencies, which is drawn from the report.
    pub(super) latencies: Option<Place>,
}

impl Taps {
    /// Opens the files that the arguments name, and attaches their taps to the session.
    pub(super) fn open(args: &Args, file: &LabFile, session: &mut Session) -> Result<Taps, Failure> {
        let mut outputs = Outputs::new(args.force);
        outputs.reads(&args.lab);
        file.base.named().iter().for_each(|path| outputs.reads(path));
        let capture = outputs.claim_if("--capture", args.capture.as_deref())?;
        let log = outputs.claim_if("--transactions-json", args.transactions_json.as_deref())?;
        let latencies = outputs.claim_if("--latency-svg", args.latency_svg.as_deref())?;
        let latencies = latencies.map(Place::prepare).transpose()?;
        let options = CaptureOptions { at: args.tap, dllps: args.dllps };
        let capture = begin(capture, |file| session.capture(file, options))?;
        let log = begin(log, |file| Ok(session.log_transactions(file)))?;
        Ok(Taps { capture, log, latencies })
    }

    /// Flushes both files, so that a reader of a pipe sees the data and a crash loses little.
    pub(super) fn flush(&self) -> Result<(), Failure> {
        if let Some((out, handle)) = &self.capture {
            handle.flush().map_err(|e| out.failed(&e))?;
        }
        if let Some((out, handle)) = &self.log {
            handle.flush().map_err(|e| out.failed(&e))?;
        }
        Ok(())
    }

    /// Completes both files.
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
