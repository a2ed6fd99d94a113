// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages and pictures that the faces hand out: self-contained HTML, no network.
//!
//! - [`figure`]: line charts as SVG, and a page around one.
//! - [`report`]: measurements as a page: figures with values under the pointer, and tables.
//! - [`trace`]: a capture as a page: its records as a list, its latencies, tags, throughput and credits as plots.
//!
//! What is made here opens from a file, asks for nothing from elsewhere, and is the same bytes for the same input. This
//! crate never reads a file, never reads a clock and never panics on foreign bytes.

pub mod figure;
mod page;
pub mod report;
pub mod trace;

pub use report::Report;
pub use trace::TracePage;
