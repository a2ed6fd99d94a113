// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completions for a read of LibTLP for C, theirs and others. The library has no Rust interface, so its module is taken as it is.
#![no_main]

extern crate riser_tlp as tlp;

#[path = "../../crates/libtlp/src/gather.rs"]
mod gather;

#[path = "../checks_gather.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::gather(bytes);
});
