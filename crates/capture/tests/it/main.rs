// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `riser-capture`, one module per subject.

mod check;
#[path = "../../../../fuzz/checks_capture.rs"]
mod checks_capture;
#[path = "../../../../fuzz/checks_filter.rs"]
mod checks_filter;
#[path = "../../../../fuzz/checks_foreign.rs"]
mod checks_foreign;
mod common;
mod dissect;
mod dissector;
mod encapsulation;
mod files;
mod filter;
mod golden;
mod hops;
mod names;
mod nettlp_captures;
mod probes;
mod properties;
mod reference;
mod seeds;
mod text;
mod tracker;
mod transactions;
mod tshark;
mod views;
