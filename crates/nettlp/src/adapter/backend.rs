// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Interface between an adapter and its backend, which is memory or the slot of a lab. A backend receives only TLPs
//! that are well-formed and allowed.

use crate::carrier::SendError;
use crate::completer::Full;
use crate::dropped::Drops;
use crate::wire::messaging::{Question, Reply};
use capture::encap::PORT_SESSION;
use std::net::{IpAddr, SocketAddr};
use tlp::rules::{Head, Refusal};
use tlp::{Prefixes, Repr, Tag, Time};

/// Path between the adapter and a peer. A completion is sent on the path of its request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PeerPath {
    /// The adapter's UDP port; [`PORT_SESSION`] for a session.
    pub port: u16,
    /// The peer's address and UDP port.
    pub peer: SocketAddr,
}

impl PeerPath {
    /// Returns true if the path is a session: reliable, in order, with credits.
    pub const fn is_session(&self) -> bool {
        self.port == PORT_SESSION
    }
}

/// A complete, legal and allowed TLP from a peer.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// The path on which it arrived.
    pub way: PeerPath,
    /// Its header. If the data of a write arrived incomplete, the byte enables cover only bytes that arrived. (LibTLP
    /// sends 3 bytes when it writes 1 or 2.)
    pub repr: &'a Repr,
    /// Its TLP prefixes.
    pub prefixes: &'a Prefixes,
    /// Its data: [`Repr::data_dw`] whole DWs, big endian as on the wire, so byte lanes are in address order.
    pub data: &'a [u8],
    /// Number of bytes that a read requests after the 4 KiB boundary at which `repr` ends. Nonzero only if [`Backend::reads_across_4k`].
    pub behind_bytes: u32,
}

impl Received<'_> {
    /// Returns the prefixes and the header of the TLP, for the report of a refusal.
    #[must_use]
    pub fn head(&self) -> Head {
        Head::new(self.prefixes, self.repr)
    }
}

/// Output through which a [`Backend`] sends TLPs to peers.
pub trait Outbox {
    /// Returns how many TLPs [`send`](Self::send) accepts now on this path. The credits of a session, or the room
    /// in the queue of a socket, limit this number. Returns 0 if the session has ended.
    fn room(&self, way: PeerPath) -> usize;

    /// Queues a TLP of `len` bytes, which `fill` writes. The caller does not write the NetTLP header.
    ///
    /// # Errors
    /// If there is no room, or the TLP is too long. `fill` is not called then.
    fn send(&mut self, way: PeerPath, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), SendError>;

    /// Returns the path for a request of the host with `tag`, to the peer that serves these requests. The path is
    /// the session of this peer if it has one, otherwise the port of the scheme. Returns `None` if there is no such
    /// peer.
    fn device(&self, tag: Tag) -> Option<PeerPath>;
}

/// Serves the TLPs that an adapter receives. No function blocks: [`advance`](Self::advance) later sends the answers
/// that take time.
pub trait Backend {
    /// Returns true if [`handle`](Self::handle) accepts TLPs. While it returns false, the adapter does not read its
    /// sockets, and their kernel buffers fill. A batch that was already read is still delivered, so keep room for
    /// one batch.
    fn is_ready(&self) -> bool {
        true
    }

    /// Returns true if the backend answers reads across a 4 KiB boundary. No PCI Express device may send such reads
    /// (`PCIe 5.0 §2.2.7`), but LibTLP does. If the function returns false, the adapter refuses them with UR.
    fn reads_across_4k(&self) -> bool {
        false
    }

    /// Returns the peer that serves the host's requests, if the backend chooses it instead of
    /// [`Settings::device`](super::Settings::device). Only a peer with a rule is used.
    fn device(&self) -> Option<IpAddr> {
        None
    }

    /// Returns the reasons why the backend refused TLPs, one reason of each kind.
    fn refusals(&self) -> Vec<Refusal> {
        Vec::new()
    }

    /// Returns the number of [refusals](Self::refusals).
    fn refusal_kinds(&self) -> usize {
        self.refusals().len()
    }

    /// Returns what the backend dropped, with reasons.
    fn drops(&self) -> Drops {
        Drops::default()
    }

    /// Handles a TLP from a peer: a request of the device, or the answer to a request of the host.
    ///
    /// # Errors
    /// [`Full`] if the backend cannot handle the TLP now, for example because the answers do not fit in `out`. A
    /// session then keeps the TLP and withholds credits. On the ports, the datagram is dropped and counted.
    fn handle(&mut self, now: Time, tlp: &Received<'_>, out: &mut dyn Outbox) -> Result<(), Full>;

    /// Sends what is due at `now`: completions and requests of the host. Called after each batch, when
    /// [`poll_timeout`](Self::poll_timeout) is reached, and when there is room again.
    fn advance(&mut self, now: Time, out: &mut dyn Outbox) {
        let _ = (now, out);
    }

    /// Returns when [`advance`](Self::advance) must be called next; `None`: not before another TLP arrives.
    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// Answers a messaging request. Returns `None` if there is no such function: no reply is then sent, and the peer
    /// times out.
    fn message(&mut self, now: Time, question: Question) -> Option<Reply>;

    /// Reads register `register_dw`, 0 to 1023, of the adapter's configuration space.
    fn config_read(&mut self, now: Time, register_dw: u16) -> u32;

    /// Writes the bytes of `byte_enables` (bits 3:0) of a register of the adapter's configuration space.
    fn config_write(&mut self, now: Time, register_dw: u16, byte_enables: u8, value: u32);

    /// Reads one of the adapter's own registers. An absent register reads as 0.
    fn register_read(&mut self, register_dw: u8) -> u32;

    /// Writes one of the adapter's own registers. Read-only registers do not change.
    fn register_write(&mut self, register_dw: u8, value: u32);
}
