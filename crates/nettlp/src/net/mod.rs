// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sockets and the wall clock: the only part of the crate that has either. Decides nothing that a state machine could.
//!
//! | this side | with | is |
//! |---|---|---|
//! | device software | whoever answers: a session if the peer knows it, else upstream's ports | [`connect`] |
//! | device software | upstream's ports | [`TaggedCarrier`] |
//! | device software | a riser session | [`SessionCarrier`] |
//! | adapter | all peers on all ports, sessions among them | [`AdapterSockets`] |
//!
//! Sockets are bound to addresses that the caller names, and to nothing else; all but the adapter's are connected, so
//! the kernel drops what others send. One thread drives one carrier; several carriers, one for each thread, share nothing.

mod adapter;
mod any;
mod ask;
mod batch;
mod ceiling;
mod drops;
mod filter;
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
pub use options::{AdapterOptions, default_threads};
pub use serve::serve;
pub use session::{SessionCarrier, SessionConnectOptions};
pub use socket::{Clock, OpenError};
pub use tagged::{TaggedCarrier, TaggedOptions};

/// Bytes of the longest TLP that travels: 8 prefixes, a header of 4 DW, 1024 DW of payload, and ECRC, which the wire
/// does not have but a careless sender might add.
pub const MAX_TLP_BYTES: usize = 8 * 4 + 16 + 4096 + 4;

device::counters! {
    /// What the sockets of a carrier or an adapter have seen, since they were opened.
    pub struct SocketCounters {
        /// Datagrams received.
        received_datagrams,
        /// Datagrams handed to the kernel.
        sent_datagrams,
        /// Calls that received at least one datagram.
        receive_calls,
        /// Calls that sent at least one datagram.
        send_calls,
        /// Datagrams dropped for being longer or shorter than any that is legal here.
        malformed_datagrams,
        /// Datagrams that the kernel would not send: destination unreachable and the like.
        failed_sends,
        /// Datagrams that the kernel dropped before they were received, for want of buffer space or by the filter of allowed
        /// peers; it does not tell the two apart. Known once a later datagram has been received (`SO_RXQ_OVFL`), and when an adapter ends.
        kernel_drops,
    }
}
