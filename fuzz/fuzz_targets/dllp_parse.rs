// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses any bytes as a DLLP: first as they are, then the first four with a correct CRC, so that the fuzzer gets
//! past the CRC check.
#![no_main]

#[path = "../checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::dllp(bytes);
    if let Some(&[a, b, c, d]) = bytes.first_chunk::<4>() {
        let [e, f] = riser_tlp::crc::dllp([a, b, c, d]).to_be_bytes();
        checks::dllp(&[a, b, c, d, e, f]);
    }
});
