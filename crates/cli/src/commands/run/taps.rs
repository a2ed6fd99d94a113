// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that `riser run` writes: while a lab runs, its capture and a line for each transaction; at the end, a picture of latencies.

use super::Args;
use crate::{Failure, output};
use files::{ClaimedOutput, Output};
use lab::LabFile;
use session::{CaptureOptions, Session, TransactionLogHandle};
use std::fs::File;
use worlds::opening::CaptureFile;

/// The open files, each with the handle that writes it.
#[derive(Default)]
pub(super) struct Taps {
    capture: Option<CaptureFile>,
    log: Option<(Output, TransactionLogHandle<File>)>,
    /// The picture of latencies, which is drawn from the report.
    pub(super) latencies: Option<ClaimedOutput>,
}

impl Taps {
    /// Opens the files that the arguments name, and attaches their taps to the session.
    pub(super) fn open(args: &Args, file: &LabFile, session: &mut Session) -> Result<Taps, Failure> {
        let mut outputs = output::files(args.force);
        outputs.reads(&args.lab);
        file.base.named().iter().for_each(|path| outputs.reads(path));
        let capture = outputs.claim_if("--capture", args.capture.as_deref())?;
        let log = outputs.claim_if("--transactions-json", args.transactions_json.as_deref())?;
        let latencies = outputs.claim_if("--latency-svg", args.latency_svg.as_deref())?;
        let latencies = latencies.map(ClaimedOutput::prepare).transpose()?;
        let options = CaptureOptions { at: args.tap, dllps: args.dllps };
        let capture = capture.map(|place| CaptureFile::open(place, session, options)).transpose()?;
        let log = log.map(|place| open_log(place, session)).transpose()?;
        Ok(Taps { capture, log, latencies })
    }

    /// Flushes both files, so that a reader of a pipe sees the data and a crash loses little.
    pub(super) fn flush(&self) -> Result<(), Failure> {
        if let Some(capture) = &self.capture {
            capture.flush()?;
        }
        if let Some((out, handle)) = &self.log {
            handle.flush().map_err(|e| out.failed(&e))?;
        }
        Ok(())
    }

    /// Completes both files.
    pub(super) fn finish(self, session: &mut Session) -> Result<(), Failure> {
        if let Some(capture) = self.capture {
            capture.finish(session)?;
        }
        if let Some((out, handle)) = self.log {
            handle.finish().map_err(|e| out.failed(&e))?;
            out.finish()?;
        }
        Ok(())
    }
}

fn open_log(
    place: ClaimedOutput,
    session: &mut Session,
) -> Result<(Output, TransactionLogHandle<File>), Failure> {
    let out = place.open()?;
    let handle = session.log_transactions(out.writer().map_err(|e| out.failed(&e))?);
    Ok((out, handle))
}
