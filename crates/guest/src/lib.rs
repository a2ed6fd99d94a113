// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A kernel in a virtual machine as a host of riser: QEMU's `vfio-user-pci` is the client, this crate the server.
//!
//! - [`vfio_user`]: the protocol, as a state machine between bytes and events;
//! - [`vfio_device`]: a device of the virtual machine, as requests of a root complex: a [`vmd`], which carries a whole hierarchy, or one
//!   [`function`] of it; [`accesses`]: the requests of both;
//! - [`memory`]: the memory of the virtual machine, mapped or read and written by system calls;
//! - [`sharing`]: whether that is what the machine sees;
//! - [`net`]: the socket; [`listener`]: who may connect to it.
//!
//! The crate knows no lab and no fabric: whoever has one takes the events and gives the answers. It never believes a length, an offset
//! or a descriptor that a client sends, never reads a clock, and never panics on foreign bytes.

pub mod accesses;
pub mod function;
pub mod listener;
pub mod memory;
pub mod net;
pub mod sharing;
pub mod vfio_device;
pub mod vfio_user;
pub mod vmd;
