// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp`: the NetTLP tools, from `riser-nettlp`, one file per tool; `ps` and `codedump` are in `kernel`.

pub(super) mod adapter;
mod bytes;
mod cfg;
mod device;
mod kernel;
mod peer;
mod perf;
mod psmem;
mod read;
pub(super) mod replay;
mod snic;
mod target;
mod write;

use crate::{Failure, output};
use clap::Subcommand;
use nettlp::carrier::Carrier;
use nettlp::tools::{Attachment, Target};
use plug::Models;

const EXAMPLE: &str = "\
Examples:
  riser nettlp adapter --memory zero:256M --allow 127.0.0.2,all,rw
  riser nettlp read 0x1000 256 -r 192.168.10.1
  riser nettlp cfg dump -r 192.168.10.1 | lspci -F /dev/stdin -vv

A NetTLP adapter lets its peers read and write memory. The adapter of riser serves only the peers of --allow.";

/// Exchange TLPs over UDP as NetTLP does: adapters, device software and tools
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
    Ps(kernel::Ps),
    Codedump(kernel::Codedump),
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
        Tool::Ps(args) => kernel::ps(&args),
        Tool::Codedump(args) => kernel::codedump(&args),
        Tool::Snic(args) => snic::run(args),
        Tool::Device(args) => device::run(args, models),
        Tool::Replay(args) => replay::run(args, models),
    }
}

/// Prints the BAR address and carrier of device software to standard error.
fn report_attachment(what: &str, bar: &str, Attachment { carrier, place, .. }: &Attachment) {
    let way = if carrier.is_reliable() { "a session" } else { "a port per tag" };
    output::note(format_args!("{what}, {bar} at {:#x}, over {way}; Ctrl-C ends it", place.address));
}

/// Prints to standard error that device software waits for its adapter, if the adapter has gone.
fn report_lost_adapter(target: &Target, has_gone: bool) {
    if has_gone {
        output::note(format_args!("the adapter at {} does not answer; waiting for it", target.remote));
    }
}
