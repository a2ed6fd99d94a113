// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser lspci`: what enumeration finds in a lab, from `riser-lab`, in the manner of `lspci`.
//!
//! - [`decode`]: configuration spaces in words; [`names`]: what functions are called; [`select`]: which are shown;
//! - [`json`]: the same as one object.

mod decode;
mod json;
mod names;
mod select;

#[cfg(test)]
mod tests;

use super::labs::{self, Set};
use crate::failure::Failure;
use crate::output;
use capture::{DeviceRegister, DeviceRegisters};
use decode::Detail;
use decode::space::Space;
use lab::{Enumerated, EnumeratedFunction, Place};
use plug::Models;
use select::Selection;
use std::fmt::Write;
use std::path::PathBuf;

const EXAMPLE: &str = "\
Examples:
  riser lspci labs/ping.toml
  riser lspci labs/ping.toml -v -s 01:00.0
  riser lspci labs/ping.toml --tree -v
  riser lspci labs/ping.toml --hexdump > ping.txt && lspci -F ping.txt -vvv

Runs the enumeration of the lab's host and nothing else: no driver. Then every configuration space is read, by \
configuration requests, and shown: a line for each function; with -v what its registers say, in the words of `lspci -vv`, \
and the sizes of BARs; with -vv every field of every register too, by its name in the specification, and the registers on its BARs \
by the names that its model gives them. --tree draws what \
`lspci -t` draws, with -v what the lab calls each device. --hexdump is what `lspci -F` reads.
--json prints one object:
  lab, enumeration_ns, config_requests, functions: [{bdf, path, name, slot, switch, port, model, vf_of, parent, vendor_id, \
  device_id, revision, class, class_name, command, bars: [{bar, kind (memory32, memory64, io, rom), address, size_bytes, \
  prefetchable}], bridge: {secondary, subordinate, io, memory, prefetchable: {base, size_bytes}}, link: {max_gen, \
  max_lanes, gen, lanes}, mps_bytes, mrrs_bytes, interrupt: {kind (none, intx, msi, msix), first_vector, vectors}, sriov: \
  {total_vfs, num_vfs, first_offset, stride}, capabilities: [{id, version, offset, name}], registers: [{bar, offset, bytes, \
  name}]}]
What a function does not have is null; version is null where a capability is not an extended one, bar where a device has \
one BAR. Addresses, offsets and ids \
are numbers.
The exit status is 1 where enumeration fails.";

/// Show what enumeration finds in a lab
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The lab file; - is standard input
    #[arg(value_name = "LAB.toml")]
    lab: PathBuf,

    #[command(flatten)]
    set: Set,

    /// Show what registers say; twice: every field of every register
    #[arg(short, action = clap::ArgAction::Count, conflicts_with_all = ["hexdump", "json"])]
    verbose: u8,

    /// Draw the tree
    #[arg(long, conflicts_with_all = ["hexdump", "json", "select"])]
    tree: bool,

    /// Print configuration spaces as `lspci -F` reads them
    #[arg(long, conflicts_with = "json")]
    hexdump: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Only these functions, in hexadecimal: `01:`, `01:00`, `01:00.0`, `00.0` or `.0`
    #[arg(short, value_name = "[BUS:][DEVICE][.FUNCTION]")]
    select: Option<Selection>,
}

pub(crate) fn run(args: Args, models: &Models) -> Result<(), Failure> {
    let (file, path) = labs::read(models, &args.lab, &args.set)?;
    let found = lab::enumerate(&file).map_err(|why| Failure::Run(format!("{path}: {why}")))?;
    if args.tree {
        return output::text(tree(&found, args.verbose > 0).trim_end());
    }
    let chosen = chosen(&found, args.select)?;
    if args.json {
        output::json(&json::Listing::of(&path, &found, &chosen, &models.registers()))
    } else if args.hexdump {
        output::text(&chosen.iter().map(|f| hexdump(&names::line(f, false), &f.bytes)).collect::<String>())
    } else {
        output::text(listing(&found, &chosen, args.verbose, &models.registers()).trim_end())
    }
}

fn chosen(found: &Enumerated, selection: Option<Selection>) -> Result<Vec<&EnumeratedFunction>, Failure> {
    let Some(selection) = selection else { return Ok(found.functions.iter().collect()) };
    let chosen: Vec<_> = found.functions.iter().filter(|f| selection.takes(f.bdf)).collect();
    if chosen.is_empty() {
        let (first, last) = (found.functions.first(), found.functions.last());
        let there = match (first, last) {
            (Some(first), Some(last)) => {
                format!("there are {} functions, {} to {}", found.functions.len(), first.bdf, last.bdf)
            }
            _ => "there is no function at all".to_owned(),
        };
        return Err(Failure::Run(format!("no function {selection}: {there}")));
    }
    Ok(chosen)
}

fn listing(
    found: &Enumerated,
    chosen: &[&EnumeratedFunction],
    verbose: u8,
    devices: &DeviceRegisters,
) -> String {
    let mut text = String::new();
    for function in chosen {
        let space = Space(&function.bytes);
        let _ = writeln!(text, "{}", names::line(function, verbose > 0));
        if verbose > 0 {
            let detail = Detail { fields: verbose > 1 };
            text += &decode::function(&space, &sizes(found, function), detail);
            if detail.fields {
                text += &own_registers(found, function, devices);
            }
            text.push('\n');
        }
    }
    text
}

/// The registers on the BARs of a function, by the names that its model gives them.
fn own_registers(found: &Enumerated, function: &EnumeratedFunction, devices: &DeviceRegisters) -> String {
    let named = registers_of(found, function, devices);
    let mut text = String::from(if named.is_empty() { "" } else { "\tRegisters:\n" });
    for DeviceRegister { bar, offset, bytes, name } in named {
        let bar = bar.map_or_else(String::new, |bar| format!("BAR {bar} "));
        let _ = writeln!(text, "\t\t{bar}+{offset:#x}: {name}, {bytes} B");
    }
    text
}

/// Of a function in a slot, what its model calls its registers.
fn registers_of(
    found: &Enumerated,
    function: &EnumeratedFunction,
    devices: &DeviceRegisters,
) -> &'static [DeviceRegister] {
    let known = found.system.get(function.bdf).filter(|_| matches!(function.place, Place::Slot { .. }));
    known.map_or(&[], |known| devices.of(known.found.vendor, known.found.device))
}

/// Bytes of the BARs and of the ROM of a function, as enumeration has measured them.
fn sizes(found: &Enumerated, function: &EnumeratedFunction) -> [u64; 7] {
    let mut sizes = [0; 7];
    // BARs of virtual functions read zero.
    if let Some(known) = found.system.get(function.bdf).filter(|f| f.vf_of.is_none()) {
        let bars = known.found.bars.iter().zip(&known.found.io_bars).map(|(memory, io)| memory.or(*io));
        for (size, bar) in sizes.iter_mut().zip(bars.chain([known.rom])) {
            *size = bar.map_or(0, |b| b.size);
        }
    }
    sizes
}

/// As `lspci -t`; with what devices are called, as `lspci -tv`.
fn tree(found: &Enumerated, named: bool) -> String {
    found.system.tree_with(|bdf| {
        let function = found.functions.iter().find(|f| f.bdf == bdf).filter(|_| named);
        function.map_or_else(String::new, |f| format!("  {}", names::name(f)))
    })
}

/// A configuration space as `lspci -F` reads it, below a line that names the function.
pub(in crate::commands) fn hexdump(name: &str, space: &[u8]) -> String {
    let mut text = format!("{name}\n");
    for (line, bytes) in space.chunks(16).enumerate() {
        let _ = write!(text, "{:02x}:", line * 16);
        for byte in bytes {
            let _ = write!(text, " {byte:02x}");
        }
        text.push('\n');
    }
    text.push('\n');
    text
}
