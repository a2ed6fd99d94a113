// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What functions are called: their class by its code (`PCI Code and ID Assignment 1.11`), their place by the lab.

use super::decode::space::Space;
use crate::{EnumeratedFunction, Place};

/// Base class and sub-class, and their name.
const CLASSES: [(u16, &str); 24] = [
    (0x0100, "SCSI storage controller"),
    (0x0101, "IDE interface"),
    (0x0106, "SATA controller"),
    (0x0107, "Serial Attached SCSI controller"),
    (0x0108, "Non-Volatile memory controller"),
    (0x0180, "Mass storage controller"),
    (0x0200, "Ethernet controller"),
    (0x0207, "Infiniband controller"),
    (0x0208, "Fabric controller"),
    (0x0280, "Network controller"),
    (0x0300, "VGA compatible controller"),
    (0x0302, "3D controller"),
    (0x0403, "Audio device"),
    (0x0500, "RAM memory"),
    (0x0502, "CXL"),
    (0x0580, "Memory controller"),
    (0x0600, "Host bridge"),
    (0x0601, "ISA bridge"),
    (0x0604, "PCI bridge"),
    (0x0680, "Bridge"),
    (0x0700, "Serial controller"),
    (0x0c03, "USB controller"),
    (0x1000, "Network and computing encryption device"),
    (0x1200, "Processing accelerators"),
];

/// The name of a class.
pub(super) fn class(space: &Space<'_>) -> String {
    let class = space.half(0x0a);
    let known = CLASSES.iter().find(|(code, _)| *code == class);
    known.map_or_else(|| format!("Class {class:04x}"), |(_, name)| (*name).to_owned())
}

/// What a function is and where.
pub(super) fn name(function: &EnumeratedFunction) -> String {
    let to = |to: &Option<String>| to.as_ref().map_or_else(String::new, |to| format!(", to {to}"));
    match &function.place {
        Place::RootPort { to: below } => format!("Riser Root Port{}", to(below)),
        Place::Upstream { switch } => format!("Riser Upstream Port of {switch}"),
        Place::Downstream { switch, port, to: below } => {
            format!("Riser Downstream Port {port} of {switch}{}", to(below))
        }
        Place::Slot { slot, model, vf_of: None } => format!("{slot} ({model})"),
        Place::Slot { slot, model, vf_of: Some(pf) } => format!("{slot} ({model}), VF of {pf}"),
        Place::Unnamed => {
            let space = Space(&function.bytes);
            format!("Device {:04x}:{:04x}", space.half(0), space.half(2))
        }
    }
}

/// The line of a function, with its programming interface where `verbose`.
pub fn line(function: &EnumeratedFunction, verbose: bool) -> String {
    let space = Space(&function.bytes);
    let interface = match space.byte(9) {
        0 if space.is_bridge() && verbose => " (prog-if 00 [Normal decode])".to_owned(),
        0 => String::new(),
        n if verbose => format!(" (prog-if {n:02x})"),
        _ => String::new(),
    };
    let (bdf, revision) = (function.bdf, space.byte(8));
    format!("{bdf} {}: {} (rev {revision:02x}){interface}", class(&space), name(function))
}
