// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A script of datagrams that leave and come several at a time, of one session.
#![no_main]

#[path = "../checks_runs.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::runs(bytes);
});
