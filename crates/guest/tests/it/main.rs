// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `riser-guest`, one module per subject.

#[path = "../../../../fuzz/checks_vfio_user.rs"]
mod checks_vfio_user;
mod client;
mod foreign;
mod function;
mod memory;
mod seeds;
mod session;
mod sharing;
mod sockets;
mod vmd;
