// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `riser-config`, one module per subject.

mod bridge;
mod capabilities;
#[path = "../../../../fuzz/checks_config.rs"]
mod checks_config;
mod config;
mod errors;
mod extended;
mod lspci;
mod lspci_extended;
mod lspci_text;
mod reference;
mod writes;
