// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Delivers completions, its own and foreign ones, to a read of LibTLP for C. LibTLP has no Rust interface, so this target
//! includes its module.
#![no_main]

extern crate riser_tlp as tlp;

#[path = "../../crates/libtlp/src/gather.rs"]
mod gather;

#[path = "../checks_gather.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::gather(bytes);
});
