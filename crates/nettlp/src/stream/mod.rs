// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sessions between riser's peers: each direction a reliable, ordered stream of TLPs over UDP. Sans-IO: time and bytes
//! are arguments; never opens a socket, reads a clock, or allocates for a datagram that comes in order.
//!
//! - [`record`]: the datagrams.
//! - [`Connector`] asks for a session, [`Acceptor`] gives them to many peers; both make [`Session`]s.
//!
//! A sender keeps every TLP in a ring until it is acknowledged, and sends what the peer's credits allow: its window of
//! TLPs beyond those that it has taken. A receiver hands on what is in order and keeps what is ahead; it says what has come
//! (all up to a number, and a bitmap behind that) after every quarter window, after [`ACK_DELAY`], and at once where
//! something is missing or came twice, or where there is no answer to send ([`Session::prompt`]). What the bitmap shows as lost is sent again; so are the oldest when nothing is
//! heard for a while, at intervals that double, [`MAX_TIMEOUTS`] times. Then the session has failed, and says so. So no posted
//! write is ever dropped and no read done twice, and who cannot take more withholds credits, which the sender feels.
//!
//! There is no congestion control: the window is the limit. It is meant for a loopback, or a network of one's own.

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

/// Bytes of the ring of a sender.
pub const RING_BYTES: usize = 1 << 20;
/// TLPs in the ring of a sender: sent and not acknowledged, or waiting for credits.
pub const RING_DATAGRAMS: usize = 2048;
/// Longest time between the arrival of a TLP and the Ack that says so.
pub const ACK_DELAY: Duration = Duration::from_ms(8);
/// Least time without an Ack after which the oldest TLPs are sent again: several times [`ACK_DELAY`].
pub const MIN_RTO: Duration = Duration::from_ms(24);
/// Timeouts in a row after which a peer counts as gone: about 4 s.
pub const MAX_TIMEOUTS: u32 = 12;
/// Silence after which a client asks whether the adapter still knows it.
pub const KEEP_ALIVE: Duration = Duration::from_ms(2_000);
/// Least time between two probes of a sender without credits.
pub const PROBE_INTERVAL: Duration = Duration::from_ms(50);

/// Why a session has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
pub enum SessionError {
    /// Nothing was acknowledged for too long.
    #[error("the peer is silent: {MAX_TIMEOUTS} timeouts in a row")]
    Silent,
    /// The peer knows no such session: it was started anew, or gave the place to another.
    #[error("the peer has forgotten this session")]
    Reset,
    /// The peer has ended it.
    #[error("the peer has ended this session")]
    Closed,
    /// The peer acknowledged what was never sent.
    #[error("the peer acknowledges what was never sent")]
    Protocol,
    /// All 2^47 numbers are used.
    #[error("all 2^47 sequence numbers are used up")]
    Exhausted,
}
