// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends any TLPs to pseudo memory.
#![no_main]

#[path = "../checks_psmem.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::psmem(bytes);
});
