// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads any bytes as a frame of a link.
#![no_main]

#[path = "../checks_frame.rs"]
mod checks_frame;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks_frame::frame(input));
