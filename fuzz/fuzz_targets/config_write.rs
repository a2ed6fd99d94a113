// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes any values to any registers of any kind of function.
#![no_main]

#[path = "../checks_config.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::writes(bytes));
