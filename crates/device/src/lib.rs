// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The seam between devices and whatever hosts them: all that a device's author depends on.
//!
//! - [`seam`]: what a device sees, as *transactions*: the [`Device`] trait.
//! - [`io`]: devices as straight-line `async` code.
//! - [`channel`]: a queue between tasks of devices, functions and programs.
//! - [`shared`]: one engine behind several functions.
//! - [`counters!`]: counters with names, for whoever counts.
//!
//! A fabric and all that is plugged into it live on one thread: devices, drivers and programs share by `Rc`. Only
//! wakers and notifiers may be sent to other threads.
//!
//! This crate never reads a clock, never does I/O, and knows no host, no fabric and no link.

pub mod channel;
mod counters;
pub mod io;
pub mod seam;
pub mod shared;

pub use channel::Channel;
pub use io::{AsyncDevice, Io};
pub use seam::{
    BarIndex, CompletionError, Device, DmaAtomic, DmaError, DmaId, DmaOptions, DmaRead, DmaWrite, Input,
    OutMessage, Output, Ready, Request, RequestOp, ResetKind, Token,
};
