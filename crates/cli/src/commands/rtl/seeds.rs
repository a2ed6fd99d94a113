// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser rtl seeds`: checks if uninitialized registers affect a design's outputs, from `riser-rtl` and `riser-worlds`.

use crate::commands::labs::{self, LabOptions};
use crate::failure::Failure;
use crate::output;
use plug::Models;
use rtl::Divergence;
use serde::Serialize;
use std::path::PathBuf;
use worlds::designs;

const EXAMPLE: &str = "\
Examples:
  riser rtl build design.toml --waves
  riser rtl seeds lab.toml --allow-native
  riser rtl seeds lab.toml --allow-native --seeds 8 --json

Runs the same lab several times. Registers that no reset of a design sets (an X in a four-state simulator) have other initial values in each run. All else, including the lab's seed, is the same. The outputs of each design (TLPs and interrupts, \
with their cycles) must be the same. If the outputs of two runs differ, the exit status is 1. The report then has the first different output, and the first ports of the block that differ, with the lines of their connections. If the \
design is built with --waves and fst2vcd (of GTKWave) is installed, riser also reports registers that differ from the start and reach those ports, with their source locations. A register of one bit starts with the same value in half of all pairs \
of runs, so more seeds find more. --json prints one object: lab, seeds, parts: {slot, seeds, what, ports, registers, note} or null.";

/// Run a lab with several initial values of its designs, and report where the runs differ
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    /// Lab file
    #[arg(value_name = "LAB.toml")]
    lab: PathBuf,

    /// Number of initial values
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(2..=1000))]
    seeds: u64,

    #[command(flatten)]
    options: LabOptions,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Seeds {
    lab: String,
    seeds: u64,
    parts: Option<Parts>,
}

#[derive(Serialize)]
struct Parts {
    slot: String,
    #[serde(flatten)]
    divergence: Divergence,
}

pub(super) fn run(args: &Args, models: &Models) -> Result<(), Failure> {
    let (file, lab) = labs::read(models, &args.lab, &args.options.set)?;
    file.check_runs_alone().map_err(Failure::run)?;
    let divergence =
        designs::compare_seeds(&file, args.options.native.leave(), args.seeds).map_err(Failure::run)?;
    let slot = |n: usize| {
        let mut designs = file.lab.slot.iter().filter(|slot| slot.device.get_ref() == "rtl");
        designs.nth(n).map_or_else(|| n.to_string(), |slot| slot.name.get_ref().clone())
    };
    let said = divergence
        .as_ref()
        .map(|divergence| format!("{lab}: slot {}: {divergence}", slot(divergence.design)));
    if args.json {
        let parts = divergence.map(|divergence| Parts { slot: slot(divergence.design), divergence });
        output::json(&Seeds { lab, seeds: args.seeds, parts })?;
    } else if said.is_none() {
        output::text(&format!("{lab}: {} initial values, same outputs of its designs", args.seeds))?;
    }
    said.map_or(Ok(()), |said| Err(Failure::Run(said)))
}
