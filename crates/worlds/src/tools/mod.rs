// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports of NetTLP's tools, as JSON and as text.

mod adapter;
mod counters;
mod lab;
mod perf;
mod psmem;
mod software;

pub use adapter::{AdapterReport, MemoryReport, strangers_line};
pub use counters::{Rows, refusals};
pub use lab::{LabAdapter, LabReport, LabServing};
pub use perf::{Outcome, PerfReport};
pub use psmem::PsmemReport;
pub use software::SoftwareReport;
