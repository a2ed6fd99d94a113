// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses any bytes as a TLP.
#![no_main]

#[path = "../checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::tlp(bytes));
