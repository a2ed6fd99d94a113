// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sessions between two ends that both run riser. Each direction is a reliable, ordered stream of TLPs over UDP.
//! Sans-IO: time and bytes are arguments. Never opens a socket, reads a clock, or allocates for a datagram that
//! arrives in order.
//!
//! - [`record`]: the datagrams.
//! - [`Connector`] requests a session, [`Acceptor`] serves many peers; both create [`Session`]s.
//!
//! A sender keeps every TLP in a ring until it is acknowledged. The credits of the peer limit how many TLPs it
//! sends: a window of TLPs after the last accepted TLP.
//!
//! A receiver delivers TLPs in order. It keeps TLPs that arrive before an earlier TLP. An Ack tells which TLPs have
//! arrived: all TLPs up to a number, and a bitmap for the TLPs after that. The receiver sends an Ack after every
//! quarter window and after [`ACK_DELAY`]. It sends an Ack at once if a TLP is missing or arrived twice, or if
//! there is no answer to send ([`Session::prompt`]).
//!
//! TLPs that the bitmap shows as lost are sent again. If no Ack arrives for a while, the oldest TLPs are sent again [`MAX_TIMEOUTS`] times, at intervals that double.
//! Then the session fails and reports this. So no posted write is dropped, and no read is executed twice. If a
//! receiver cannot accept more TLPs, it withholds credits, and the sender stops.
//!
//! There is no congestion control: the window is the limit. Use sessions only on a loopback or a private network.

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
pub use transmit::SegmentRun;

use tlp::Duration;

/// Size of a sender's ring in bytes.
pub const RING_BYTES: usize = 1 << 20;
/// Capacity of a sender's ring in TLPs. The ring holds TLPs that wait for an Ack or for credits.
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
    #[error("the peer is silent: {MAX_TIMEOUTS} consecutive timeouts")]
    Silent,
    /// The peer has no such session, because it restarted or displaced the session by another.
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
