// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ports of vendors' blocks as data: what a stand-in of the same name has, and which of them riser reads and drives.
//!
//! At each edge of the user clock riser gets the values of all [`Role::Read`] ports as one vector, in the order of the table from bit 0
//! on, and gives those of all [`Role::Driven`] ports as another.

mod seven_series;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub(crate) use seven_series::{Driven, Read};

/// A vendor's block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub enum BlockKind {
    /// 7 Series Integrated Block for PCI Express (PG054): `pcie_7x`, and `pcie_s7` of LiteX; Gen2.
    #[serde(rename = "7-series")]
    SevenSeries,
}

impl BlockKind {
    /// The module's name where the design says no other.
    pub fn module(self) -> &'static str {
        match self {
            BlockKind::SevenSeries => "pcie_7x",
        }
    }

    pub(crate) fn ports(self) -> &'static [Port] {
        match self {
            BlockKind::SevenSeries => seven_series::PORTS,
        }
    }
}

/// A port of a block, by the name and width that its product guide has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    pub(crate) name: &'static str,
    pub(crate) width: Width,
    pub(crate) role: Role,
}

/// How wide a port is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Width {
    Bits(u16),
    /// As the data of the streams.
    Data,
    /// A bit for each byte of them.
    Keep,
    /// A bit for each lane of the link.
    Lanes,
}

/// What a port is to riser.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// An input that riser reads; this is its value where the instance leaves it out.
    Read(Read, u64),
    /// An input that means nothing to it.
    Ignored,
    /// An output that riser drives.
    Driven(Driven),
    /// An output that never changes.
    Constant(u64),
    /// An output that is the user clock.
    Clock,
}

impl Role {
    pub(crate) fn is_input(self) -> bool {
        matches!(self, Role::Read(..) | Role::Ignored)
    }
}

/// A block of one width.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Shape {
    pub(crate) kind: BlockKind,
    pub(crate) data_bits: u16,
    pub(crate) lanes: u16,
}

impl Shape {
    pub(crate) fn bits(self, width: Width) -> u16 {
        match width {
            Width::Bits(bits) => bits,
            Width::Data => self.data_bits,
            Width::Keep => self.data_bits / 8,
            Width::Lanes => self.lanes,
        }
    }

    /// Ports of one of both vectors, each with its first bit.
    fn laid(self, is_in: fn(Role) -> bool) -> impl Iterator<Item = (Port, u16)> {
        let ports = self.kind.ports().iter().filter(move |port| is_in(port.role));
        ports.scan(0, move |end, port| {
            let at = *end;
            *end += self.bits(port.width);
            Some((*port, at))
        })
    }

    /// What riser reads.
    pub(crate) fn read(self) -> impl Iterator<Item = (Port, u16)> {
        self.laid(|role| matches!(role, Role::Read(..)))
    }

    /// What riser drives.
    pub(crate) fn driven(self) -> impl Iterator<Item = (Port, u16)> {
        self.laid(|role| matches!(role, Role::Driven(_)))
    }

    /// Bits of both vectors: what is read, what is driven.
    pub(crate) fn sizes(self) -> [u16; 2] {
        let end = |last: Option<(Port, u16)>| last.map_or(0, |(port, at)| at + self.bits(port.width));
        [end(self.read().last()), end(self.driven().last())]
    }
}
