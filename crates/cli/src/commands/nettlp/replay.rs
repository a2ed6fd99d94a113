// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp replay` and `riser guest replay`: run a lab again with its recorded inputs, from `riser-session`.

use crate::commands::labs::{self, LabOptions};
use crate::{Failure, input, interrupt, output, progress};
use lab::LabFile;
use plug::Models;
use session::CaptureOptions;
use session::external::{RecordEnd, RecordedLab, Replay};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use worlds::opening::CaptureFile;

const EXAMPLE: &str = "\
Examples:
  riser nettlp adapter labs/nettlp/host.toml --allow 127.0.0.2,all,rw \\
    --record run.rec --capture live.pcapng
  riser nettlp replay run.rec --capture again.pcapng   # as live.pcapng
  riser nettlp replay run.rec --lab labs/nettlp/host.toml   # checks the lab
  riser guest run labs/tree.toml --record boot.rec -- lspci
  riser guest replay boot.rec --capture boot.pcapng   # without QEMU

Runs the lab of the record, with the files that the lab names, and applies every recorded input at its virtual time; NetTLP has \
no such program. A truncated record, whose writer was killed, is run to its end and is an error.
--json prints one object: record, lab, seed, inputs, complete (false: the record is truncated or full, or the lab failed), full
  (true: the record reached its size limit), simulated_ns, tlp_hops, failure (why the lab failed, or where the record is \
  truncated; the exit status is then 1), devices: [{slot, model, counters: {...}}]";

/// Replay a record of an adapter with a lab, or of a guest
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// File of --record of `riser nettlp adapter` or `riser guest`
    #[arg(value_name = "FILE")]
    record: PathBuf,

    /// Refuse the record unless it was made with this lab in its present form
    #[arg(long, value_name = "LAB.toml")]
    lab: Option<PathBuf>,

    #[command(flatten)]
    options: LabOptions,

    /// Write all TLPs to this pcapng file
    #[arg(long, value_name = "OUT.pcapng")]
    capture: Option<PathBuf>,

    /// Overwrite existing files
    #[arg(long)]
    force: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args, models: &Models) -> Result<(), Failure> {
    let named = |e: &dyn std::fmt::Display| failed(input::name(&args.record), e);
    let stop = interrupt::flag()?;
    let bytes =
        input::bytes_of(&args.record, session::external::RECORD_HEAD_BYTES, session::external::is_record)?;
    let mut replay =
        Replay::with_native(&bytes, models, args.options.native.leave()).map_err(|e| named(&e))?;
    args.check_lab(replay.lab(), models)?;
    let name = replay.lab().path.clone();
    let capture = match &args.capture {
        None => None,
        Some(path) => {
            let mut outputs = output::files(args.force);
            outputs.reads(&args.record);
            let place = outputs.claim("--capture", path)?;
            Some(CaptureFile::open(place, replay.session_mut(), CaptureOptions::default())?)
        }
    };
    let bar = progress::spinner("{spinner} {elapsed} {msg}");
    let replayed = replay.run_while(|now| {
        bar.set_message(format!("{:.3} us simulated", now.as_ps() as f64 / 1e6));
        !stop.load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    let mut replayed = replayed.map_err(|e| named(&e))?;
    if let Some(capture) = capture {
        capture.finish(&mut replayed.session)?;
    }
    let report = replayed.report(input::name(&args.record).display().to_string(), name);
    output::report(args.json, &report)?;
    match (report.failure, &replayed.end) {
        (Some(why), _) => Err(named(&why)),
        (None, RecordEnd::Stopped) => Err(Failure::interrupted_at(report.simulated_ns)),
        (None, _) => Ok(()),
    }
}

impl Args {
    /// Checks that the record was made with the lab of `--lab`.
    fn check_lab(&self, recorded: &RecordedLab, models: &Models) -> Result<(), Failure> {
        let set = self.options.set.overrides();
        let Some(path) = &self.lab else {
            let idle = !set.given().is_empty();
            return if idle {
                Err(Failure::usage("--set needs --lab: a record has its own settings"))
            } else {
                Ok(())
            };
        };
        let text = labs::text(path)?;
        let LabFile { lab, base } = text.parse(models, text.folder.clone().keeping(), &set)?;
        // The seed may have been given on the command line.
        let seed = recorded.seed;
        let (path, files) = (text.name.display().to_string(), Some(base.kept()));
        let named = RecordedLab { path, text: text.text, set: lab.set, seed, files };
        recorded.check_same(&named).map_err(|e| failed(input::name(&self.record), &e))
    }
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::Run(format!("{}: {error}", path.display()))
}
