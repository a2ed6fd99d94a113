// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A kernel in a virtual machine as a host of riser: QEMU's `vfio-user-pci` is the client, this crate the server.
//!
//! - [`vfio_user`]: the protocol, as a state machine that turns bytes into events
//! - [`vfio_device`]: a device of the virtual machine, which turns its accesses into requests of a root complex: a [`vmd`], which
//!   carries a whole hierarchy, or one [`function`] of it; [`accesses`] splits and assembles the requests of both
//! - [`memory`]: the memory of the virtual machine, mapped or accessed by system calls
//! - [`sharing`]: a check that the machine uses the same memory
//! - [`net`]: the socket; [`listener`]: access control of the socket
//!
//! The crate does not depend on labs or the fabric: the caller handles events and supplies the answers. The crate
//! checks every length, offset and descriptor that a client sends, reads no clock except in [`net`], and never panics
//! because of bytes that a client sends.

pub mod accesses;
pub mod function;
pub mod listener;
pub mod memory;
pub mod net;
pub mod sharing;
pub mod vfio_device;
pub mod vfio_user;
pub mod vmd;
