// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any bytes as a record of a lab that the outside has joined.
#![no_main]

#[path = "../checks_record.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::record(bytes);
});
