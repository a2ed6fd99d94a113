// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses any bytes as a datagram with a TLP, including the deviations of upstream NetTLP.
#![no_main]

#[path = "../checks_nettlp.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::incoming(bytes));
