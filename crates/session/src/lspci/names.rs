// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of functions: their class, and their place in the lab.

use crate::{EnumeratedFunction, TreePosition};
use config::lspci::{Space, class_name};

/// The kind and the place of a function.
pub(super) fn name(function: &EnumeratedFunction) -> String {
    let to = |to: &Option<String>| to.as_ref().map_or_else(String::new, |to| format!(", to {to}"));
    match &function.place {
        TreePosition::RootPort { to: below } => format!("Riser Root Port{}", to(below)),
        TreePosition::Upstream { switch } => format!("Riser Upstream Port of {switch}"),
        TreePosition::Downstream { switch, port, to: below } => {
            format!("Riser Downstream Port {port} of {switch}{}", to(below))
        }
        TreePosition::Slot { slot, model, vf_of: None } => format!("{slot} ({model})"),
        TreePosition::Slot { slot, model, vf_of: Some(pf) } => format!("{slot} ({model}), VF of {pf}"),
        TreePosition::Unnamed => {
            let space = Space(&function.bytes);
            format!("Device {:04x}:{:04x}", space.half(0), space.half(2))
        }
    }
}

/// Base class and sub-class of non-volatile memory.
const NVM: u16 = 0x0108;

/// Returns the line of a function; if `verbose`, with its programming interface.
pub fn line(function: &EnumeratedFunction, verbose: bool) -> String {
    let space = Space(&function.bytes);
    let interface = match space.byte(9) {
        0 if space.is_bridge() && verbose => " (prog-if 00 [Normal decode])".to_owned(),
        0 => String::new(),
        2 if space.half(0x0a) == NVM && verbose => " (prog-if 02 [NVM Express])".to_owned(),
        n if verbose => format!(" (prog-if {n:02x})"),
        _ => String::new(),
    };
    let (bdf, revision) = (function.bdf, space.byte(8));
    format!("{bdf} {}: {} (rev {revision:02x}){interface}", class_name(&space), name(function))
}
