// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A script of commands, bytes, completions and DMA for a vfio-user session.
#![no_main]

#[path = "../checks_vfio_user.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::script(bytes);
});
