// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads any bytes as a record of a lab with outside participants.
#![no_main]

#[path = "../checks_record.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::record(bytes);
});
