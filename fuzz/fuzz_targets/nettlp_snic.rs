// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any driver, host and cable at the simple NIC as device software.
#![no_main]

#[path = "../checks_snic.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::snic(bytes);
});
