// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables of the ports of vendors' blocks, and of riser's own block. A table lists the ports of a stand-in module with
//! the same name, and the ports that riser reads and drives.
//!
//! At each edge of the user clock, riser receives the values of all [`Role::Read`] ports as one vector, in the order of
//! the table, from bit 0. riser returns the values of all [`Role::Driven`] ports as another vector.

pub(crate) mod descriptor;
pub(crate) mod link_frames;
pub(crate) mod root_complex;
pub(crate) mod seven_series;
pub(crate) mod switch;
pub(crate) mod tlp_stream;

use crate::common::Common;
use config::ConfigSpace;
use descriptor::Stream;
use device::seam::{Ready, Token};
use endpoint::hard_block::{DesignInput, DesignOutput, RefusedTlp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tlp::{Bdf, Class, Rate, Time};

/// A block between a front and a design: moves the front's TLPs in both directions. At every edge it handles the values
/// that the design reads and drives.
pub(crate) trait Block {
    /// Returns the sizes of the read and the driven vector, in words.
    fn words(&self) -> [usize; 2];

    /// Follows the registers of a function of the front, as software has set them.
    fn configured(&mut self, function: u16, id: Bdf, config: &ConfigSpace);

    /// Returns its time, reset and findings.
    fn common(&self) -> &Common;

    /// Returns its time, reset and findings.
    fn common_mut(&mut self) -> &mut Common;

    /// Returns the number of edges so far.
    fn cycle(&self) -> u64 {
        self.common().cycle
    }

    /// Returns true if the block holds the design in reset.
    fn in_reset(&self) -> bool {
        self.common().in_reset()
    }

    /// Sets the current time.
    fn set_now(&mut self, now: Time) {
        self.common_mut().now = now;
    }

    /// Handles an input of the front, except timers.
    fn handle(&mut self, input: DesignInput);

    /// Returns the next request whose last beat the design has accepted.
    fn next_taken(&mut self) -> Option<Token>;

    /// Returns the next output that is ready for the front.
    fn ready(&self) -> Ready;

    /// Returns the next output of the design.
    fn next_output(&mut self, class: Class) -> Option<DesignOutput>;

    /// Returns true if a TLP of the design that is wrong for this reason is sent unchanged.
    fn sends_wrong(&self, why: &RefusedTlp) -> bool;

    /// Returns true if nothing is in flight in either direction.
    fn is_idle(&self) -> bool;

    /// Handles an edge of the user clock: takes the values read, and sets those driven from now on.
    fn edge(&mut self, read: &[u32], driven: &mut [u32]);

    /// Returns true if the block is idle: an edge with the same read and driven values would not change its state.
    fn rests(&self) -> bool;

    /// Counts edges at which the block was idle and the design drove the same values.
    fn pass(&mut self, edges: u64) {
        self.common_mut().cycle += edges;
    }

    /// Returns the numbers of packets to and from the design.
    fn packets(&self) -> [u64; 2];

    /// Updates the report.
    fn tell(&self) {
        let ([packets_in, packets_out], common) = (self.packets(), self.common());
        common.status.change(|status| {
            (status.cycles, status.packets_in, status.packets_out) = (common.cycle, packets_in, packets_out);
        });
    }
}

/// Kind of a block.
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
    /// Plain TLPs, on one stream per direction: `riser_tlp_stream`, riser's own module.
    #[serde(rename = "tlp-stream")]
    TlpStream,
    /// Frames of a link, for a data link layer below a device: `riser_link_frames`, riser's own module. Only for the models `rtl-link` and `rtl-endpoint`.
    #[serde(rename = "link-frames")]
    LinkFrames,
    /// A bus and the frames of a link, for a root complex: `riser_root_complex`, riser's own module. Only for the model `rtl-root-complex`.
    #[serde(rename = "root-complex")]
    RootComplex,
    /// Frames of several links, for a switch: `riser_switch`, riser's own module. Only for the model `rtl-switch`.
    #[serde(rename = "switch")]
    Switch,
}

impl BlockKind {
    /// Returns the default name of the module.
    pub fn module(self) -> &'static str {
        match self {
            BlockKind::SevenSeries => "pcie_7x",
            BlockKind::Virtex7Gen3 => "pcie3_7x_0",
            BlockKind::UltraScale => "pcie3_ultrascale_0",
            BlockKind::UltraScalePlus => "pcie4_uscale_plus_0",
            BlockKind::TlpStream => "riser_tlp_stream",
            BlockKind::LinkFrames => "riser_link_frames",
            BlockKind::RootComplex => "riser_root_complex",
            BlockKind::Switch => "riser_switch",
        }
    }

    /// Returns the largest data width of its streams, in bits.
    pub(crate) fn widest(self) -> u16 {
        match self {
            BlockKind::SevenSeries => 128,
            BlockKind::Virtex7Gen3 | BlockKind::UltraScale => 256,
            BlockKind::UltraScalePlus
            | BlockKind::TlpStream
            | BlockKind::LinkFrames
            | BlockKind::RootComplex
            | BlockKind::Switch => 512,
        }
    }

    /// Returns the highest rate of its link (PG054, PG023, PG156, PG213: "Features").
    pub(crate) fn most_rate(self) -> Rate {
        match self {
            BlockKind::SevenSeries => Rate::Gt5,
            BlockKind::Virtex7Gen3 | BlockKind::UltraScale => Rate::Gt8,
            BlockKind::UltraScalePlus => Rate::Gt16,
            BlockKind::TlpStream | BlockKind::LinkFrames | BlockKind::RootComplex | BlockKind::Switch => {
                Rate::Gt32
            }
        }
    }

    /// Returns the largest number of lanes of its link.
    pub(crate) fn most_lanes(self) -> u16 {
        let is_narrow =
            matches!(self, BlockKind::SevenSeries | BlockKind::Virtex7Gen3 | BlockKind::UltraScale);
        if is_narrow { 8 } else { 16 }
    }

    /// Returns the number of tags of all functions together (PG023, PG156, PG213: "Tag Management for Non-Posted Transactions").
    pub(crate) fn tags(self) -> u16 {
        match self {
            BlockKind::Virtex7Gen3 | BlockKind::UltraScale => 64,
            BlockKind::SevenSeries | BlockKind::UltraScalePlus => 256,
            BlockKind::TlpStream | BlockKind::LinkFrames | BlockKind::RootComplex | BlockKind::Switch => 768,
        }
    }

    /// Returns the largest number of tags of its slot, which the streams have bits for.
    pub(crate) fn most_tags(self) -> u16 {
        if self == BlockKind::TlpStream { 768 } else { 256 }
    }

    /// Returns how many physical and virtual functions a design may have.
    pub(crate) fn legal_functions(self) -> [u16; 2] {
        match self {
            BlockKind::SevenSeries
            | BlockKind::TlpStream
            | BlockKind::LinkFrames
            | BlockKind::RootComplex
            | BlockKind::Switch => [1, 0],
            BlockKind::Virtex7Gen3 | BlockKind::UltraScale => [2, 6],
            BlockKind::UltraScalePlus => [4, 252],
        }
    }

    /// Returns for how many physical and virtual functions its ports have room.
    pub(crate) fn functions(self) -> [u16; 2] {
        match self {
            BlockKind::SevenSeries
            | BlockKind::TlpStream
            | BlockKind::LinkFrames
            | BlockKind::RootComplex
            | BlockKind::Switch => [1, 0],
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
            BlockKind::LinkFrames => &[link_frames::PORTS],
            BlockKind::RootComplex => &[root_complex::PORTS],
            BlockKind::Switch => &[switch::PORTS],
        };
        tables.iter().flat_map(|table| table.iter())
    }
}

/// Names of the ports that riser reads or drives, of one kind of block.
pub(crate) trait Named: Copy {
    /// Returns the number of the port, as used in [`Role`].
    fn index(self) -> usize;
}

/// Declares the ports that riser reads and drives, by their order in a list as numbered in their [`Role`]s, and the
/// constructors of their rows.
macro_rules! numbered {
    (Read { $($read:ident),* $(,)? } Driven { $($driven:ident),* $(,)? }) => {
        /// Inputs that riser reads.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Read { $($read),* }

        /// Outputs that riser drives.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Driven { $($driven),* }

        impl $crate::block::Named for Read {
            fn index(self) -> usize {
                self as usize
            }
        }

        impl $crate::block::Named for Driven {
            fn index(self) -> usize {
                self as usize
            }
        }

        const fn read(name: &'static str, width: $crate::block::Width, which: Read) -> $crate::block::Port {
            $crate::block::port(name, width, $crate::block::Role::Read(which as u16, 0))
        }

        const fn driven(name: &'static str, width: $crate::block::Width, which: Driven) -> $crate::block::Port {
            $crate::block::port(name, width, $crate::block::Role::Driven(which as u16))
        }
    };
}
use numbered;

/// A port of a block, with the name and width of its product guide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    pub(crate) name: &'static str,
    pub(crate) width: Width,
    pub(crate) role: Role,
}

const fn port(name: &'static str, width: Width, role: Role) -> Port {
    Port { name, width, role }
}

const fn ignored(name: &'static str, width: Width) -> Port {
    port(name, width, Role::Ignored)
}

const fn constant(name: &'static str, width: Width, value: u64) -> Port {
    port(name, width, Role::Constant(value))
}

const fn clock(name: &'static str) -> Port {
    port(name, BIT, Role::Clock)
}

impl Port {
    /// Sets the value of an input that an instance does not connect. It is 0 otherwise.
    const fn absent(mut self, value: u64) -> Port {
        if let Role::Read(number, _) = self.role {
            self.role = Role::Read(number, value);
        }
        self
    }
}

const BIT: Width = Width::Bits(1);

/// Width of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Width {
    Bits(u16),
    /// Width of the streams' data.
    Data,
    /// One bit per data byte.
    Keep,
    /// One bit per double-word of data.
    KeepDwords,
    /// Width of a stream's user signals.
    User(Stream),
    /// One bit per lane of the link.
    Lanes,
    /// This many bits per link of a switch.
    Links(u16),
    /// Width of a stream's data, per link of a switch.
    LinkData,
    /// This many bits per physical function that the block may have.
    Physical(u16),
    /// This many bits per virtual function that the block may have.
    Virtual(u16),
}

/// Use of a port by riser.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// An input that riser reads, with its [number](Named) and its value if the instance does not connect it.
    Read(u16, u64),
    /// An input that riser ignores.
    Ignored,
    /// An output that riser drives, with its [number](Named).
    Driven(u16),
    /// An output that never changes.
    Constant(u64),
    /// An output that carries the user clock.
    Clock,
}

impl Role {
    pub(crate) fn is_input(self) -> bool {
        matches!(self, Role::Read(..) | Role::Ignored)
    }
}

/// A block with its width.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Shape {
    pub(crate) kind: BlockKind,
    pub(crate) data_bits: u16,
    pub(crate) lanes: u16,
    /// Links of a switch; 1 for other kinds.
    pub(crate) links: u16,
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
            Width::Links(each) => each * self.links,
            Width::LinkData => self.data_bits * self.links,
            Width::Physical(each) => each * physical,
            Width::Virtual(each) => each * virtuals,
        }
    }

    /// Returns the ports of one of the two vectors, each with its first bit.
    fn laid(self, is_in: fn(Role) -> bool) -> impl Iterator<Item = (Port, u16)> {
        let ports = self.kind.ports().filter(move |port| is_in(port.role));
        ports.scan(0, move |end, port| {
            let at = *end;
            *end += self.bits(port.width);
            Some((*port, at))
        })
    }

    /// Returns the ports that riser reads.
    pub(crate) fn read(self) -> impl Iterator<Item = (Port, u16)> {
        self.laid(|role| matches!(role, Role::Read(..)))
    }

    /// Returns the ports that riser drives.
    pub(crate) fn driven(self) -> impl Iterator<Item = (Port, u16)> {
        self.laid(|role| matches!(role, Role::Driven(_)))
    }

    /// Returns the size of both vectors in bits: read, driven.
    pub(crate) fn sizes(self) -> [u16; 2] {
        let end = |last: Option<(Port, u16)>| last.map_or(0, |(port, at)| at + self.bits(port.width));
        [end(self.read().last()), end(self.driven().last())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// No kind has a port name or number twice. Data starts at whole words, because whole lanes are copied.
    #[test]
    fn port_names_and_numbers_are_unique() {
        use BlockKind::*;
        let streams = [TlpStream, LinkFrames, RootComplex, Switch];
        for kind in [SevenSeries, Virtex7Gen3, UltraScale, UltraScalePlus].into_iter().chain(streams) {
            let (mut names, mut read, mut driven) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
            for port in kind.ports() {
                assert!(names.insert(port.name), "{kind:?}: {}", port.name);
                match port.role {
                    Role::Read(number, _) => assert!(read.insert(number), "{kind:?}: {}", port.name),
                    Role::Driven(number) => assert!(driven.insert(number), "{kind:?}: {}", port.name),
                    _ => {}
                }
            }
            let shape = Shape { kind, data_bits: 64, lanes: 8, links: 3 };
            let is_data = |port: &Port| matches!(port.width, Width::Data | Width::LinkData);
            for (port, at) in shape.read().chain(shape.driven()).filter(|(port, _)| is_data(port)) {
                assert_eq!(at % 32, 0, "{kind:?}: {}", port.name);
            }
        }
    }
}
