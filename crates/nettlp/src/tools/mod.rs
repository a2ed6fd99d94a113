// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loops of NetTLP's tools, for commands that parse arguments and print:
//!
//! - [`Target`]: an adapter, and how TLPs reach it; [`ClientOptions`]: a client of it;
//! - [`run`]: device software that waits if its adapter goes: [`TapNic`], or any model as a [`ModelDevice`];
//! - [`perf`]: threads that measure reads and writes;
//! - [`MemoryServer`]: threads that serve memory as an adapter.

mod client_options;
mod memory_server;
mod model_device;
pub mod perf;
mod software;
mod tap_nic;
mod target;

pub use client_options::ClientOptions;
pub use memory_server::{Counts, MemoryServer, ServedCounters, ServedMemory};
pub use model_device::{FunctionError, ModelDevice, ModelFunction, ModelSettings};
pub use software::{Count, DeviceSoftware, Run, SoftwareError, run};
pub use tap_nic::TapNic;
pub use target::{Attachment, Scheme, Target};
