// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any TLPs at pseudo memory.
#![no_main]

#[path = "../checks_psmem.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::psmem(bytes);
});
