// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A NetTLP adapter without an FPGA, sans-IO: many peers, both port schemes, sessions; memory or a lab behind it.
//!
//! - [`Backend`]: what stands behind the adapter: [`crate::adapter`] hands it whole, allowed TLPs, and it sends through an
//!   [`Outbox`].
//! - [`Registers`]: the adapter's own registers (UDP port 0x5002).
//!
//! Never opens a socket, never reads a clock, never serves a peer that no rule allows.

mod backend;
mod registers;

pub use crate::completer::Full;
pub use backend::{Backend, Outbox, Received, Way};
pub use registers::Registers;
