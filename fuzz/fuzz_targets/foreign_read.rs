// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads any bytes as a text with TLPs. The first byte selects the format.
#![no_main]

#[path = "../checks_foreign.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = checks::foreign(bytes);
});
