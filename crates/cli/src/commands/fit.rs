// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser fit`: fits a host profile to measurements, with `riser-bench`.

use crate::commands::sizes::{mps_bytes, mrrs_bytes, whole};
use crate::{Failure, output, progress};
use bench::compare::Comparison;
use bench::fit::task::{self, FitReport, Prepared, Task, provenance};
use bench::fit::{self, Input};
use bench::suite::Rule;
use files::WorkFile;
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  riser fit measured/ -o my-server.toml
  riser fit measured/*E5-2620v3* -o e5-2620v3.toml
  riser fit measured/ -o my-server.toml --like xeon-e5-2637v3 --iommu 4k
  riser bench --suite full --format pcie-bench --host my-server.toml -o predicted/
  riser compare measured/ predicted/

Fits a host profile. DIR holds results of one server in pcie-bench's public format: EXPERIMENT.csv, or \
CONFIGURATION/EXPERIMENT.csv. It can also be a table from `riser bench -o`, which names its link and its card. Give several DIRs for several modes of the server. Configurations of the published \
data are recognized by the names of their folders. For others, --iommu, --sockets, --mps and --mrrs describe the measurement.

The profile starts as a copy of --like. Figures are fitted one after another. Each is fitted on rows that depend only \
on this figure and on the figures before it. Nine figures are fitted on latencies, and the two completion gaps on read \
bandwidths. The report lists the figures that the data determine. The \
others keep their values, and their sources name their origin. If the results have no reads of lines that the device \
wrote, the root complex is fitted on reads of host-warmed or cold lines. The latency that a core or memory adds to \
these reads then keeps its value.
If a latency is below zero or more than ten times the largest of the known servers, or if no figure is determined, the \
fit fails and writes no profile. Warnings go to standard error, to JSON, and as comments into the profile. A figure \
has a warning if every server has it but the data do not determine it, if it is at its bound, or if it has not \
settled. A figure of links of another generation has a warning too; kept_gen in the profile records it, so that \
commands that use the profile also warn.
Residuals cover every row. Most bandwidth rows are among them, and were not used by the fit.
Only `riser bench --format pcie-bench` produces rows of LAT_CMD_WRRD and rows of the other socket. If the data do not \
determine a figure, the warning names the rows that are needed, and a command that measures them if there is one.

With --json, prints one object: profile, devices, warnings (if there are any), figures: [{figure, value_ps, determined, basis, reason, \
rows, last_step_ns, shown_by, known_ps: [least, greatest]}], and residuals in the format of `riser compare --json`.";

/// Fit a host profile to results of a server
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folders with results of one server
    #[arg(value_name = "DIR", required = true)]
    data: Vec<PathBuf>,

    /// Write the profile to this file
    #[arg(short, long, value_name = "PROFILE.toml")]
    output: PathBuf,

    /// Shipped host profile to start from [default: from the configuration, or else by the generation of the
    /// results: xeon-e5-2637v3 (up to Gen3), xeon-gold-6342 (Gen4), xeon-platinum-8480 (Gen5)]
    #[arg(long, value_name = "PROFILE")]
    like: Option<String>,

    /// Name of the server, for the profile's description [default: the names of its results]
    #[arg(long, value_name = "TEXT")]
    server: Option<String>,

    /// Device profile: that of the card that measured [default: the one named by a table of `riser bench -o`; nfp6000 for the public format]
    #[arg(long, value_name = "PROFILE")]
    device: Option<String>,

    /// Mode of the host's IOMMU: off, 4k, 2m or 1g, for unknown configurations that do not state it
    #[arg(long, value_name = "MODE", default_value = "off")]
    iommu: String,

    /// Sockets of device, memory and program, for unknown configurations
    #[arg(long, value_name = "D,M,P", value_delimiter = ',', default_value = "0,0,0", value_parser = whole(0..=u8::MAX))]
    sockets: Vec<u8>,

    /// Max_Payload_Size in bytes, for unknown configurations
    #[arg(long, value_name = "BYTES", default_value_t = 256, value_parser = mps_bytes::<u32>)]
    mps: u32,

    /// Max_Read_Request_Size in bytes, for unknown configurations
    #[arg(long, value_name = "BYTES", default_value_t = 512, value_parser = mrrs_bytes::<u32>)]
    mrrs: u32,

    /// Number of rows to simulate in parallel, for the residuals
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = whole::<usize>(1..=256))]
    jobs: usize,

    /// Skip the residuals, which take most of the time
    #[arg(long)]
    no_residuals: bool,

    /// Overwrite existing files
    #[arg(long)]
    force: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<(), Failure> {
    let task = args.task();
    let Prepared { inputs, like, mut profile, begun, warnings } = task.prepare()?;
    let mut outputs = output::files(args.force);
    args.data.iter().for_each(|folder| outputs.reads(folder));
    let mut out = outputs.claim("-o", &args.output)?.open()?;
    let work = WorkFile::new().map_err(|e| Failure::Run(format!("temporary copy of the profile: {e}")))?;
    let rule = Rule::quick();
    let bar = progress::spinner("{spinner} fitting, {elapsed}: {msg}");
    let fitted = fit::fit(&inputs, &mut profile, begun, &rule, work.path(), |f| {
        bar.set_message(format!("{} {} ns", f.parameter.name(), f.value_ps as f64 / 1000.0));
        bar.tick();
        Ok(())
    });
    bar.finish_and_clear();
    // Print the warnings on failure too, because they may name its cause.
    let fitted = fitted.inspect_err(|_| output::warn(&warnings))?;
    let warnings = task::warnings(&warnings, begun, &fitted);
    output::warn(&warnings);
    if let Some(why) = fit::nothing_shown(&fitted) {
        return Err(Failure::Run(format!("{}: {why}", paths(&args.data))));
    }
    profile.attribute(&provenance(&task, &inputs, &like, &warnings), &fitted);
    out.write_all(profile.text().as_bytes()).map_err(|e| out.failed(&e))?;
    out.finish()?;
    let residuals = match args.no_residuals {
        true => None,
        false => Some(residuals(&args, &inputs, &rule, work.path())?),
    };
    let path = args.output.display().to_string();
    let figures = (&fitted[..], warnings);
    output::report(args.json, &FitReport::new(path, &profile, &inputs, figures, residuals.as_ref()))
}

impl Args {
    /// Returns the task in the form that the library takes.
    fn task(&self) -> Task {
        Task {
            data: self.data.clone(),
            like: self.like.clone(),
            server: self.server.clone(),
            device: self.device.clone(),
            iommu: self.iommu.clone(),
            sockets: self.sockets.clone(),
            mps: self.mps,
            mrrs: self.mrrs,
        }
    }
}

fn paths(of: &[PathBuf]) -> String {
    of.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn residuals(args: &Args, inputs: &[Input], rule: &Rule, profile: &Path) -> Result<Comparison, Failure> {
    let bar = progress::bar("residuals: {pos}/{len} rows, {eta} left {wide_bar}");
    let compared = fit::residuals(inputs, rule, profile, args.jobs, &mut |done, of| {
        progress::set(&bar, done, of);
        Ok(())
    });
    bar.finish_and_clear();
    Ok(compared?)
}
