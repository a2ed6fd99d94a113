// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the simple NIC as device software with any driver, host and cable.
#![no_main]

#[path = "../checks_snic.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::snic(bytes);
});
