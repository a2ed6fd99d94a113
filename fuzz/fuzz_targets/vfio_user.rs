// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a script of commands, bytes, completions and DMA on a vfio-user session.
#![no_main]

#[path = "../checks_vfio_user.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::script(bytes);
});
