// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser rtl speed`: what riser adds to a design under Verilator, from `riser-rtl` and `riser-lab`.

use crate::commands::labs::{self, Native, Set};
use crate::failure::Failure;
use crate::{output, progress};
use fabric::Stop;
use lab::{BuildOptions, LabFile};
use plug::site::NativeCode;
use plug::{Models, RunContext};
use rtl::Recording;
use serde::Serialize;
use session::{Session, cpu_seconds};
use std::path::PathBuf;

const EXAMPLE: &str = "\
Examples:
  riser rtl speed lab.toml --allow-native
  riser rtl speed lab.toml --allow-native --rounds 9 --json

The lab is run with its design, which is recorded: what clocks, reset and the vendor's block gave it, edge by edge. Then the lab is run \
again, and a loop in C++ without riser gives the design the same once more, in turns. Cycles of the user clock in a second of CPU time are \
medians over the rounds. --json prints one object: lab, cycles, rounds, cycles_per_cpu_second, bare_cycles_per_cpu_second, ratio.";

/// Measure how fast a lab runs its design, beside the design alone
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    /// The lab; the first of its designs is measured
    #[arg(value_name = "LAB.toml")]
    lab: PathBuf,

    /// How often it is measured
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    #[command(flatten)]
    set: Set,

    #[command(flatten)]
    native: Native,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Speed {
    lab: String,
    cycles: usize,
    rounds: u32,
    cycles_per_cpu_second: f64,
    bare_cycles_per_cpu_second: f64,
    /// Of medians, the first to the second.
    ratio: f64,
}

pub(super) fn run(args: &Args, models: &Models) -> Result<(), Failure> {
    let (file, lab) = labs::read(models, &args.lab, &args.set)?;
    let recording = Recording::default();
    let run_lab = |context| run_lab(&file, args.native.leave(), context);
    run_lab(RunContext::with(recording.clone()))?;
    let cycles = recording.cycles();
    let failed = |e: rtl::ReplayError| Failure::Run(e.to_string());
    let bar = progress::bar("{bar:40} {pos}/{len} rounds");
    bar.set_length(args.rounds.into());
    let mut seconds = [Vec::new(), Vec::new()];
    for _ in 0..args.rounds {
        seconds[0].push(run_lab(RunContext::default())?);
        let replay = recording.replay().map_err(failed)?;
        let before = cpu_seconds();
        replay.run().map_err(failed)?;
        seconds[1].push(cpu_seconds() - before);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let [with, bare] = seconds.map(|seconds| cycles as f64 / median(seconds));
    let (rounds, ratio) = (args.rounds, with / bare);
    if args.json {
        let (cycles_per_cpu_second, bare_cycles_per_cpu_second) = (with, bare);
        return output::json(&Speed {
            lab,
            cycles,
            rounds,
            cycles_per_cpu_second,
            bare_cycles_per_cpu_second,
            ratio,
        });
    }
    output::text(&format!(
        "{lab}: {cycles} cycles of its design; in a second of CPU time {:.2} M, without riser {:.2} M: {:.1} %",
        with / 1e6,
        bare / 1e6,
        100.0 * ratio
    ))
}

/// Runs the lab; CPU seconds that it took.
fn run_lab(file: &LabFile, native: NativeCode, context: RunContext) -> Result<f64, Failure> {
    let options = BuildOptions { native, context, ..BuildOptions::default() };
    let mut session = Session::with(file, options).map_err(Failure::Run)?;
    let before = cpu_seconds();
    let stop = session.run_to_end();
    let seconds = cpu_seconds() - before;
    match stop {
        Stop::Failed(_) | Stop::NoProgress(_) => Err(Failure::Run(stop.to_string())),
        _ => Ok(seconds),
    }
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}
