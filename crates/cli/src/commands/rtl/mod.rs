// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser rtl`: FPGA designs in slots, from `riser-rtl`.

mod build;
mod seeds;
mod speed;

use crate::failure::Failure;
use clap::Subcommand;
use plug::Models;

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
    Build(build::Args),
    Seeds(seeds::Args),
    Speed(speed::Args),
}

pub(crate) fn run(args: &Args, models: &Models) -> Result<(), Failure> {
    match &args.command {
        Command::Build(args) => build::run(args),
        Command::Seeds(args) => seeds::run(args, models),
        Command::Speed(args) => speed::run(args, models),
    }
}
