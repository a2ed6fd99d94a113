// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a TOML file, checks its description of a system, and builds the system.
//!
//! - [`schema`]: the keys of the file; [`read()`] reads and checks it; [`draw()`] and [`Sketch`] draw it.
//! - [`profile`]: latencies of hosts and devices, each figure with its source.
//! - [`build()`]: joins fabric, endpoints, devices and drivers; [`Hierarchy`]: the functions below an external host.
//! - [`OneSlot`]: a lab in code, for a device of your own.
//! - [`template`]: a new crate with a model of the user's own.
//! - [`reference`](mod@reference): the pages of `docs/reference`, from the types of [`schema`] and [`profile`].
//!
//! This crate never runs the fabric that it has built, and contains no timing and no protocol. Models and outside
//! worlds register themselves; the crate does not name any of them.

pub mod faults;
mod link_schema;
pub mod links;
pub mod profile;
pub mod reference;
pub mod schema;
pub mod template;

mod boot;
mod bridges;
mod build;
mod channels;
mod deferrable;
mod design_links;
mod draw;
mod error;
mod fault_pairs;
mod fault_schema;
mod file;
mod hierarchy;
mod host_schema;
mod hosts;
mod models;
mod one_slot;
mod read;
mod root_complex;
mod switch_design;
mod switch_schema;
mod tables;
mod tree;
mod unused;
mod wrong;

pub use build::{
    Assembly, BuildOptions, JoinPoint, LinkInfo, OutsideHost, OutsideHosts, OwnProgram, ROOT_HOST, SlotInfo,
    Wakes, build,
};
pub use draw::{Sketch, SketchedEnd, SketchedHost, SketchedLink, draw};
pub use error::BuildError;
pub use file::LabFile;
pub use hierarchy::{Hierarchy, RootPort};
pub use models::{json_schema, schema as file_schema};
pub use one_slot::OneSlot;
pub use plug::file::{FileError, FileErrors, Folder, KeptFiles, Overrides};
pub use read::{Reader, parse, parse_in, parse_with, read, read_with};
pub use toml::Spanned;
pub use tree::HOT_PLUG_BUSES;
