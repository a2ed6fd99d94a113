// SPDX-License-Identifier: Apache-2.0 OR MIT
//! RTL in a slot: a design for an FPGA with its vendor's PCI Express block, or streams of TLPs, under Verilator. The design stays as it is; the block's module is
//! replaced by a stand-in of the same name and ports, behind which riser's front and the block's streams are.
//!
//! - [`Design`]: the file of a design; [`build()`] makes a library of it, with Verilator;
//! - [`Settings`]: the model `rtl` of a slot, which loads that;
//! - `tool`, `runtime`: the programs that a build runs, and Verilator's own library;
//! - `source`, `standin`: instances in Verilog, and what is written around them; `complaints`: what Verilator says of both; `netlist`,
//!   `still`: clocks without an edge;
//! - `block`, `signals`: the ports of vendors' blocks, as data;
//! - [`Recording`]: what a design is given, to measure what riser adds; `trail`, `parting`, `vcd`: two runs of a design, compared;
//! - `seven_series`, `receive`, `status`: the 7-series block; `descriptor`: those with streams of descriptors; `tlp_stream`: TLPs as they are,
//!   of no vendor's block; `transmit`, `common`, `kept`, `registers`: what they share;
//! - `space`: configuration spaces; `slot`, `clocks`: a block and the design in time; `shown`: its TLPs in the waves; `trigger`: waves from a TLP on.
//!
//! Never parses an expression of Verilog, and never knows what a design does.

mod block;
mod build;
mod clocks;
mod common;
mod complaints;
mod descriptor;
mod design;
mod findings;
mod kept;
mod loader;
mod model;
mod netlist;
mod parting;
mod receive;
mod recording;
mod registers;
mod runtime;
mod seven_series;
mod shown;
mod signals;
mod slot;
mod source;
mod space;
mod standin;
mod status;
mod still;
mod tlp_stream;
mod tool;
mod trail;
mod transmit;
mod trigger;
mod vcd;

pub use block::BlockKind;
pub use build::{BuildError, Built, Options, Step, build};
pub use design::{Alignment, Block, Clock, Design, Function, Msix, Reset, Sriov, Straddle, folder};
pub use findings::Told;
pub use model::Settings;
pub use parting::{Parting, compare_seeds};
pub use recording::{Recording, Replay, ReplayError};
pub use source::{Connection, Instance, SourceError, instances};
pub use still::StillClock;
pub use trigger::Triggers;
