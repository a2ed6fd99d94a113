// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs any tree of switches with any traffic and faults: see
//! `crates/fabric/tests/it/common/tree/checks.rs`.
#![no_main]

extern crate riser_config as config;
extern crate riser_device as device;
extern crate riser_endpoint as endpoint;
extern crate riser_host as host;
extern crate riser_link as link;
extern crate riser_tlp as tlp;

#[path = "../../crates/fabric/tests/it/common/tree/mod.rs"]
mod tree;

use tree::checks::{Case, run};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let case = Case::from_input(input);
    if let Err(wrong) = run(&case) {
        panic!("{wrong}\n{case:#?}");
    }
});
