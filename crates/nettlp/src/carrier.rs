// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What carries whole TLPs between two peers. Never looks into a TLP beyond what names its port.

use capture::encap::Origin;
use std::io;
use tlp::message::VENDOR_DEFINED_TYPE_1;
use tlp::{Bdf, Body, Duration, Message, MessageRouting, Repr, Tag};

/// A TLP that has arrived, without its NetTLP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival<'a> {
    /// Who issued the request that it is or answers, as far as its port says; in a session always said.
    pub origin: Origin,
    /// Header and payload, big endian, as on a PCI Express link, with neither ECRC nor LCRC. Not checked yet.
    pub tlp: &'a [u8],
    /// Sequence number of its NetTLP header: the adapter's own count, 0 from upstream's software.
    pub sequence: u16,
    /// Timestamp of its NetTLP header, ticks of 6.4 ns; 0 from software.
    pub timestamp: u32,
}

/// How long [`Carrier::receive`] may wait for the first TLP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Not at all.
    Never,
    /// Asleep, at most so long.
    AtMost(Duration),
    /// Asking again and again, at most so long: the least latency for a whole core.
    Busy(Duration),
}

impl Wait {
    /// The most that it may last.
    #[must_use]
    pub const fn longest(self) -> Duration {
        match self {
            Wait::Never => Duration::ZERO,
            Wait::AtMost(most) | Wait::Busy(most) => most,
        }
    }
}

/// Why a TLP was not taken to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SendError {
    /// No room: credits or the send queue are used up. Flush, receive, and try again.
    #[error("no room to send: flush and receive first")]
    NoRoom,
    /// Larger than a datagram of this carrier may be.
    #[error("a TLP of {bytes} bytes, at most {most} travel in a datagram here")]
    TooLong {
        /// Its bytes.
        bytes: usize,
        /// Most that are legal.
        most: usize,
    },
    /// The carrier has no port for this tag.
    #[error("tag {0:#x} has no port here")]
    Tag(u16),
}

/// Two peers' way of exchanging TLPs, seen from one of them.
///
/// Sent TLPs may wait for [`flush`](Self::flush), so that batches form.
pub trait Carrier {
    /// Whether every TLP arrives, once, and those of one direction in order. Where not, datagrams may be lost, doubled and
    /// overtake each other.
    fn is_reliable(&self) -> bool;

    /// The tags that device-issued requests may have here: those with a port of their own, or all.
    fn tags(&self) -> std::ops::RangeInclusive<u16>;

    /// TLPs that [`send`](Self::send) takes now.
    fn room(&self) -> usize;

    /// Puts a TLP of `len` bytes, which `fill` writes, in line to be sent. `origin` and `tag` name its port.
    ///
    /// # Errors
    /// Where there is no room, no port, or the TLP is too long; `fill` is not called then.
    fn send(
        &mut self,
        origin: Origin,
        tag: Tag,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), SendError>;

    /// Hands what waits to the network, as far as it takes it.
    ///
    /// # Errors
    /// Those of the sockets. `ConnectionRefused`: nobody is there.
    fn flush(&mut self) -> io::Result<()>;

    /// Gives what has arrived to `take`, and says how many TLPs that were: one batch, not all there is. Does what timers ask
    /// for on the way. Ends with none as soon as there is [`room`](Self::room) again where there was none.
    ///
    /// # Errors
    /// Those of the sockets. `ConnectionRefused`: nobody is there. `ConnectionReset`: the peer has forgotten or ended this
    /// session. `TimedOut`: the session's peer has been silent for too long.
    fn receive(&mut self, wait: Wait, take: impl FnMut(Arrival<'_>)) -> io::Result<usize>;

    /// Whether no TLP waits to be sent or, in a session, to be acknowledged.
    fn is_idle(&self) -> bool;
}

/// What device software says first in a session: a Vendor_Defined message of Type 1, which whoever does not know it drops
/// (`PCIe 5.0 §2.2.8.6`). By it the adapter learns which session serves its host's requests, before there is one.
pub const fn announcement(id: Bdf) -> Repr {
    Repr::new(Body::Message(Message {
        routing: MessageRouting::ToRootComplex,
        requester: id,
        tag: Tag::from_bits(0),
        code: VENDOR_DEFINED_TYPE_1,
        header: [0; 8],
        length_dw: None,
    }))
}

/// Tells the adapter that this session serves its host's requests. Ports say so by themselves: nothing is sent there.
///
/// # Errors
/// Where there is no room.
pub fn announce(carrier: &mut impl Carrier, id: Bdf) -> Result<(), SendError> {
    if !carrier.is_reliable() {
        return Ok(());
    }
    let repr = announcement(id);
    carrier.send(Origin::Device, Tag::default(), repr.header_len(), |bytes| _ = repr.emit(bytes))
}

/// Whether it is an [`announcement`], of whichever device.
pub(crate) fn is_announcement(repr: &Repr) -> bool {
    matches!(&repr.body, Body::Message(message) if message.code == VENDOR_DEFINED_TYPE_1 && message.header == [0; 8])
}
