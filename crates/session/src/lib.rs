// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A running lab.
//!
//! - [`Session`]: starts from a lab file, runs until an end, a limit or an interruption, and reports. [`Slices`] divides the run into slices, [`Progress`] is
//!   its progress.
//! - [`report`]: results as text and as JSON; [`transactions`]: latencies by part; [`table`]: tables of both.
//! - [`CaptureTap`]: writes the packets of links into a capture.
//! - [`external`]: the interface for outside worlds, the record of their inputs, and its replay.
//! - [`enumerate()`]: runs the host's enumeration of a lab; [`lspci`]: lists its result.
//! - [`cpu_seconds`]: CPU time of the process.
//!
//! This crate does not depend on models or transports, and never opens a file or a socket.

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
pub use enumerated::{Enumerated, EnumeratedFunction, TreePosition, enumerate, enumerate_with};
pub use report::{LinkReport, RunOutcome, SessionReport};
pub use run::{Progress, Slices, share};
pub use session::Session;
pub use tap::{CaptureHandle, CaptureOptions, CaptureTap, TappedLink, way};
pub use transactions::{TransactionLogHandle, TransactionReport};
