// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses any bytes as a filter.
#![no_main]

#[path = "../checks_filter.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = checks::filter(bytes);
});
