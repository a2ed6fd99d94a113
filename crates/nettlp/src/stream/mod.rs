// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sessions between riser's peers: each direction is a reliable, ordered stream of TLPs over UDP. Sans-IO: time and bytes are arguments. Never opens a socket,
//! reads a clock, or allocates for a datagram that arrives in order.
//!
//! - [`record`]: the datagrams.
//! - [`Connector`] requests a session, [`Acceptor`] serves many peers; both create [`Session`]s.
//!
//! A sender keeps every TLP in a ring until it is acknowledged. It sends as far as the peer's credits allow: a window of TLPs after the last accepted one.
//!
//! A receiver delivers TLPs in order and keeps those that are ahead. It acknowledges what it received (all up to a number, and a bitmap after that) at these
//! times: after every quarter window, after [`ACK_DELAY`], and at once if a TLP is missing or arrived twice, or if there is no answer to send
//! ([`Session::prompt`]).
//!
//! TLPs that the bitmap shows as lost are sent again. If no Ack arrives for a while, the oldest TLPs are sent again [`MAX_TIMEOUTS`] times, at intervals that double.
//! Then the session fails and reports it. So no posted write is dropped, and no read is done twice. A receiver that cannot take more withholds credits, and the
//! sender stops.
//!
//! There is no congestion control: the window is the limit. Sessions are meant for a loopback, or a private network.

mod acceptor;
mod connector;
mod receive;
pub mod record;
mod session;
mod transmit;

#[cfg(test)]
mod tests;

pub use acceptor::{Accepted, Acceptor, AcceptorCounters, AcceptorOptions, MAX_OPENING};
pub use connector::{ConnectError, Connector, FEW_HELLOS, HELLOS};
pub use session::{Session, SessionCounters};
pub use transmit::Run;

use tlp::Duration;

/// Size of a sender's ring in bytes.
pub const RING_BYTES: usize = 1 << 20;
/// Capacity of a sender's ring in TLPs: sent and not acknowledged, or waiting for credits.
pub const RING_DATAGRAMS: usize = 2048;
/// Longest time between the arrival of a TLP and its Ack.
pub const ACK_DELAY: Duration = Duration::from_ms(8);
/// Shortest time without an Ack after which the oldest TLPs are sent again: several times [`ACK_DELAY`].
pub const MIN_RTO: Duration = Duration::from_ms(24);
/// Consecutive timeouts after which a peer counts as gone: about 4 s.
pub const MAX_TIMEOUTS: u32 = 12;
/// Silence after which a client checks whether the adapter still has its session.
pub const KEEP_ALIVE: Duration = Duration::from_ms(2_000);
/// Shortest time between two probes of a sender without credits.
pub const PROBE_INTERVAL: Duration = Duration::from_ms(50);

/// Reason why a session has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
pub enum SessionError {
    /// No Ack arrived for too long.
    #[error("the peer is silent: {MAX_TIMEOUTS} timeouts in a row")]
    Silent,
    /// The peer has no such session: it restarted, or displaced the session by another.
    #[error("the peer has no such session any more")]
    Reset,
    /// The peer has ended the session.
    #[error("the peer has ended this session")]
    Closed,
    /// The peer acknowledged a TLP that was never sent.
    #[error("the peer acknowledged a TLP that was never sent")]
    Protocol,
    /// All 2^47 numbers are used.
    #[error("all 2^47 sequence numbers are used up")]
    Exhausted,
}
