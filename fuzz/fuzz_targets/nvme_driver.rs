// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs any driver on the NVMe controller.
#![no_main]

#[path = "../checks_nvme.rs"]
#[allow(dead_code)]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::driver(bytes);
});
