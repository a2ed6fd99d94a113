// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Self-contained HTML pages and charts without network access.
//!
//! - [`figure`]: line charts as SVG, and a page around one.
//! - [`report`]: measurements as a page: figures that show values under the pointer, and tables.
//! - [`trace`]: a capture as a page: its records as a list; latencies, tags, throughput and credits as plots.
//!
//! All output opens from a file, loads nothing from a network, and has the same bytes for the same input. This crate
//! reads no files and no clock, and never panics on untrusted bytes.

pub mod figure;
mod page;
pub mod report;
pub mod trace;

pub use report::Report;
pub use trace::TracePage;
