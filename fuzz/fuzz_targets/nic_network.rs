// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connects any network to the 82574L.
#![no_main]

#[path = "../checks_nic.rs"]
#[allow(dead_code)]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::network(bytes);
});
