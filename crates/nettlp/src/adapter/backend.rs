// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What stands behind an adapter: memory, or the slot of a lab. Never sees a TLP that is malformed or not allowed.

use crate::carrier::SendError;
use crate::completer::Full;
use crate::dropped::Drops;
use crate::wire::messaging::{Reply, Request};
use capture::encap::PORT_SESSION;
use std::net::SocketAddr;
use tlp::rules::{Head, Refusal};
use tlp::{Prefixes, Repr, Tag, Time};

/// The way between the adapter and a peer: an answer takes the way of its request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Way {
    /// The adapter's UDP port; [`PORT_SESSION`] for a session.
    pub port: u16,
    /// The peer's address and UDP port.
    pub peer: SocketAddr,
}

impl Way {
    /// Whether it is a session: reliable, in order, with credits.
    pub const fn is_session(&self) -> bool {
        self.port == PORT_SESSION
    }
}

/// A TLP of a peer: legal, whole, and allowed.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// How it came.
    pub way: Way,
    /// Its header. Of a write whose data came incomplete (LibTLP sends 3 bytes where it writes 1 or 2) the byte enables name
    /// only bytes that came.
    pub repr: &'a Repr,
    /// Prefixes before it.
    pub prefixes: &'a Prefixes,
    /// Its data, [`Repr::data_dw`] whole DWs, big endian as on the wire: byte lanes in the order of addresses.
    pub data: &'a [u8],
    /// Of a read across a 4 KiB boundary, where [`Backend::reads_across_4k`]: bytes behind the boundary, at which `repr` ends.
    pub behind_bytes: u32,
}

impl Received<'_> {
    /// Its prefixes and header, for a refusal.
    #[must_use]
    pub fn head(&self) -> Head {
        Head::new(self.prefixes, self.repr)
    }
}

/// Where a [`Backend`] puts TLPs for peers.
pub trait Outbox {
    /// TLPs that [`send`](Self::send) takes now on this way: credits of a session, room in the queue of a socket; 0 where a
    /// session has ended.
    fn room(&self, way: Way) -> usize;

    /// Puts a TLP of `len` bytes, which `fill` writes, in line to be sent. The NetTLP header is not the caller's business.
    ///
    /// # Errors
    /// Where there is no room, or the TLP is too long; `fill` is not called then.
    fn send(&mut self, way: Way, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), SendError>;

    /// The way to the peer that serves the host's requests, for a request under `tag`: its session where it has one, else the
    /// port of the scheme. `None` where there is no such peer.
    fn device(&self, tag: Tag) -> Option<Way>;
}

/// What stands behind an adapter. Nothing here waits: what takes time is answered later, from [`advance`](Self::advance).
pub trait Backend {
    /// Whether [`handle`](Self::handle) takes TLPs. While it says no, sockets are not read, and their kernel buffers fill; a
    /// batch that was read already is still handed over, so keep room for one.
    fn is_ready(&self) -> bool {
        true
    }

    /// Whether it answers reads across a 4 KiB boundary, which no PCI Express device may send (`PCIe 5.0 §2.2.7`), but
    /// LibTLP does. Where not, they are refused with UR.
    fn reads_across_4k(&self) -> bool {
        false
    }

    /// Why it refused TLPs, one of each kind.
    fn refusals(&self) -> Vec<Refusal> {
        Vec::new()
    }

    /// The number of [refusals](Self::refusals).
    fn refusal_kinds(&self) -> usize {
        self.refusals().len()
    }

    /// What it dropped, and why.
    fn drops(&self) -> Drops {
        Drops::default()
    }

    /// Takes a TLP of a peer: a request of the device, or the answer to one of the host.
    ///
    /// # Errors
    /// [`Full`] where it cannot now, also where the answers would find no room in `out`. The TLP is not taken then: a session
    /// keeps it and withholds credits; a datagram is dropped and counted.
    fn handle(&mut self, now: Time, tlp: &Received<'_>, out: &mut dyn Outbox) -> Result<(), Full>;

    /// Sends what is due at `now`: completions, requests of the host. Called after each batch, when [`poll_timeout`](Self::poll_timeout)
    /// has come, and when there is room again.
    fn advance(&mut self, now: Time, out: &mut dyn Outbox) {
        let _ = (now, out);
    }

    /// When [`advance`](Self::advance) has to be called next; `None`: not before another TLP comes.
    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// Answers a question of messaging; `None`: not known (no answer is sent, and the peer's wait ends).
    fn message(&mut self, now: Time, request: Request) -> Option<Reply>;

    /// Reads register `register_dw`, 0 to 1023, of the adapter's configuration space.
    fn config_read(&mut self, now: Time, register_dw: u16) -> u32;

    /// Writes the bytes of `byte_enables` (bits 3:0) of a register of the adapter's configuration space.
    fn config_write(&mut self, now: Time, register_dw: u16, byte_enables: u8, value: u32);

    /// Reads one of the adapter's own registers; 0 where there is none.
    fn register_read(&mut self, register_dw: u8) -> u32;

    /// Writes one of the adapter's own registers; read-only ones stay.
    fn register_write(&mut self, register_dw: u8, value: u32);
}
