// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `riser-tlp`, one module per subject.

#[path = "../../../../fuzz/checks.rs"]
mod checks;
mod common;
mod corpus;
mod data;
mod dllp;
mod literal;
mod messages;
mod random;
mod reference;
mod roundtrip;
mod rules;
mod seeds;
