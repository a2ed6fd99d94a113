// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The seam between devices and whatever hosts them.
//!
//! - [`seam`]: what a device sees, as *transactions*: the [`Device`] trait.
//! - [`port`]: what stands below the seam, as *TLPs*: the [`TlpPort`] trait, which the endpoint, raw-TLP devices and
//!   peers implement, and which a fabric drives.
//!
//! This crate never reads a clock, never does I/O, and knows no host, no link and no fabric.

pub mod host;
pub mod port;
pub mod seam;

pub use port::{CreditReturn, TlpPort};
pub use seam::{
    BarIndex, CompletionError, Device, DmaError, DmaId, DmaRead, DmaWrite, Input, Output, Request, RequestOp,
    ResetKind, Token,
};
