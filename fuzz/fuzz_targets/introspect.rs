// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Introspects any kernel memory.
#![no_main]

#[path = "../checks_introspect.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::introspect(bytes);
});
