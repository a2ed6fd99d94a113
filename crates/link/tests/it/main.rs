// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `riser-link`, one module per subject.

// The name that the checks of the fuzz target use.
extern crate tlp as riser_tlp;

#[path = "../../../../fuzz/checks_frame.rs"]
mod checks_frame;
mod common;
mod errors;
mod notices;
mod random_cuts;
mod random_traffic;
mod replay_by_position;
mod wire_form;
mod wire_rate;
