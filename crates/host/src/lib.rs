// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host above a root complex.
//!
//! - [`HostProgram`]: the program above the root complex, which issues accesses, takes interrupts, and has timers.
//! - [`HostBus`]: a root complex that is not riser's, seen from the host.
//! - [`cpu`]: a host program as straight-line `async` code.
//! - [`firmware`]: a host program that finds and enables the functions below the root ports.
//! - [`memory`]: the memory that host programs and devices share.
//! - [`os`]: the operating system: boot, drivers, hot-plug.
//! - [`caches`]: preparation of a simulated host's caches, for benchmark programs.
//!
//! This crate never reads a clock and never does I/O. It does not depend on the fabric.

mod bus;
pub mod caches;
pub mod cpu;
mod error;
pub mod firmware;
pub mod memory;
pub mod os;
mod program;

pub use bus::HostBus;
pub use cpu::{AsyncProgram, Cpu};
pub use error::{DriverError, HostError};
pub use memory::HostMemory;
pub use program::{HostInput, HostInterrupt, HostMessage, HostOutput, HostProgram, HostReadId, Wire};
