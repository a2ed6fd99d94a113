// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a script of TLPs, faults, foreign datagrams and time on both ends of a session.
#![no_main]

#[path = "../checks_session.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::session(bytes);
});
