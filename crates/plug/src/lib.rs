// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be plugged into a lab: a [`Model`] is a table of settings from which a device, its driver and its report
//! are made. A lab is given the [`Models`] that it may name.
//!
//! - [`Model`]: the trait of a model, [`Models`]: the table of those available;
//! - [`plugged`]: what a model makes: the device at the end of the link, and what the host does for it;
//! - [`site`]: the slot that it is plugged into; [`RunContext`]: the state of the run that it is plugged in for;
//! - [`place`]: where the outside joins it, if it does;
//! - [`report`]: what it reports besides its packets;
//! - [`registers`]: the names of its registers;
//! - [`transfers`]: the transfers that it offers to be measured;
//! - [`profile`]: what hosts and devices cost, each figure with its source;
//! - [`values`]: types of settings that many models have;
//! - [`file`](mod@file): TOML files as types, with what is legal said once.
//!
//! This crate never knows a model, and never runs one.

mod context;
pub mod file;
mod model;
pub mod place;
pub mod plugged;
pub mod profile;
pub mod registers;
pub mod report;
pub mod shared;
pub mod site;
pub mod transfers;
pub mod values;

pub use context::RunContext;
pub use host::os::driver::{Driver, DriverFuture, FunctionsDriver, HostTask, Task};
pub use model::{Fault, FixedBar, Model, ModelError, Models, Needs, Offering, Plan, Window, is_model_name};
pub use place::Place;
pub use plugged::{End, Plugged, RawEnd};
pub use registers::{FunctionRegisters, named};
pub use report::{Report, Shown, counted, gbps, ns};
pub use shared::Shared;
pub use site::Site;
pub use values::{FunctionId, MemoryKind};

/// Vendor ID of riser's own devices and bridges. The PCI-SIG has not assigned it to anyone, as far as known, nor to riser: use it in labs,
/// never in silicon.
pub const VENDOR: u16 = 0x7269;
