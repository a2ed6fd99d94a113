// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab that somebody outside joins, as commands open it: what is set over it, its capture and its record. Knows no transport.

use super::labs::{self, Native, Set};
use super::sizes::seed;
use crate::failure::Failure;
use crate::output;
use crate::outputs::{Output, Outputs, Place};
use lab::external::{Clock, Driver, RecordSize, RecordedLab};
use lab::{CaptureHandle, CaptureOptions, LabFile};
use plug::Models;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// What a record may hold where nothing else is said, in MiB.
const RECORD_LIMIT_MIB: u64 = 4096;

/// How the lab is opened.
#[derive(clap::Args)]
pub(super) struct Opening {
    #[command(flatten)]
    set: Set,

    /// Write every TLP of the lab's links to this pcapng file
    #[arg(long, value_name = "OUT.pcapng")]
    capture: Option<PathBuf>,

    /// Write what comes from outside to this file, which `riser guest replay` runs again
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Most MiB of the file of --record [default: 4096]; the run goes on where they are used up, and the record ends there
    #[arg(long, value_name = "MIB", requires = "record", value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    record_limit_mib: Option<u64>,

    /// Overwrite the files of --capture and --record where they exist
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    native: Native,

    /// Seed, in place of the lab's
    #[arg(long, allow_negative_numbers = true, value_parser = seed)]
    seed: Option<u64>,
}

/// A lab that is open.
pub(super) struct Opened {
    pub(super) file: LabFile,
    /// What messages and reports call it.
    pub(super) name: String,
    pub(super) driver: Driver,
    capture: Option<(Output, CaptureHandle<File>)>,
    record: Option<Output>,
    record_limit_bytes: u64,
}

impl Opening {
    /// Opens the lab at `path`. Where nobody is outside it as its file has it, its host is.
    pub(super) fn open(&self, path: &Path, models: &Models, clock: Clock) -> Result<Opened, Failure> {
        let text = labs::text(path)?;
        let folder = if self.record.is_some() { text.folder.clone().keeping() } else { text.folder.clone() };
        let mut file = text.parse(models, folder, &self.set.overrides())?;
        if file.check_runs_alone().is_ok() {
            file.lab.host.outside = true;
            file.lab.set.push("host.outside=true".to_owned());
        }
        if let Some(seed) = self.seed {
            file.lab.seed = seed;
        }
        file.lab.native = self.native.leave();
        let mut outputs = Outputs::new(self.force);
        outputs.reads(path);
        file.base.named().iter().for_each(|path| outputs.reads(path));
        let capture = outputs.claim_if("--capture", self.capture.as_deref())?;
        let record = outputs.claim_if("--record", self.record.as_deref())?;
        let assembly = lab::build(&file).map_err(Failure::Run)?;
        output::warn(assembly.warnings());
        let mut driver = Driver::new(assembly, clock);
        let [capture, record] = [capture.map(Place::open).transpose()?, record.map(Place::open).transpose()?];
        let record_limit_bytes = self.record_limit_mib.unwrap_or(RECORD_LIMIT_MIB) << 20;
        let name = text.name.display().to_string();
        if let Some(out) = &record {
            let (seed, set, files) = (file.lab.seed, file.lab.set.clone(), Some(file.base.kept()));
            let lab = RecordedLab { path: name.clone(), text: text.text, set, seed, files };
            let out = BufWriter::new(out.writer().map_err(|e| out.failed(&e))?);
            driver.record(Box::new(out), &lab, record_limit_bytes);
        }
        let capture = capture.map(|out| {
            let capture = |file| driver.assembly_mut().capture(file, CaptureOptions::default());
            out.writer().and_then(capture).map_err(|e| out.failed(&e)).map(|handle| (out, handle))
        });
        Ok(Opened { file, name, driver, capture: capture.transpose()?, record, record_limit_bytes })
    }
}

impl Opened {
    /// Ends the run, its capture and its record at `now`. Returns the size of the record, if there is one.
    pub(super) fn finish(&mut self, now: tlp::Time) -> Result<Option<RecordSize>, Failure> {
        let recorded = self.driver.finish(now);
        self.driver.assembly_mut().fabric.take_tap();
        if let Some((out, handle)) = self.capture.take() {
            handle.finish().map_err(|e| out.failed(&e))?;
            out.finish()?;
        }
        let Some(out) = self.record.take() else { return Ok(None) };
        let size = recorded.map_err(|e| out.failed(&e))?;
        out.finish()?;
        if let Some(RecordSize { left_out, .. }) = size.filter(|size| size.left_out > 0) {
            output::note(format_args!(
                "the record came to its limit of {} bytes: {left_out} inputs are not in it",
                self.record_limit_bytes
            ));
        }
        Ok(size)
    }
}
