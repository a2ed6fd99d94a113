// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `riser-worlds`, one module per subject.

mod assigned;
mod cable;
#[path = "../../../../fuzz/checks_lab.rs"]
mod checks_lab;
mod client;
mod links;
mod messages;
mod nettlp;
mod nettlp_devices;
mod reference;
mod rtl_core;
mod rtl_link;
mod rtl_rig;
mod rtl_root;
mod rtl_software;
mod rtl_switch;
mod served;
mod shipped;
mod two_adapters;
mod vmd;
