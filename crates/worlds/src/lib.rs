// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The outside worlds that join a lab: NetTLP peers and virtual machines.
//!
//! - [`adapter`]: a slot whose device is NetTLP's adapter, and the peers on the network that are its device;
//! - [`machine`]: a virtual machine above a host of a lab;
//! - [`designs`]: runs of a lab with designs that are repeated;
//! - [`models()`]: all models that ship.
//!
//! This crate never opens a socket of its own accord, and never runs a lab by a clock of its own. `nettlp` and `guest` have the sockets,
//! callers the clock.

pub mod adapter;
pub mod designs;
pub mod machine;

use plug::Models;

/// Returns all models that ship: those of `devices`, NetTLP's adapter, devices in C and designs in RTL.
pub fn models() -> Models {
    devices::models().with::<adapter::NettlpAdapter>().with::<native::Settings>().with::<rtl::Settings>()
}
