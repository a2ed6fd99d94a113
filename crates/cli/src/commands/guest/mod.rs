// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser guest`: runs a real kernel on a lab's fabric.

mod build;
mod cache;
mod kernel;
mod machine;
mod run;
mod serve;
mod sources;
mod torture;
mod vm_args;

use super::nettlp::replay;
use crate::Failure;
use clap::Subcommand;
use plug::Models;

const EXAMPLE: &str = "\
Examples:
  riser guest run labs/tree.toml -- lspci -tv
  riser guest serve labs/tree.toml --socket vmd.sock
  riser guest replay boot.rec --capture boot.pcapng
  riser guest build drivers/linux
  riser guest kernel 6.12-debug
  riser guest cache list
  riser guest torture labs/guest/nvme.toml --module nvme --seed 7 --workload /share/test

docs/guest.md explains how a kernel uses a lab's fabric, and what it needs.";

/// Run a real kernel in a virtual machine on a lab's fabric
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(Box<run::Args>),
    Serve(Box<serve::Args>),
    Replay(replay::Args),
    Build(build::Args),
    Kernel(kernel::Args),
    Cache(cache::Args),
    Torture(Box<torture::Args>),
}

pub(crate) fn run(args: Args, models: &Models) -> Result<(), Failure> {
    match args.command {
        Command::Run(args) => run::run(&args, models),
        Command::Serve(args) => serve::run(&args, models),
        Command::Replay(args) => replay::run(args, models),
        Command::Build(args) => build::run(&args),
        Command::Kernel(args) => kernel::run(&args),
        Command::Cache(args) => cache::run(&args),
        Command::Torture(args) => torture::run(*args, models),
    }
}
