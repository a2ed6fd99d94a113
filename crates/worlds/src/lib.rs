// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Participants from outside that join a lab: NetTLP peers and virtual machines.
//!
//! - [`adapter`]: a slot whose device is NetTLP's adapter, and the peers on the network, which behave as the device;
//! - [`machine`]: a virtual machine above a host of a lab;
//! - [`designs`]: repeated runs of a lab with designs;
//! - [`opening`]: a lab with its capture and its record;
//! - [`tools`]: reports of NetTLP's tools;
//! - [`models()`]: all models that ship.
//!
//! This crate never opens a socket unasked, and never reads a clock. `nettlp` and `guest` have the sockets, and callers provide the clock.

pub mod adapter;
pub mod designs;
pub mod machine;
pub mod opening;
pub mod tools;

use plug::Models;

/// Returns all models that riser contains: those of `devices`, NetTLP's adapter, devices in C and designs in RTL.
pub fn models() -> Models {
    devices::models()
        .with::<adapter::NettlpAdapter>()
        .with::<native::Settings>()
        .with::<rtl::Settings>()
        .with::<rtl::RtlEndpoint>()
        .with::<rtl::RtlLink>()
        .with::<rtl::RtlRootComplex>()
        .with::<rtl::RtlSwitch>()
}
