// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads any bytes as Verilog source.
#![no_main]

extern crate riser_rtl as rtl;

#[path = "../checks_rtl.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::source(bytes);
});
