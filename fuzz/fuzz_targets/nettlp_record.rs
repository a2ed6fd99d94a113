// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A datagram of a session, in the clear.
#![no_main]

#[path = "../checks_session.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::record(bytes));
