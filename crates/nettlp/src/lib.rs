// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NetTLP (NSDI'20): devices in software, whose TLPs travel in UDP datagrams to an adapter in a host's slot.
//!
//! ```text
//!   device software                                            adapter
//!   requester (LibTLP), completer (psmem), a riser Device      memory, or the slot of a lab
//!        │ TLPs as bytes                                            │
//!     Carrier ── tagged: a port per tag, upstream's ────────────  sockets, allow-list
//!             └─ session: one port, sequence, Ack, credits ─────  streams
//! ```
//!
//! - [`carrier`]: what carries whole TLPs between two peers, whichever way.
//! - [`net`]: sockets and the wall clock.
//! - [`stream`]: riser sessions: reliable, ordered, with credits; [`auth`] seals them.
//! - [`wire`]: what NetTLP sends beside TLPs.
//! - [`adapter`]: the other end: many peers, with memory or a lab behind it.
//! - [`allow`]: whom the adapter serves, where, and which way.
//! - [`completer`]: answers memory requests from memory.
//! - [`client`]: a requester on a carrier, with a clock: blocking, in turns, or with futures.
//! - [`dropped`]: what an end drops, and why.
//! - [`psmem`]: pseudo memory, which answers a host's MMIO.
//! - [`requester`]: memory reads and writes over many tags: LibTLP without its sockets.
//! - [`device_host`]: a riser `Device` as device software, behind an endpoint of its own; [`snic`], the simple NIC so.
//! - [`tools`]: the loops of the commands, with sockets, threads and the clock.
//!
//! The state machines take time as an argument and bytes as slices. Only `net` opens sockets; only `net` and `tools` read clocks. The
//! crate never listens where it was not told to, never trusts a length that it was sent, never panics on a datagram,
//! and knows no fabric: `worlds` joins the two.

pub mod adapter;
pub mod allow;
pub mod auth;
pub mod carrier;
pub mod client;
pub mod completer;
pub mod device_host;
pub mod dropped;
pub mod net;
pub mod psmem;
pub mod requester;
pub mod snic;
pub mod stream;
pub mod tools;
pub mod wire;
