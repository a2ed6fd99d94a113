// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser lspci`: prints the functions that enumeration finds in a lab, from `session::lspci` and `config::lspci`.

use super::labs::{self, LabOptions};
use crate::{Failure, output};
use config::lspci::{Selection, hexdump};
use plug::site::NativeCode;
use plug::{Models, RunContext};
use session::lspci::{Listing, line, listing, tree};
use std::path::PathBuf;

const EXAMPLE: &str = "\
Examples:
  riser lspci labs/ping.toml
  riser lspci labs/ping.toml -v -s 01:00.0
  riser lspci labs/ping.toml --tree -v
  riser lspci labs/ping.toml --hexdump > ping.txt && lspci -F ping.txt -vvv

Runs only the enumeration of the lab's host, no drivers. Then reads every configuration space with configuration requests, and prints \
one line per function. A lab with a root complex, switch, device or data link layer in RTL needs --allow-native. -v adds what the registers contain, in the format of `lspci -vv`, and the sizes of BARs. -vv adds every field of \
every register by its name in the specification, and the registers in BARs by the names that the model gives them. --tree draws the \
output of `lspci -t`; with -v it adds the lab's name of each device. --hexdump prints the input format of `lspci -F`.
--json prints one object:
  lab, enumeration_ns, config_requests, functions: [{bdf, path, name, slot, switch, port, model, vf_of, parent, vendor_id, \
  device_id, revision, class, class_name, command, bars: [{bar, kind (memory32, memory64, io, rom), address, size_bytes, \
  prefetchable}], bridge: {secondary, subordinate, io, memory, prefetchable: {base, size_bytes}}, link: {max_gen, \
  max_lanes, gen, lanes}, mps_bytes, mrrs_bytes, interrupt: {kind (none, intx, msi, msix), first_vector, vectors}, sriov: \
  {total_vfs, num_vfs, first_offset, stride}, capabilities: [{id, version, offset, name}], registers: [{bar, offset, bytes, \
  name}]}]
Values that a function does not have are null. version is null unless the capability is an extended one, and bar is \
null if the device has one BAR. Addresses, offsets and ids are numbers.
The exit status is 1 if enumeration fails.";

/// List the functions that enumeration finds in a lab
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Lab file; - is standard input
    #[arg(value_name = "LAB.toml")]
    lab: PathBuf,

    #[command(flatten)]
    options: LabOptions,

    /// Show the contents of registers; given twice: every field of every register
    #[arg(short, action = clap::ArgAction::Count, conflicts_with_all = ["hexdump", "json"])]
    verbose: u8,

    /// Draw the tree of buses and devices
    #[arg(long, conflicts_with_all = ["hexdump", "json", "select"])]
    tree: bool,

    /// Print configuration spaces in the format that `lspci -F` reads
    #[arg(long, conflicts_with = "json")]
    hexdump: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Show only these functions, in hexadecimal: `01:`, `01:00`, `01:00.0`, `00.0` or `.0`
    #[arg(short, value_name = "[BUS:][DEVICE][.FUNCTION]")]
    select: Option<Selection>,
}

pub(crate) fn run(args: Args, models: &Models) -> Result<(), Failure> {
    let (file, path) = labs::read(models, &args.lab, &args.options.set)?;
    let native = match args.options.native.leave() {
        NativeCode::Refused => NativeCode::NotLoaded,
        allowed => allowed,
    };
    let found = session::enumerate_with(&file, native, RunContext::default());
    let found = found.map_err(|why| Failure::Run(format!("{path}: {why}")))?;
    if args.tree {
        return output::text(tree(&found, args.verbose > 0).trim_end());
    }
    let chosen = found.select(args.select).map_err(Failure::run)?;
    if args.json {
        output::json(&Listing::of(&path, &found, &chosen, &models.registers()))
    } else if args.hexdump {
        output::text(&chosen.iter().map(|f| hexdump(&line(f, false), &f.bytes)).collect::<String>())
    } else {
        output::text(listing(&found, &chosen, args.verbose, &models.registers()).trim_end())
    }
}
