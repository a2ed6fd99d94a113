// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any datagrams to any ports of an adapter from any peers.
#![no_main]

#[path = "../checks_nettlp.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::adapter_run(bytes));
