// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The main loops of NetTLP's tools. The commands parse arguments and print results.
//!
//! - [`Target`]: an adapter, and how TLPs reach it; [`ClientOptions`]: a client of it;
//! - [`run`]: runs device software, and waits while its adapter is absent: [`TapNic`], or any model as a
//!   [`ModelDevice`];
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
pub use software::{Count, DeviceSoftware, SoftwareError, SoftwareRun, run};
pub use tap_nic::TapNic;
pub use target::{Attachment, Scheme, Target};
