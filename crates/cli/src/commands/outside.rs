// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens a lab that a program outside of riser joins: its settings, capture and record. Independent of the transport.

use super::capture_file::CaptureFile;
use super::labs::{self, LabText, Native, Set};
use super::sizes::seed;
use crate::failure::Failure;
use crate::output;
use files::{ClaimedOutput, Output, Outputs};
use lab::{BuildOptions, LabFile};
use plug::Models;
use session::external::host::OUTSIDE;
use session::external::{Clock, Driver, RecordSize, RecordedLab};
use session::{CaptureOptions, Session};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Default limit of a record in MiB.
const RECORD_LIMIT_MIB: u64 = 4096;

/// Arguments for opening a lab. Commands that accept other inputs, too, permit these options only with a lab.
#[derive(clap::Args)]
#[group(requires = "lab")]
pub(super) struct Opening {
    /// Write all TLPs to this pcapng file
    #[arg(long, value_name = "OUT.pcapng")]
    capture: Option<PathBuf>,

    /// Record all input from outside to this file, which `replay` runs again
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Maximum size of the --record file in MiB [default: 4096]; when it is reached, the record ends and the run continues
    #[arg(long, value_name = "MIB", requires = "record", value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    record_limit_mib: Option<u64>,

    /// Overwrite existing files
    #[arg(long)]
    force: bool,

    /// Seed of random numbers [default: the lab's]
    #[arg(long, allow_negative_numbers = true, value_parser = seed)]
    seed: Option<u64>,

    #[command(flatten)]
    set: Set,

    #[command(flatten)]
    native: Native,
}

/// A lab that has been read but not built.
pub(super) struct Read<'a> {
    opening: &'a Opening,
    text: LabText,
    pub(super) file: LabFile,
    /// The files that the command writes.
    pub(super) outputs: Outputs,
}

/// A lab that has been built.
pub(super) struct Opened {
    pub(super) file: LabFile,
    /// Name in messages and reports.
    pub(super) name: String,
    pub(super) driver: Driver,
    pub(super) kept: RecordFiles,
}

/// Files that record a run.
pub(super) struct RecordFiles {
    capture: Option<CaptureFile>,
    record: Option<Output>,
    record_limit_bytes: u64,
}

impl Opening {
    /// Returns the names of its arguments, and whether each is given.
    pub(super) fn given(&self) -> [(&'static str, bool); 5] {
        [
            ("--set", !self.set.overrides().given().is_empty()),
            ("--capture", self.capture.is_some()),
            ("--record", self.record.is_some()),
            ("--force", self.force),
            ("--seed", self.seed.is_some()),
        ]
    }

    /// Reads the lab at `path`.
    pub(super) fn read(&self, path: &Path, models: &Models) -> Result<Read<'_>, Failure> {
        let text = labs::text(path)?;
        let folder = if self.record.is_some() { text.folder.clone().keeping() } else { text.folder.clone() };
        let mut file = text.parse(models, folder, &self.set.overrides())?;
        if let Some(seed) = self.seed {
            file.lab.seed = seed;
        }
        let mut outputs = output::files(self.force);
        outputs.reads(path);
        file.base.named().iter().for_each(|path| outputs.reads(path));
        Ok(Read { opening: self, text, file, outputs })
    }
}

impl Read<'_> {
    /// Replaces the lab's simulated host by an external host, unless the lab already has one.
    pub(super) fn with_outside(mut self) -> Self {
        if self.file.check_runs_alone().is_ok() {
            self.file.lab.host.outside = true;
            self.file.lab.set.push(OUTSIDE.to_owned());
        }
        self
    }

    /// Builds the lab, and starts its capture and its record.
    pub(super) fn open(mut self, clock: Clock) -> Result<Opened, Failure> {
        let Opening { capture, record, record_limit_mib, .. } = self.opening;
        let capture = self.outputs.claim_if("--capture", capture.as_deref())?;
        let record = self.outputs.claim_if("--record", record.as_deref())?;
        let options = BuildOptions::native(self.opening.native.leave());
        let session = Session::with(&self.file, options).map_err(Failure::run)?;
        output::warn(session.warnings());
        let mut driver = Driver::new(session, clock);
        let capture =
            capture.map(|place| CaptureFile::open(place, driver.session_mut(), CaptureOptions::default()));
        let (capture, record) = (capture.transpose()?, record.map(ClaimedOutput::open).transpose()?);
        let record_limit_bytes = record_limit_mib.unwrap_or(RECORD_LIMIT_MIB) << 20;
        let (file, name) = (self.file, self.text.name.display().to_string());
        if let Some(out) = &record {
            // By now the lab has read all files that it names.
            let (seed, set, files) = (file.lab.seed, file.lab.set.clone(), Some(file.base.kept()));
            let lab = RecordedLab { path: name.clone(), text: self.text.text, set, seed, files };
            let out = BufWriter::new(out.writer().map_err(|e| out.failed(&e))?);
            driver.record(Box::new(out), &lab, record_limit_bytes);
        }
        let kept = RecordFiles { capture, record, record_limit_bytes };
        Ok(Opened { file, name, driver, kept })
    }
}

impl RecordFiles {
    /// Ends the run, its capture and its record at `now`. Returns the size of the record, if there is one.
    pub(super) fn finish(
        &mut self,
        driver: &mut Driver,
        now: tlp::Time,
    ) -> Result<Option<RecordSize>, Failure> {
        let recorded = driver.finish(now);
        if let Some(capture) = self.capture.take() {
            capture.finish(driver.session_mut())?;
        }
        let Some(out) = self.record.take() else { return Ok(None) };
        let size = recorded.map_err(|e| out.failed(&e))?;
        out.finish()?;
        if let Some(RecordSize { left_out, .. }) = size.filter(|size| size.left_out > 0) {
            output::note(format_args!(
                "the record reached its limit of {} bytes: {left_out} inputs are missing from it",
                self.record_limit_bytes
            ));
        }
        Ok(size)
    }
}
