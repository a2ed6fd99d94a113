// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs any driver on the 82574L.
#![no_main]

#[path = "../checks_nic.rs"]
#[allow(dead_code)]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::driver(bytes);
});
