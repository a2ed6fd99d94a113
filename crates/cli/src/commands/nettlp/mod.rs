// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp`: the NetTLP tools, from `riser-nettlp`. A file each; nothing but naming and calling is done here.

pub(super) mod adapter;
mod bytes;
mod cfg;
mod codedump;
mod counters;
mod device;
mod kernel;
mod peer;
mod perf;
mod ps;
mod psmem;
mod read;
pub(super) mod replay;
mod snic;
mod software;
mod way;
mod write;

use crate::failure::Failure;
use clap::Subcommand;
use plug::Models;

const EXAMPLE: &str = "\
Examples:
  riser nettlp adapter --memory zero:256M --allow 127.0.0.2,all,rw
  riser nettlp read 0x1000 256 -r 192.168.10.1
  riser nettlp cfg dump -r 192.168.10.1 | lspci -F /dev/stdin -vv

Whoever serves NetTLP lets its peers read and write memory. riser's adapter serves only those that it is told of.";

/// NetTLP: devices in software, whose TLPs travel over UDP
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Subcommand)]
enum Tool {
    Adapter(Box<adapter::Args>),
    Psmem(psmem::Args),
    Read(read::Args),
    Write(write::Args),
    Perf(perf::Args),
    Cfg(cfg::Args),
    Ps(ps::Args),
    Codedump(codedump::Args),
    Snic(snic::Args),
    Device(device::Args),
    Replay(replay::Args),
}

pub(crate) fn run(args: Args, models: &Models) -> Result<(), Failure> {
    match args.tool {
        Tool::Adapter(args) => adapter::run(*args, models),
        Tool::Psmem(args) => psmem::run(args),
        Tool::Read(args) => read::run(args),
        Tool::Write(args) => write::run(args),
        Tool::Perf(args) => perf::run(args),
        Tool::Cfg(args) => cfg::run(args),
        Tool::Ps(args) => ps::run(args),
        Tool::Codedump(args) => codedump::run(args),
        Tool::Snic(args) => snic::run(args),
        Tool::Device(args) => device::run(args, models),
        Tool::Replay(args) => replay::run(args, models),
    }
}
