// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Output of an adapter. Writes the NetTLP header of each TLP, and selects the path to the peer that serves the host's
//! requests. Has no queue.

use super::backend::{Outbox, PeerPath};
use crate::carrier::SendError;
use crate::completer::Completions;
use crate::wire::header::{self, NETTLP_LEN, NettlpHeader, ticks};
use capture::encap::{Origin, PORT_SESSION, PortScheme};
use std::net::{IpAddr, SocketAddr};
use tlp::{Tag, Time};

/// Output for the datagrams of an adapter: its sockets, or a test.
pub trait Datagrams {
    /// Returns how many datagrams [`send`](Self::send) accepts now, from this port of the adapter to this peer.
    fn room(&self, port: u16, to: SocketAddr) -> usize;

    /// Queues a datagram of `len` bytes, which `fill` writes. For a session (`port` is [`PORT_SESSION`]) the first six bytes
    /// are reserved for the session.
    ///
    /// # Errors
    /// If there is no room, no such port, or the datagram is too long. `fill` is not called then.
    fn send(
        &mut self,
        port: u16,
        to: SocketAddr,
        len: usize,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), SendError>;

    /// Returns true if this peer has a session.
    fn has_session(&self, peer: SocketAddr) -> bool;
}

/// The peer that serves the host's requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Device {
    pub(super) address: IpAddr,
    /// UDP port of the session that the peer announced. `None` before the first announcement.
    pub(super) session: Option<u16>,
}

/// Sequence count of an adapter, and counts of the TLPs that it sent while it handled one TLP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tally {
    pub(super) sequence: u16,
    pub(super) tlps: u64,
    pub(super) bytes: u64,
}

/// Sends TLPs at time `now`, in datagrams with that timestamp.
pub(super) struct Egress<'a> {
    pub(super) now: Time,
    pub(super) datagrams: &'a mut dyn Datagrams,
    pub(super) tally: &'a mut Tally,
    pub(super) device: Option<Device>,
    pub(super) scheme: PortScheme,
}

impl Outbox for Egress<'_> {
    fn room(&self, way: PeerPath) -> usize {
        self.datagrams.room(way.port, way.peer)
    }

    fn send(&mut self, way: PeerPath, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), SendError> {
        let header = NettlpHeader { sequence: self.tally.sequence, timestamp: ticks(self.now) };
        self.datagrams.send(way.port, way.peer, NETTLP_LEN + len, &mut |slot| {
            if let Some((front, tlp)) = slot.split_first_chunk_mut() {
                header::emit(header, front);
                fill(tlp);
            }
        })?;
        self.tally.sequence = self.tally.sequence.wrapping_add(1);
        self.tally.tlps += 1;
        self.tally.bytes += len as u64;
        Ok(())
    }

    fn device(&self, tag: Tag) -> Option<PeerPath> {
        let device = self.device?;
        let way = |port, peer_port| PeerPath { port, peer: SocketAddr::new(device.address, peer_port) };
        let session = device.session.map(|port| way(PORT_SESSION, port));
        let tagged = self.scheme.port(Origin::Host, tag);
        Some(session.filter(|s| self.datagrams.has_session(s.peer)).unwrap_or(way(tagged, tagged)))
    }
}

/// Sends completions to the sender of a request.
pub(super) struct Back<'a, 'b> {
    pub(super) out: &'a mut (dyn Outbox + 'b),
    pub(super) way: PeerPath,
    /// Number of completions that the sockets rejected although they had reported room.
    pub(super) lost: u64,
}

impl Completions for Back<'_, '_> {
    fn room(&self) -> usize {
        self.out.room(self.way)
    }

    fn send(&mut self, len: usize, fill: &mut dyn FnMut(&mut [u8])) {
        self.lost += u64::from(self.out.send(self.way, len, fill).is_err());
    }
}
