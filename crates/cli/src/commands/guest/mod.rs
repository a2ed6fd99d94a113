// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser guest`: a real kernel on a lab's fabric. Nothing but naming is done here.

mod hexdump;
mod machine;
mod run;
mod seat;
mod serve;

use super::nettlp::replay;
use crate::failure::Failure;
use clap::Subcommand;
use plug::Models;

/// A real kernel, in a virtual machine, on a lab's fabric
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(Box<run::Args>),
    Serve(Box<serve::Args>),
    Replay(replay::Args),
}

pub(crate) fn run(args: Args, models: &Models) -> Result<(), Failure> {
    match args.command {
        Command::Run(args) => run::run(&args, models),
        Command::Serve(args) => serve::run(&args, models),
        Command::Replay(args) => replay::run(args, models),
    }
}
