// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `riser-view`, one module per subject.

mod analyzer;
mod browser;
mod common;
mod looks;
mod page;
mod parallel_browser;
mod report;
mod report_browser;
mod tree_browser;
