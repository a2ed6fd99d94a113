// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What NetTLP sends beside TLPs, as values and as bytes. Never panics on foreign bytes, never allocates, knows no socket.
//!
//! - [`header`]: the six bytes before each TLP.
//! - [`messaging`]: questions to the driver of an adapter's host, UDP port 0x2fff, little endian.
//! - [`config`]: reads and writes of the adapter's configuration space, ports 0x5001 and 0x4001, big endian.
//! - [`registers`]: reads and writes of the adapter's own registers, port 0x5002, big endian.
//!
//! Ports stand in [`capture::encap`].

pub mod config;
pub mod header;
pub mod messaging;
pub mod registers;
