// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A carrier exchanges complete TLPs between two peers. It reads only the parts of a TLP that select its port.

use capture::encap::Origin;
use std::io;
use tlp::message::VENDOR_DEFINED_TYPE_1;
use tlp::{Bdf, Body, Duration, Message, MessageRouting, Repr, Tag};

/// A received TLP, without its NetTLP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival<'a> {
    /// Issuer of the request. The request is the TLP itself, or the request that the TLP answers. In a session the
    /// issuer is always known. Over ports, it is derived from the port as far as possible.
    pub origin: Origin,
    /// Header and payload, big endian, as on a PCI Express link, without ECRC and LCRC. The bytes are not checked yet.
    pub tlp: &'a [u8],
    /// Sequence number in its NetTLP header. It is the adapter's own count; upstream's software sends 0.
    pub sequence: u16,
    /// Timestamp in its NetTLP header, in ticks of 6.4 ns. Software sends 0.
    pub timestamp: u32,
}

/// How long [`Carrier::receive`] may wait for the first TLP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Does not wait.
    Never,
    /// Sleeps, at most this long.
    AtMost(Duration),
    /// Polls without sleeping, at most this long. Has the lowest latency, but uses a whole core.
    Busy(Duration),
}

impl Wait {
    /// Returns the longest possible wait.
    #[must_use]
    pub const fn longest(self) -> Duration {
        match self {
            Wait::Never => Duration::ZERO,
            Wait::AtMost(most) | Wait::Busy(most) => most,
        }
    }
}

/// Reason why a TLP could not be queued for sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SendError {
    /// There is no room: no credits are left, or the send queue is full. Flush, receive, and try again.
    #[error("no room to send: flush and receive first")]
    NoRoom,
    /// The TLP is larger than a datagram of this carrier may be.
    #[error("a TLP of {bytes} bytes does not fit in a datagram; expected at most {most} bytes")]
    TooLong {
        /// Size of the TLP in bytes.
        bytes: usize,
        /// Maximum size in bytes.
        most: usize,
    },
    /// The carrier has no port for this tag.
    #[error("this connection has no port for tag {0:#x}")]
    Tag(u16),
}

/// Connection between two peers for TLPs, seen from one of them.
///
/// Sent TLPs may wait for [`flush`](Self::flush), so that they are sent in batches.
pub trait Carrier {
    /// Returns true if every TLP arrives exactly once, and TLPs of one direction arrive in order. If false, datagrams may be lost,
    /// duplicated and reordered.
    fn is_reliable(&self) -> bool;

    /// Returns the tags that device-issued requests may use. Over ports these are the tags that have a port; in a
    /// session, all tags.
    fn tags(&self) -> std::ops::RangeInclusive<u16>;

    /// Returns how many TLPs [`send`](Self::send) accepts now.
    fn room(&self) -> usize;

    /// Queues a TLP of `len` bytes, which `fill` writes. `origin` and `tag` select its port.
    ///
    /// # Errors
    /// If there is no room, no port, or the TLP is too long. `fill` is not called then.
    fn send(
        &mut self,
        origin: Origin,
        tag: Tag,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), SendError>;

    /// Sends queued TLPs, as many as the network accepts.
    ///
    /// # Errors
    /// Errors of the sockets. `ConnectionRefused`: no program listens at the peer.
    fn flush(&mut self) -> io::Result<()>;

    /// Passes one batch of received TLPs to `take`, and returns their number. More TLPs may be waiting. Also runs expired timers.
    /// If there was no [`room`](Self::room), returns 0 as soon as there is room.
    ///
    /// # Errors
    /// Errors of the sockets. `ConnectionRefused`: no program listens at the peer. `ConnectionReset`: the peer has lost or ended
    /// this session. `TimedOut`: the peer of the session has been silent for too long.
    fn receive(&mut self, wait: Wait, take: impl FnMut(Arrival<'_>)) -> io::Result<usize>;

    /// Returns true if no TLP waits to be sent or, in a session, to be acknowledged.
    fn is_idle(&self) -> bool;
}

/// Returns the first TLP that device software sends in a session: a Vendor_Defined message of Type 1. A receiver that does not
/// know this message discards it (`PCIe 5.0 §2.2.8.6`). The message tells the adapter which session serves its
/// host's requests, before there is a request.
pub const fn announcement(id: Bdf) -> Repr {
    Repr::new(Body::Message(Message::new(MessageRouting::ToRootComplex, id, VENDOR_DEFINED_TYPE_1)))
}

/// Tells the adapter that this session serves its host's requests. Over ports, sends nothing, because the port
/// identifies the device.
///
/// # Errors
/// If there is no room.
pub fn announce(carrier: &mut impl Carrier, id: Bdf) -> Result<(), SendError> {
    if !carrier.is_reliable() {
        return Ok(());
    }
    let repr = announcement(id);
    carrier.send(Origin::Device, Tag::default(), repr.header_len(), |bytes| _ = repr.emit(bytes))
}

/// Returns true if the header is an [`announcement`] of any device.
pub(crate) fn is_announcement(repr: &Repr) -> bool {
    matches!(&repr.body, Body::Message(message) if message.code == VENDOR_DEFINED_TYPE_1 && message.header == [0; 8])
}
