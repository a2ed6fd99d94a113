// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Address ranges that functions need: size, alignment and the kind of bridge window.

use std::fmt;
use tlp::Bdf;

/// The owner of an address range.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum RangeOwner {
    /// A BAR, by number.
    Bar(u8),
    /// The Expansion ROM.
    Rom,
    /// The VF BARs with this number of all VFs, consecutively.
    VfBar(u8),
    /// The window of a bridge.
    Window,
}

/// The kind of bridge window that contains an address range.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Class {
    /// I/O.
    Io,
    /// Memory, below 4 GiB.
    Memory,
    /// Prefetchable memory, above 4 GiB.
    Prefetchable,
}

impl Class {
    pub(super) const ALL: [Class; 3] = [Class::Io, Class::Memory, Class::Prefetchable];

    /// Alignment and granularity of a bridge's window, in bytes (`PCIe 5.0 §7.5.1.3.6`, `§7.5.1.3.8`).
    pub(super) const fn granularity(self) -> u64 {
        match self {
            Class::Io => 4 << 10,
            Class::Memory | Class::Prefetchable => 1 << 20,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Io => "I/O",
            Class::Memory => "memory",
            Class::Prefetchable => "prefetchable memory",
        })
    }
}

/// An address range that a function needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Need {
    pub(super) bdf: Bdf,
    pub(super) seat: RangeOwner,
    pub(super) class: Class,
    /// Size in bytes.
    pub(super) size: u64,
    /// Alignment of the address, in bytes.
    pub(super) align: u64,
    pub(super) is_64: bool,
    /// The required address, if any.
    pub(super) fixed: Option<u64>,
    /// The assigned address.
    pub(super) address: u64,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Need { bdf, seat, class, size, .. } = self;
        match seat {
            RangeOwner::Bar(index) => write!(f, "function {bdf}, BAR {index} of {size:#x} bytes"),
            RangeOwner::Rom => write!(f, "function {bdf}, Expansion ROM of {size:#x} bytes"),
            RangeOwner::VfBar(index) => write!(f, "function {bdf}, VF BARs {index} of {size:#x} bytes"),
            RangeOwner::Window => write!(f, "function {bdf}, {class} window of {size:#x} bytes"),
        }
    }
}
