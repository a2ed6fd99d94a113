// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A NetTLP adapter without an FPGA, sans-IO. Serves many peers, both port schemes, and sessions. The backend is
//! memory or a lab.
//!
//! - [`Adapter`]: the state machine: datagrams in, datagrams out.
//! - [`Backend`]: receives complete, allowed TLPs and sends through an [`Outbox`].
//! - [`MemoryBackend`]: memory without a host.
//! - [`Registers`]: the adapter's own registers (UDP port 0x5002).
//!
//! Never opens a socket, reads a clock, or serves a peer that no rule allows.

mod backend;
mod counters;
mod egress;
mod machine;
mod memory;
mod registers;

pub use crate::completer::Full;
pub use backend::{Backend, Outbox, PeerPath, Received};
pub use counters::{PeerCounters, Strangers};
pub use egress::Datagrams;
pub use machine::{Adapter, AdapterSettings};
pub use memory::{Function, MemoryBackend, MemoryCounters};
pub use registers::Registers;
