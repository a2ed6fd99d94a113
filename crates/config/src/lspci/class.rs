// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of classes by their code (`PCI Code and ID Assignment 1.11`).

use super::Space;

/// Base class and sub-class, and their name.
const CLASSES: [(u16, &str); 27] = [
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
    (0x0880, "System peripheral"),
    (0x0b40, "Co-processor"),
    (0x0c03, "USB controller"),
    (0x1000, "Network and computing encryption device"),
    (0x1180, "Signal processing controller"),
    (0x1200, "Processing accelerators"),
];

/// Returns the name of a function's class.
pub fn class_name(space: &Space<'_>) -> String {
    let class = space.half(0x0a);
    let known = CLASSES.iter().find(|(code, _)| *code == class);
    known.map_or_else(|| format!("Class {class:04x}"), |(_, name)| (*name).to_owned())
}
