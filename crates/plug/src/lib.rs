// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Interface between a lab and its device models. A [`Model`] is a table of settings from which a device, its driver and its report are
//! built. A lab may use the models in its [`Models`].
//!
//! - [`Model`]: the trait of a model; [`Models`]: the table of available models.
//! - [`plugged`]: the result of a model: the device at the end of the link, and the host's work for it.
//! - [`site`]: the slot that the model is plugged into; [`RunContext`]: the state of its run.
//! - [`place`]: the place where an outside program joins the device, if any.
//! - [`report`]: the device's report in addition to its packets.
//! - [`registers`]: names of the device's registers.
//! - [`transfers`]: transfers that the model offers for measurements.
//! - [`profile`]: latencies and rates of hosts and devices, each figure with its source.
//! - [`values`]: types of settings that many models share.
//! - [`file`](mod@file): TOML files as types, whose legal values are defined once.
//!
//! This crate never contains or runs a model.

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

pub use capture::render::counted;
pub use context::RunContext;
pub use host::os::driver::{Driver, DriverFuture, FunctionsDriver, HostTask, Task};
pub use model::{
    Fault, FixedBar, Model, ModelError, ModelKind, Models, Needs, Offering, OfferingError, Plan, Window,
    is_model_name,
};
pub use place::Attachment;
pub use plugged::{End, Plugged, RawEnd};
pub use registers::{FunctionRegisters, named};
pub use report::{Report, Shown, gbps, nearest_rank, ns};
pub use shared::Shared;
pub use site::Site;
pub use values::{FunctionId, MemoryKind};

/// Vendor ID of the devices and bridges of riser. As far as known, the PCI-SIG has not assigned this ID to any company,
/// nor to riser. Use this ID only in labs, not in silicon.
pub const VENDOR: u16 = 0x7269;
