// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists the result of [`enumerate`](crate::enumerate) in the format of `lspci`, with the names of the lab. [`config::lspci`] decodes the
//! configuration spaces.
//!
//! - `names`: the names of functions; `json`: the list as one object.

mod json;
mod names;

pub use json::Listing;
pub use names::line;

use crate::{Enumerated, EnumeratedFunction, TreePosition};
use capture::{DeviceRegister, DeviceRegisters};
use config::lspci::{self, Detail, Space};
use std::fmt::Write;

/// Returns a line for each function. With `verbose` 1 it adds the decoded registers like `lspci -vv`; from 2, every field of every
/// register, and the registers in its BARs by the names in `devices`.
pub fn listing(
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
            text += &lspci::function(&space, &sizes(found, function), detail);
            if detail.fields {
                text += &own_registers(found, function, devices);
            }
            text.push('\n');
        }
    }
    text
}

/// The registers in the BARs of a function, by the names of its model.
fn own_registers(found: &Enumerated, function: &EnumeratedFunction, devices: &DeviceRegisters) -> String {
    let named = registers_of(found, function, devices);
    let mut text = String::from(if named.is_empty() { "" } else { "\tRegisters:\n" });
    for DeviceRegister { bar, offset, bytes, name } in named {
        let bar = bar.map_or_else(String::new, |bar| format!("BAR {bar} "));
        let _ = writeln!(text, "\t\t{bar}+{offset:#x}: {name}, {bytes} B");
    }
    text
}

/// The named registers of a function in a slot.
fn registers_of(
    found: &Enumerated,
    function: &EnumeratedFunction,
    devices: &DeviceRegisters,
) -> &'static [DeviceRegister] {
    let known =
        found.system.get(function.bdf).filter(|_| matches!(function.place, TreePosition::Slot { .. }));
    known.map_or(&[], |known| devices.of(known.found.vendor, known.found.device))
}

/// Bytes of the BARs and of the ROM of a function, as measured by enumeration.
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

/// Draws the tree like `lspci -t`; with names of devices, like `lspci -tv`.
pub fn tree(found: &Enumerated, named: bool) -> String {
    found.system.tree_with(|bdf| {
        let function = found.functions.iter().find(|f| f.bdf == bdf).filter(|_| named);
        function.map_or_else(String::new, |f| format!("  {}", names::name(f)))
    })
}
