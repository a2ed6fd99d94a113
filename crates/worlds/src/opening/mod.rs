// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens a lab that a program outside of riser joins, with its capture and its record. Independent of the transport.

mod capture_file;

pub use capture_file::CaptureFile;

use files::{ClaimedOutput, Error, Output, Outputs, Result};
use lab::{BuildOptions, LabFile};
use plug::site::NativeCode;
use session::external::host::OUTSIDE;
use session::external::{Clock, Driver, RecordSize, RecordedLab};
use session::{CaptureOptions, Session};
use std::io::BufWriter;
use std::path::PathBuf;

/// Default limit of a record in MiB.
const RECORD_LIMIT_MIB: u64 = 4096;

/// A lab that has been read but not built.
pub struct UnopenedLab {
    /// Name in messages and reports.
    pub name: String,
    /// Text of the lab.
    pub text: String,
    /// The lab.
    pub file: LabFile,
    /// The files that the command writes.
    pub outputs: Outputs,
    /// File for all TLPs.
    pub capture: Option<PathBuf>,
    /// File for all input from outside.
    pub record: Option<PathBuf>,
    /// Maximum size of the record in MiB.
    pub record_limit_mib: Option<u64>,
    /// Permission for native code.
    pub native: NativeCode,
}

/// A lab that has been built.
pub struct OpenedLab {
    /// The lab.
    pub file: LabFile,
    /// Name in messages and reports.
    pub name: String,
    /// The driver of the outside.
    pub driver: Driver,
    /// Files that record the run.
    pub kept: RecordFiles,
}

/// Files that record a run.
pub struct RecordFiles {
    capture: Option<CaptureFile>,
    record: Option<Output>,
    record_limit_bytes: u64,
    note: files::Note,
}

impl UnopenedLab {
    /// Replaces the lab's simulated host by an external host, unless the lab already has one.
    #[must_use]
    pub fn with_outside(mut self) -> UnopenedLab {
        if self.file.check_runs_alone().is_ok() {
            self.file.lab.host.outside = true;
            self.file.lab.set.push(OUTSIDE.to_owned());
        }
        self
    }

    /// Builds the lab, and starts its capture and its record.
    ///
    /// # Errors
    /// The lab cannot be built, or a file cannot be opened.
    pub fn open(mut self, clock: Clock) -> Result<OpenedLab> {
        let capture = self.outputs.claim_if("--capture", self.capture.as_deref())?;
        let record = self.outputs.claim_if("--record", self.record.as_deref())?;
        let session = Session::with(&self.file, BuildOptions::native(self.native));
        let session = session.map_err(|error| Error::File(error.to_string()))?;
        let note = self.outputs.note;
        session.warnings().iter().for_each(|warning| note(&format_args!("warning: {warning}")));
        let mut driver = Driver::new(session, clock);
        let capture =
            capture.map(|place| CaptureFile::open(place, driver.session_mut(), CaptureOptions::default()));
        let (capture, record) = (capture.transpose()?, record.map(ClaimedOutput::open).transpose()?);
        let record_limit_bytes = self.record_limit_mib.unwrap_or(RECORD_LIMIT_MIB) << 20;
        let UnopenedLab { name, text, file, .. } = self;
        if let Some(out) = &record {
            // By now the lab has read all files that it names.
            let (seed, set, files) = (file.lab.seed, file.lab.set.clone(), Some(file.base.kept()));
            let lab = RecordedLab { path: name.clone(), text, set, seed, files };
            let out = BufWriter::new(out.writer().map_err(|e| out.failed(&e))?);
            driver.record(Box::new(out), &lab, record_limit_bytes);
        }
        Ok(OpenedLab { file, name, driver, kept: RecordFiles { capture, record, record_limit_bytes, note } })
    }
}

impl RecordFiles {
    /// Ends the run, its capture and its record at `now`. Returns the size of the record, if there is one.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn finish(&mut self, driver: &mut Driver, now: tlp::Time) -> Result<Option<RecordSize>> {
        let recorded = driver.finish(now);
        if let Some(capture) = self.capture.take() {
            capture.finish(driver.session_mut())?;
        }
        let Some(out) = self.record.take() else { return Ok(None) };
        let size = recorded.map_err(|e| out.failed(&e))?;
        out.finish()?;
        if let Some(RecordSize { left_out, .. }) = size.filter(|size| size.left_out > 0) {
            (self.note)(&format_args!(
                "the record reached its limit of {} bytes: {left_out} inputs are missing from it",
                self.record_limit_bytes
            ));
        }
        Ok(size)
    }
}
