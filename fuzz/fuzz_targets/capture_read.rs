// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads any bytes as a capture.
#![no_main]

#[path = "../checks_capture.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = checks::capture(bytes);
});
