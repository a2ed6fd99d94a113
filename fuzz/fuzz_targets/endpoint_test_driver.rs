// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs any driver on the endpoint of `pci_endpoint_test`.
#![no_main]

#[path = "../checks_endpoint_test.rs"]
#[allow(dead_code)]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::driver(bytes);
});
