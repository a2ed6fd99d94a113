// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ports of vendors' blocks, and of riser's own, as data: what a stand-in of the same name has, and which of them riser reads and drives.
//!
//! At each edge of the user clock riser gets the values of all [`Role::Read`] ports as one vector, in the order of the table from bit 0
//! on, and gives those of all [`Role::Driven`] ports as another.

pub(crate) mod descriptor;
pub(crate) mod seven_series;
pub(crate) mod tlp_stream;

use config::ConfigSpace;
use descriptor::Stream;
use device::seam::{Ready, Token};
use endpoint::hard_block::{DesignInput, DesignOutput, RefusedTlp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tlp::{Bdf, Class, Rate, Time};

/// A block between a front and a design: the front's TLPs in and out, and edge by edge what the design reads and drives.
pub(crate) trait Block {
    /// Words of both vectors of an edge.
    fn words(&self) -> [usize; 2];

    /// Follows the registers of a function of the front's, as software has left them.
    fn configured(&mut self, function: u16, id: Bdf, config: &ConfigSpace);

    /// Edges so far.
    fn cycle(&self) -> u64;

    /// Whether it holds the design in reset.
    fn in_reset(&self) -> bool;

    /// Time is here from now on.
    fn set_now(&mut self, now: Time);

    /// Takes what the front has for the design, but timers.
    fn handle(&mut self, input: DesignInput);

    /// A request whose last beat the design has taken.
    fn next_taken(&mut self) -> Option<Token>;

    /// What it has for the front.
    fn ready(&self) -> Ready;

    /// The next that the design sends.
    fn next_output(&mut self, class: Class) -> Option<DesignOutput>;

    /// Whether a TLP of the design that is wrong for this reason leaves as it is.
    fn sends_wrong(&self, why: &RefusedTlp) -> bool;

    /// Whether nothing is on its way in either direction.
    fn is_idle(&self) -> bool;

    /// An edge of the user clock: what it reads, and drives from now on.
    fn edge(&mut self, read: &[u32], driven: &mut [u32]);

    /// Whether it has nothing to do by itself: an edge that reads and drives the same as the one before leaves it as it is.
    fn rests(&self) -> bool;

    /// So many edges at which it rested and the design drove the same.
    fn pass(&mut self, edges: u64);

    /// Brings the report up to date.
    fn tell(&self);
}

/// A block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub enum BlockKind {
    /// 7 Series Integrated Block for PCI Express (PG054): `pcie_7x`, and `pcie_s7` of LiteX; Gen2.
    #[serde(rename = "7-series")]
    SevenSeries,
    /// Virtex-7 FPGA Gen3 Integrated Block for PCI Express (PG023): `pcie3_7x_0`.
    #[serde(rename = "virtex7-gen3")]
    Virtex7Gen3,
    /// UltraScale Devices Gen3 Integrated Block for PCI Express (PG156): `pcie3_ultrascale_0`.
    #[serde(rename = "ultrascale")]
    UltraScale,
    /// UltraScale+ Devices Integrated Block for PCI Express (PG213): `pcie4_uscale_plus_0`.
    #[serde(rename = "ultrascale-plus")]
    UltraScalePlus,
    /// TLPs as they are, on a stream each way: `riser_tlp_stream`, which is no vendor's.
    #[serde(rename = "tlp-stream")]
    TlpStream,
}

impl BlockKind {
    /// The module's name where the design says no other.
    pub fn module(self) -> &'static str {
        match self {
            BlockKind::SevenSeries => "pcie_7x",
            BlockKind::Virtex7Gen3 => "pcie3_7x_0",
            BlockKind::UltraScale => "pcie3_ultrascale_0",
            BlockKind::UltraScalePlus => "pcie4_uscale_plus_0",
            BlockKind::TlpStream => "riser_tlp_stream",
        }
    }

    /// The widest data of its streams, in bits.
    pub(crate) fn widest(self) -> u16 {
        match self {
            BlockKind::SevenSeries => 128,
            BlockKind::Virtex7Gen3 | BlockKind::UltraScale => 256,
            BlockKind::UltraScalePlus | BlockKind::TlpStream => 512,
        }
    }

    /// The highest rate of its link (PG054, PG023, PG156, PG213: "Features").
    pub(crate) fn most_rate(self) -> Rate {
        match self {
            BlockKind::SevenSeries => Rate::Gt5,
            BlockKind::Virtex7Gen3 | BlockKind::UltraScale => Rate::Gt8,
            BlockKind::UltraScalePlus => Rate::Gt16,
            BlockKind::TlpStream => Rate::Gt32,
        }
    }

    /// Lanes of its link at most.
    pub(crate) fn most_lanes(self) -> u16 {
        if matches!(self, BlockKind::UltraScalePlus | BlockKind::TlpStream) { 16 } else { 8 }
    }

    /// Tags of all functions together (PG023, PG156, PG213: "Tag Management for Non-Posted Transactions").
    pub(crate) fn tags(self) -> u16 {
        match self {
            BlockKind::Virtex7Gen3 | BlockKind::UltraScale => 64,
            BlockKind::SevenSeries | BlockKind::UltraScalePlus => 256,
            BlockKind::TlpStream => 768,
        }
    }

    /// Tags that its slot may have: those that its streams have bits for.
    pub(crate) fn most_tags(self) -> u16 {
        if self == BlockKind::TlpStream { 768 } else { 256 }
    }

    /// Physical and virtual functions that a design may have.
    pub(crate) fn legal_functions(self) -> [u16; 2] {
        match self {
            BlockKind::SevenSeries | BlockKind::TlpStream => [1, 0],
            BlockKind::Virtex7Gen3 | BlockKind::UltraScale => [2, 6],
            BlockKind::UltraScalePlus => [4, 252],
        }
    }

    /// Physical and virtual functions for which its ports have room.
    pub(crate) fn functions(self) -> [u16; 2] {
        match self {
            BlockKind::SevenSeries | BlockKind::TlpStream => [1, 0],
            BlockKind::Virtex7Gen3 => [2, 6],
            BlockKind::UltraScale => [4, 8],
            BlockKind::UltraScalePlus => [4, 252],
        }
    }

    pub(crate) fn ports(self) -> impl Iterator<Item = &'static Port> {
        let tables: &[&[Port]] = match self {
            BlockKind::SevenSeries => &[seven_series::PORTS],
            BlockKind::Virtex7Gen3 => &[descriptor::ALL, descriptor::GEN3, descriptor::VIRTEX7],
            BlockKind::UltraScale => &[descriptor::ALL, descriptor::GEN3, descriptor::ULTRASCALE],
            BlockKind::UltraScalePlus => &[descriptor::ALL, descriptor::ULTRASCALE_PLUS],
            BlockKind::TlpStream => &[tlp_stream::PORTS],
        };
        tables.iter().flat_map(|table| table.iter())
    }
}

/// Ports that riser reads, or drives, of one kind of block.
pub(crate) trait Named: Copy {
    /// Its number, as [`Role`] has it.
    fn index(self) -> usize;
}

/// Ports by their places in a list, as their [`Role`]s number them.
macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($port:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum $name { $($port),* }

        impl $crate::block::Named for $name {
            fn index(self) -> usize {
                self as usize
            }
        }
    };
}
use numbered;

/// A port of a block, by the name and width that its product guide has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    pub(crate) name: &'static str,
    pub(crate) width: Width,
    pub(crate) role: Role,
}

const fn port(name: &'static str, width: Width, role: Role) -> Port {
    Port { name, width, role }
}

/// How wide a port is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Width {
    Bits(u16),
    /// As the data of the streams.
    Data,
    /// A bit for each byte of them.
    Keep,
    /// A bit for each double-word of them.
    KeepDwords,
    /// As a stream's user signals.
    User(Stream),
    /// A bit for each lane of the link.
    Lanes,
    /// So many bits for each physical function that the block may have.
    Physical(u16),
    /// So many bits for each virtual function that it may have.
    Virtual(u16),
}

/// What a port is to riser.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// An input that riser reads, by its [number](Named); this is its value where the instance leaves it out.
    Read(u16, u64),
    /// An input that means nothing to it.
    Ignored,
    /// An output that riser drives, by its [number](Named).
    Driven(u16),
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
        let [physical, virtuals] = self.kind.functions();
        match width {
            Width::Bits(bits) => bits,
            Width::Data => self.data_bits,
            Width::Keep => self.data_bits / 8,
            Width::KeepDwords => self.data_bits / 32,
            Width::User(stream) => stream.user_bits(self),
            Width::Lanes => self.lanes,
            Width::Physical(each) => each * physical,
            Width::Virtual(each) => each * virtuals,
        }
    }

    /// Ports of one of both vectors, each with its first bit.
    fn laid(self, is_in: fn(Role) -> bool) -> impl Iterator<Item = (Port, u16)> {
        let ports = self.kind.ports().filter(move |port| is_in(port.role));
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// No kind has a port, or a number, twice; data begin at whole words, as lanes are copied.
    #[test]
    fn tables_are_sound() {
        use BlockKind::*;
        for kind in [SevenSeries, Virtex7Gen3, UltraScale, UltraScalePlus, TlpStream] {
            let (mut names, mut read, mut driven) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
            for port in kind.ports() {
                assert!(names.insert(port.name), "{kind:?}: {}", port.name);
                match port.role {
                    Role::Read(number, _) => assert!(read.insert(number), "{kind:?}: {}", port.name),
                    Role::Driven(number) => assert!(driven.insert(number), "{kind:?}: {}", port.name),
                    _ => {}
                }
            }
            let shape = Shape { kind, data_bits: 64, lanes: 8 };
            for (port, at) in shape.read().chain(shape.driven()).filter(|(port, _)| port.width == Width::Data)
            {
                assert_eq!(at % 32, 0, "{kind:?}: {}", port.name);
            }
        }
    }
}
