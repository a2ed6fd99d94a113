// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any bytes as a lab file.
#![no_main]

#[path = "../checks_lab.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::lab(bytes);
});
