// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any bytes as messaging, both directions.
#![no_main]

#[path = "../checks_nettlp.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::messaging(bytes));
