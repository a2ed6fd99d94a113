// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any bytes as a datagram with a TLP, with upstream's habits.
#![no_main]

#[path = "../checks_nettlp.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::incoming(bytes));
