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
//! - [`carrier`]: exchange of whole TLPs between two peers, over ports or a session.
//! - [`net`]: sockets and the wall clock.
//! - [`stream`]: riser sessions: reliable, ordered, with credits; [`auth`] seals them.
//! - [`wire`]: formats that NetTLP sends in addition to TLPs.
//! - [`adapter`]: the adapter, which serves many peers. Its backend is memory or a lab.
//! - [`allow`]: which peers the adapter serves, at which addresses, in which direction.
//! - [`completer`]: answers memory requests from memory.
//! - [`client`]: a requester on a carrier, with a clock: blocking, one turn at a time, or with futures.
//! - [`dropped`]: datagrams and completions that an end drops, with reasons.
//! - [`psmem`]: pseudo memory, which answers a host's MMIO.
//! - [`requester`]: memory reads and writes over many tags: LibTLP without sockets.
//! - [`device_host`]: runs a riser `Device` as device software, with its own endpoint; [`snic`] is the simple NIC built on it.
//! - [`tools`]: main loops of the commands, with sockets, threads and the clock.
//!
//! The state machines receive time as an argument and bytes as slices. Only `net` opens sockets; only `net` and
//! `tools` read clocks. The crate listens only on addresses that it is given. It never trusts a received length and
//! never panics on a datagram. It does not depend on the fabric. The crate `worlds` connects both.

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
