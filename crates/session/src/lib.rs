// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A running lab.
//!
//! - [`Session`]: starts from a lab file, runs until an end, a limit or an interruption, and reports; [`Slices`] cuts the run, [`Progress`] is how far it is;
//! - [`report`]: what happened, as text and as JSON; [`transactions`]: where the time went; [`table`]: lays out both;
//! - [`CaptureTap`]: writes the packets of links into a capture;
//! - [`external`]: how an outside world joins a lab, the record of its inputs, and the same run again;
//! - [`enumerate()`]: what the host's enumeration finds in a lab; [`lspci`]: lists that;
//! - [`cpu_seconds`]: CPU time of the process.
//!
//! This crate never knows a model or a transport, and it never opens a file or a socket.

pub mod external;
pub mod lspci;
pub mod report;
pub mod table;
pub mod transactions;

mod cpu;
mod enumerated;
mod run;
mod session;
mod tap;

pub use cpu::cpu_seconds;
pub use enumerated::{Enumerated, EnumeratedFunction, Place, enumerate, enumerate_with};
pub use report::Report;
pub use run::{Progress, Slices, share};
pub use session::Session;
pub use tap::{CaptureHandle, CaptureOptions, CaptureTap, TappedLink, way};
pub use transactions::{TransactionLogHandle, TransactionReport};
