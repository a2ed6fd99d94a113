// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a script of datagrams that one session sends and receives several at a time.
#![no_main]

#[path = "../checks_runs.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::runs(bytes);
});
