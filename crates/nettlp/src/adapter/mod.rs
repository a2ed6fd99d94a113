// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A NetTLP adapter without an FPGA, sans-IO: many peers, both port schemes, sessions; memory or a lab behind it.
//!
//! - [`Adapter`]: the state machine: datagrams in, datagrams out.
//! - [`Backend`]: what stands behind it, and is handed whole, allowed TLPs; it sends through an [`Outbox`].
//! - [`MemoryBackend`]: memory, without a host around it.
//! - [`Registers`]: the adapter's own registers (UDP port 0x5002).
//!
//! Never opens a socket, never reads a clock, never serves a peer that no rule allows.

mod backend;
mod counters;
mod egress;
mod machine;
mod memory;
mod registers;

pub use crate::completer::Full;
pub use backend::{Backend, Outbox, Received, Way};
pub use counters::{PeerCounters, Strangers};
pub use egress::Datagrams;
pub use machine::{Adapter, Settings};
pub use memory::{Function, MemoryBackend, MemoryCounters};
pub use registers::Registers;
