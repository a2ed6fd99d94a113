// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Self-contained HTML pages and charts without network access.
//!
//! - [`figure`]: line charts as SVG, and pages with a line chart.
//! - [`bars`]: stacked bars as SVG.
//! - [`tree`]: a topology as SVG.
//! - [`sequence`]: packets between components as SVG.
//! - [`report`]: a page of measurements, with tables and with figures that show values under the pointer.
//! - [`trace`]: a page of a capture, with a list of its records and with plots of latencies, tags, throughput and
//!   credits.
//!
//! All pages open from a file and load nothing from a network. The same input gives the same bytes. This crate reads no
//! files and no clock, and never panics on untrusted bytes.

pub mod bars;
mod canvas;
pub mod figure;
mod page;
pub mod report;
pub mod sequence;
pub mod trace;
pub mod tree;

pub use report::PageContent;
pub use trace::TracePage;
