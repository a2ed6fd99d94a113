// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses any bytes as a lab file.
#![no_main]

extern crate riser_devices as devices;
extern crate riser_lab as lab;
extern crate riser_plug as plug;
extern crate riser_session as session;

#[path = "../checks_lab.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::lab(bytes);
});
