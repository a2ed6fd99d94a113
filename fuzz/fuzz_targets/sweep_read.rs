// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads any bytes as a sweep file and as a journal.
#![no_main]

#[path = "../checks_sweep.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::sweep(bytes);
});
