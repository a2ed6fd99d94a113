// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads any bytes as a file of results.
#![no_main]

#[path = "../checks_results.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::results(bytes);
});
