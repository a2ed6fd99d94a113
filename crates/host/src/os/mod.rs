// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The operating system of a simulated host. [`boot()`] enumerates, runs the driver of each device, and serves hot-plug
//! capable slots. The operating system sees the hierarchy only through configuration registers and interrupts.
//!
//! - `component`: a slot or a switch, and its driver; [`driver`]: types of drivers.
//! - `boot`: starts everything; `hot_plug`: the hot-plug driver; `slot_port`: registers of its port.
//! - `services`: state that the tasks share; `loss`: signals that a port above is gone.
//! - `log`: hot-plug events and failures.

mod boot;
mod component;
pub mod driver;
mod hot_plug;
mod log;
mod loss;
mod services;
mod slot_port;

pub use boot::{Options, boot};
pub use component::{Component, Role};
pub use log::{EventLog, Failures, HotPlugEvent, ObservedProgram};
