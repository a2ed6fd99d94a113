// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a script of requests, datagrams and time on a requester.
#![no_main]

#[path = "../checks_requester.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::requester(bytes));
