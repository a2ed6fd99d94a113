// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sockets and the wall clock. Only this module opens sockets. The state machines make all other decisions.
//!
//! | this side | peer | type |
//! |---|---|---|
//! | device software | a session if the peer supports it, else upstream's ports | [`connect`] |
//! | device software | upstream's ports | [`TaggedCarrier`] |
//! | device software | a riser session | [`SessionCarrier`] |
//! | adapter | all peers on all ports, sessions included | [`AdapterSockets`] |
//! | observer | all frames of an interface, which it never answers | [`LiveCapture`] |
//!
//! Sockets are bound only to addresses that the caller names. All sockets except the adapter's are connected, so
//! the kernel drops datagrams from other senders. One thread drives one carrier. Several carriers, one per thread,
//! share no data.

mod adapter;
mod any;
mod ask;
mod batch;
mod ceiling;
mod drops;
mod filter;
mod live;
mod options;
mod peers;
mod queue;
mod serve;
mod session;
mod socket;
mod tagged;

pub use adapter::{AdapterSockets, Outbox};
pub use any::{AnyCarrier, ConnectOptions, connect};
pub use ask::{AskOptions, AskSocket};
pub use ceiling::{Ceiling, ceiling};
pub use ipnet::IpNet as Network;
pub use live::{LiveCapture, LiveCounts, LiveError};
pub use options::{AdapterOptions, default_threads, stay_on_core};
pub use serve::serve;
pub use session::{SessionCarrier, SessionConnectOptions};
pub use socket::{Clock, OpenError};
pub use tagged::{TaggedCarrier, TaggedOptions};

/// Size of the longest TLP: 8 prefixes, a header of 4 DW, 1024 DW of payload, and an ECRC. NetTLP does not use the
/// ECRC, but a sender might add it by mistake.
pub const MAX_TLP_BYTES: usize = 8 * 4 + 16 + 4096 + 4;

device::counters! {
    /// Counters of the sockets of a carrier or an adapter, since they were opened.
    pub struct SocketCounters {
        /// Datagrams received.
        received_datagrams,
        /// Datagrams passed to the kernel.
        sent_datagrams,
        /// System calls that received at least one datagram.
        receive_calls,
        /// System calls that sent at least one datagram.
        send_calls,
        /// Dropped datagrams, longer or shorter than legal.
        malformed_datagrams,
        /// Datagrams that the kernel rejected, for example with destination unreachable.
        failed_sends,
        /// Datagrams that the kernel dropped before reception, for lack of buffer space or by the filter of allowed
        /// peers. The kernel does not distinguish these two causes. Updated when a later datagram is received
        /// (`SO_RXQ_OVFL`), and when an adapter ends.
        kernel_drops,
    }
}
