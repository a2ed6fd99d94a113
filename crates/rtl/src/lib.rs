// SPDX-License-Identifier: Apache-2.0 OR MIT
//! RTL in a slot: an FPGA design with its vendor's PCI Express block, or with TLP streams, under Verilator. The design stays unchanged. A stand-in with the
//! same name and ports replaces the block's module, and connects the design to riser's front and the block's streams.
//!
//! - [`Design`]: the file of a design; [`build()`] makes a library from it with Verilator.
//! - [`Settings`]: the model `rtl` of a slot, which loads the library.
//! - `tool`, `runtime`: the programs that a build runs, and Verilator's own library.
//! - `source`, `standin`: instances in Verilog, and the modules written around them; `complaints`: Verilator's warnings about both; `netlist`, `still`: clocks
//!   without an edge.
//! - `block`, `signals`: tables of the ports of vendors' blocks.
//! - [`Recording`]: the inputs of a design, to measure what riser adds; `design_record`, `divergence`, `vcd`: comparison of two runs of a design.
//! - `seven_series`, `receive`, `status`: the 7-series block; `descriptor`: the blocks with descriptor streams; `tlp_stream`: plain TLPs, not a vendor's block;
//!   `transmit`, `common`, `kept`, `registers`: their shared parts.
//! - [`RtlEndpoint`]: the model `rtl-endpoint`, a whole device in RTL from its configuration space to its frames.
//! - [`RtlLink`]: the model `rtl-link`, a data link layer in RTL below any device; `engine`, `beats`: its design in time, its frames.
//! - [`RtlRootComplex`]: the model `rtl-root-complex`, a root complex in RTL below a host.
//! - [`RtlSwitch`]: the model `rtl-switch`, a switch in RTL between links.
//! - `space`: configuration spaces; `slot`, `clocks`: a block and the design in time; `shown`: its TLPs in the waves; `trigger`: waves that start at a TLP.
//!
//! This crate never parses an expression of Verilog, and does not depend on the function of a design.

// The name that the rigs of the fabric's tests use.
#[cfg(test)]
extern crate fabric as riser_fabric;

mod beats;
mod block;
mod build;
mod clocks;
mod common;
mod complaints;
mod data_link;
mod descriptor;
mod design;
mod design_record;
mod divergence;
mod engine;
mod events;
mod findings;
mod kept;
mod library;
mod loader;
mod model;
mod netlist;
mod receive;
mod recording;
mod registers;
mod root_complex;
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
mod switch;
mod tlp_stream;
mod tool;
mod transmit;
mod trigger;
mod vcd;

pub use block::BlockKind;
pub use build::{BuildError, Built, Options, Step, build};
pub use data_link::{RtlEndpoint, RtlLink};
pub use design::{Alignment, Block, Clock, Design, Function, Msix, Reset, Sriov, Straddle, folder};
pub use divergence::{Divergence, DivergenceError, compare_seeds};
pub use findings::DesignStatus;
pub use loader::{LoadError, RunError};
pub use model::Settings;
pub use recording::{Recording, Replay, ReplayError};
pub use root_complex::RtlRootComplex;
pub use source::{Connection, Instance, SourceError, instances};
pub use still::UndrivenClock;
pub use switch::RtlSwitch;
pub use trigger::Triggers;
