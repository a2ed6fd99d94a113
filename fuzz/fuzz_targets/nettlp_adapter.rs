// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends any datagrams from any peers to any ports of an adapter.
#![no_main]

#[path = "../checks_nettlp.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::adapter_run(bytes));
