// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Formats that NetTLP sends in addition to TLPs, as values and as bytes. Never panics on received bytes, never allocates,
//! uses no socket.
//!
//! - [`header`]: the six bytes before each TLP.
//! - [`messaging`]: requests to the driver of an adapter's host, UDP port 0x2fff, little endian.
//! - [`config`]: reads and writes of the adapter's configuration space, ports 0x5001 and 0x4001, big endian.
//! - [`registers`]: reads and writes of the adapter's own registers, port 0x5002, big endian.
//!
//! Port numbers are in [`capture::encap`].

pub mod config;
pub mod header;
pub mod messaging;
pub mod registers;
