// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser rtl speed`: measures the overhead of riser over a design under Verilator, from `riser-rtl` and `riser-worlds`.

use crate::commands::labs::{self, LabOptions};
use crate::failure::Failure;
use crate::{output, progress};
use plug::Models;
use serde::Serialize;
use std::path::PathBuf;
use worlds::designs::DesignSpeed;

const EXAMPLE: &str = "\
Examples:
  riser rtl speed lab.toml --allow-native
  riser rtl speed lab.toml --allow-native --rounds 9 --json

Runs the lab once, and records the inputs of its design at each edge. Inputs are the clocks, the reset and the outputs of the vendor's block. Then alternates between the lab \
and a C++ loop without riser that replays these inputs. Cycles of the user clock per second of CPU time are \
medians over the rounds. --json prints one object: lab, cycles, rounds, cycles_per_cpu_second, bare_cycles_per_cpu_second, ratio.";

/// Measure the speed of a lab's design, compared with the design alone
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    /// Lab file; its first design is measured
    #[arg(value_name = "LAB.toml")]
    lab: PathBuf,

    /// Number of measurements
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    #[command(flatten)]
    options: LabOptions,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct SpeedReport {
    lab: String,
    #[serde(flatten)]
    speed: DesignSpeed,
}

pub(super) fn run(args: &Args, models: &Models) -> Result<(), Failure> {
    let (file, lab) = labs::read(models, &args.lab, &args.options.set)?;
    let bar = progress::bar("{bar:40} {pos}/{len} rounds");
    bar.set_length(args.rounds.into());
    let speed = DesignSpeed::measure(&file, args.options.native.leave(), args.rounds, || bar.inc(1));
    bar.finish_and_clear();
    let speed = speed.map_err(Failure::run)?;
    if args.json {
        return output::json(&SpeedReport { lab, speed });
    }
    output::text(&format!(
        "{lab}: {} cycles of its design; {:.2} M per second of CPU time, {:.2} M without riser: {:.1} %",
        speed.cycles,
        speed.cycles_per_cpu_second / 1e6,
        speed.bare_cycles_per_cpu_second / 1e6,
        100.0 * speed.ratio
    ))
}
