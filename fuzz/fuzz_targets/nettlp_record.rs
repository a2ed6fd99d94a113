// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses any bytes as an unsealed datagram of a session.
#![no_main]

#[path = "../checks_session.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::record(bytes));
