// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PCI Express wire formats, and the quantities that everything in riser speaks in.
//!
//! - [`time`], [`ids`], [`size`], [`rate`]: newtypes, so that nothing can be mixed up.
//! - [`Repr`]: a TLP header as a plain value that can hold only legal values.
//! - [`Tlp`]: a header with its data, carried or only counted: what travels through the fabric.
//! - [`payload`]: pooled, reference-counted payload bytes.
//!
//! This crate never does I/O, never reads a clock, and never panics on foreign bytes.
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod dllp;
pub mod ids;
pub mod packet;
pub mod payload;
pub mod rate;
pub mod repr;
pub mod size;
pub mod span;
pub mod time;

pub use dllp::{Dllp, FlowControl, FlowControlKind};
pub use ids::{Bdf, Tag};
pub use packet::{Class, Data, Tlp};
pub use payload::{Payload, PayloadPool};
pub use rate::{Rate, Width};
pub use repr::{
    AddressType, Attributes, Body, Completion, ConfigKind, ConfigRequest, MemoryOp, MemoryRequest, Message,
    MessageRouting, Repr, Status, TrafficClass,
};
pub use size::{Mps, Mrrs, Rcb, SizeError};
pub use span::{Span, SpanError};
pub use time::{Duration, Time};
