// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The seam between devices and whatever hosts them.
//!
//! - [`seam`]: what a device sees, as *transactions*: the [`Device`] trait.
//! - [`port`]: what stands below the seam, as *TLPs*: the [`TlpPort`] trait, which the endpoint, raw-TLP devices and
//!   peers implement, and which a fabric drives.
//! - [`endpoint`]: turns TLPs into transactions: [`TlpPort`] below, [`Device`] above.
//! - [`hard_block`]: the same front with a design of raw TLPs behind it.
//! - [`raw`]: a raw-TLP device, which takes the endpoint's place.
//! - [`io`] and [`cpu`]: devices and host programs as straight-line `async` code; [`exec`] is the executor below both.
//! - [`firmware`]: finds and enables the functions below the root ports, as host code.
//! - [`channel`]: a queue between tasks of devices, functions and programs.
//! - [`shared`]: one engine behind several functions.
//! - [`memory`]: the memory that host programs and devices share.
//! - [`caches`]: caches of a simulated host in a known state, for programs that measure.
//! - [`counters!`]: counters with names, for whoever counts.
//!
//! This crate never reads a clock, never does I/O, and knows no host and no fabric, and of a link only what it tells.

pub mod caches;
pub mod channel;
mod counters;
pub mod cpu;
pub mod endpoint;
pub mod exec;
pub mod firmware;
mod front;
pub mod hard_block;
pub mod host;
pub mod io;
pub mod memory;
pub mod port;
pub mod raw;
pub mod seam;
pub mod shared;

pub use channel::Channel;
pub use cpu::{AsyncProgram, Cpu};
pub use endpoint::{Endpoint, EndpointConfig, EndpointLimits, FunctionConfig, VirtualFunctions};
pub use hard_block::{HardBlock, TlpDesign};
pub use io::{AsyncDevice, Io};
pub use memory::HostMemory;
pub use port::{CreditReturn, TlpPort, detected_error};
pub use raw::RawDevice;
pub use seam::{
    BarIndex, CompletionError, Device, DmaAtomic, DmaError, DmaId, DmaOptions, DmaRead, DmaWrite, Input,
    OutMessage, Output, Ready, Request, RequestOp, ResetKind, Token,
};
