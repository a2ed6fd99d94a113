// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The seam between devices and their hosts. A device author needs only this crate.
//!
//! - [`seam`]: the [`Device`] trait. A device uses *transactions*.
//! - [`io`]: devices as straight-line `async` code.
//! - [`channel`]: a queue between tasks of devices, functions and programs.
//! - [`shared`]: an engine that several functions share.
//! - [`counters!`]: structs of named counters.
//!
//! A fabric and everything plugged into it run on one thread: devices, drivers and programs share data by `Rc`. Only
//! wakers and notifiers may be sent to other threads.
//!
//! This crate never reads a clock and never does I/O. It does not depend on a host, a fabric or a link.

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
