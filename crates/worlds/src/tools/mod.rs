// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NetTLP's tools above a lab's or riser's own memory, and their reports as JSON and as text.

mod access;
mod adapter;
mod counters;
mod lab;
mod perf;
mod psmem;
mod software;

pub use access::{ReadReport, WriteReport};
pub use adapter::{AdapterReport, MemoryServing, strangers_line};
pub use counters::{Rows, refusals};
pub use lab::{LabAdapter, LabReport, LabServing};
pub use perf::{Outcome, PerfReport};
pub use psmem::PsmemReport;
pub use software::SoftwareReport;
