// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser rtl`: FPGA designs in slots, from `riser-rtl` and `riser-worlds`.

use super::labs::{self, LabOptions};
use crate::commands::sizes::whole;
use crate::{Failure, output, progress};
use clap::Subcommand;
use plug::Models;
use rtl::{Divergence, Options, Step};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;
use worlds::designs::{self, DesignSpeed};

const EXAMPLES: &str = "\
Examples:
  riser rtl build litepcie.toml
  riser rtl seeds lab.toml --allow-native
  riser rtl speed lab.toml --allow-native";

/// Build FPGA designs for a slot, and test and measure them
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Build(Build),
    Seeds(Seeds),
    Speed(Speed),
}

pub(crate) fn run(args: &Args, models: &Models) -> Result<(), Failure> {
    match &args.command {
        Command::Build(args) => build(args),
        Command::Seeds(args) => seeds(args, models),
        Command::Speed(args) => speed(args, models),
    }
}

const BUILD_EXAMPLES: &str = "\
Examples:
  riser rtl build litepcie.toml
  riser rtl build litepcie.toml --waves
  riser run lab.toml --allow-native

The lab has device = \"rtl\" and rtl.design = \"litepcie.toml\" in a slot. The design is not changed. A stand-in with the ports of the design's instance replaces the module of the vendor's block, and \
behavioral models replace missing primitives. All output goes to the folder riser-rtl next to the file. The path of the library goes to standard output; clocks that never have an edge go to standard error; --json prints one object: design, library, still_clocks.
block.kind of the file is 7-series, virtex7-gen3, ultrascale or ultrascale-plus. It is tlp-stream for a design without a vendor's block: an instance of riser_tlp_stream then sends and receives TLPs. \
It is link-frames, root-complex or switch for a design with a data link layer, a root complex or a switch of its own: docs/external.md.
Required are verilator (VERILATOR names another), a C++ compiler (CXX), make (MAKE) and zlib. These variables may have arguments: CXX=\"ccache g++\".";

/// Build the library of a design, with Verilator
#[derive(clap::Args)]
#[command(after_help = BUILD_EXAMPLES)]
struct Build {
    /// Design file
    #[arg(value_name = "DESIGN.toml")]
    design: PathBuf,

    /// Include all signals, for a wave file; the design runs slower
    #[arg(long)]
    waves: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct BuildReport {
    design: PathBuf,
    library: PathBuf,
    /// Clocks of the design that never have an edge, each with its source location.
    still_clocks: Vec<String>,
}

fn build(Build { design, waves, json }: &Build) -> Result<(), Failure> {
    let bar = progress::spinner("{spinner} {elapsed} {msg}");
    bar.enable_steady_tick(Duration::from_millis(200));
    let mut told = |step: Step| {
        bar.set_message(match step {
            Step::Verilator => "Verilator, and the compiler for its output",
            Step::Link => "the library",
        });
    };
    let built = rtl::build(design, &Options { waves: *waves }, &mut told);
    bar.finish_and_clear();
    let rtl::Built { library, still_clocks } = built.map_err(Failure::run)?;
    if still_clocks.is_none() {
        output::note(
            "warning: cannot check for clocks that never have an edge: this Verilator has no --xml-only",
        );
    }
    let still_clocks: Vec<String> = still_clocks.iter().flatten().map(ToString::to_string).collect();
    output::warn(&still_clocks);
    match json {
        true => output::json(&BuildReport { design: design.clone(), library, still_clocks }),
        false => output::text(&library.display().to_string()),
    }
}

const SEEDS_EXAMPLES: &str = "\
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
#[command(after_help = SEEDS_EXAMPLES)]
struct Seeds {
    /// Lab file
    #[arg(value_name = "LAB.toml")]
    lab: PathBuf,

    /// Number of initial values
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = whole::<u64>(2..=1000))]
    seeds: u64,

    #[command(flatten)]
    options: LabOptions,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct SeedsReport {
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

fn seeds(args: &Seeds, models: &Models) -> Result<(), Failure> {
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
        output::json(&SeedsReport { lab, seeds: args.seeds, parts })?;
    } else if said.is_none() {
        output::text(&format!("{lab}: {} initial values, same outputs of its designs", args.seeds))?;
    }
    said.map_or(Ok(()), |said| Err(Failure::Run(said)))
}

const SPEED_EXAMPLES: &str = "\
Examples:
  riser rtl speed lab.toml --allow-native
  riser rtl speed lab.toml --allow-native --rounds 9 --json

Runs the lab once, and records the inputs of its design at each edge. Inputs are the clocks, the reset and the outputs of the vendor's block. Then alternates between the lab \
and a C++ loop without riser that replays these inputs. Cycles of the user clock per second of CPU time are \
medians over the rounds. --json prints one object: lab, cycles, rounds, cycles_per_cpu_second, bare_cycles_per_cpu_second, ratio.";

/// Measure the speed of a lab's design, compared with the design alone
#[derive(clap::Args)]
#[command(after_help = SPEED_EXAMPLES)]
struct Speed {
    /// Lab file; its first design is measured
    #[arg(value_name = "LAB.toml")]
    lab: PathBuf,

    /// Number of measurements
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole::<u32>(1..=1000))]
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

fn speed(args: &Speed, models: &Models) -> Result<(), Failure> {
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
