// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Datagrams and completions that one end of NetTLP drops. For each reason, records their number and the first of
//! them. Does not decide what is dropped.

use crate::adapter::PeerPath;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::fmt;
use std::net::SocketAddr;
use tlp::Time;
use tlp::rules::Head;

/// Maximum number of bytes kept of a datagram that is not a TLP.
const START_BYTES: usize = 24;

/// Reason for dropping a datagram or a completion that breaks no rule of PCI Express.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DropReason {
    /// There is no room for a datagram or for its answer.
    NoRoom,
    /// The sockets did not accept a completion.
    LostCompletion,
    /// The datagram is not a NetTLP datagram.
    Malformed,
    /// The datagram fails authentication with the keys of its session.
    Unauthentic,
    /// A TLP of a session exceeds the granted credits.
    BeyondCredits,
    /// A completion arrived on another path than its request used.
    WrongPort,
}

impl DropReason {
    const ALL: [DropReason; 6] = [
        DropReason::NoRoom,
        DropReason::LostCompletion,
        DropReason::Malformed,
        DropReason::Unauthentic,
        DropReason::BeyondCredits,
        DropReason::WrongPort,
    ];

    /// Returns the name of the counter for this reason.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::NoRoom => "no_room",
            DropReason::LostCompletion => "lost_completions",
            DropReason::Malformed => "malformed",
            DropReason::Unauthentic => "unauthentic",
            DropReason::BeyondCredits => "beyond_credits",
            DropReason::WrongPort => "wrong_port",
        }
    }

    /// Returns the reason as a phrase.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            DropReason::NoRoom => {
                "no room for the TLP or its answer; only sessions have credits that prevent this"
            }
            DropReason::LostCompletion => "the socket did not accept the completion of this request",
            DropReason::Malformed => "the datagram is not a NetTLP datagram",
            DropReason::Unauthentic => "the datagram fails authentication with the keys of the session",
            DropReason::BeyondCredits => "the TLP exceeds the granted credits",
            DropReason::WrongPort => "the completion has other UDP ports than its request",
        }
    }
}

/// The first datagram that was dropped for a reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum First {
    Tlp(Head),
    Datagram {
        start: [u8; START_BYTES],
        len: usize,
    },
    /// A completion that arrived on the path `found`. `expected` is the path of a request with its tag; `None` if the
    /// host's requests have no peer.
    OnPath {
        tlp: Head,
        found: PeerPath,
        expected: Option<PeerPath>,
    },
}

impl fmt::Display for First {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            First::Tlp(head) => write!(f, "{head}"),
            First::OnPath { tlp, found, expected } => {
                write!(f, "UDP port {:#06x} to {:#06x}, expected ", found.peer.port(), found.port)?;
                match expected {
                    Some(PeerPath { port, peer }) => {
                        write!(f, "{:#06x} to {port:#06x} of {}: {tlp}", peer.port(), peer.ip())
                    }
                    None => write!(f, "no completion, because no peer serves the host's requests: {tlp}"),
                }
            }
            First::Datagram { start, len } => {
                write!(f, "datagram of {len} bytes")?;
                start.iter().take(*len).enumerate().try_for_each(|(n, byte)| {
                    f.write_str(if n % 4 == 0 { " " } else { "" })?;
                    write!(f, "{byte:02x}")
                })?;
                f.write_str(if *len > START_BYTES { " ..." } else { "" })
            }
        }
    }
}

/// Datagrams or completions dropped for one reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dropped {
    /// The reason.
    pub reason: DropReason,
    /// Number of datagrams or completions.
    pub count: u64,
    /// Time when the first of them was dropped.
    pub at: Time,
    /// Sender of the first datagram. For a lost completion, the requester.
    pub peer: Option<SocketAddr>,
    first: First,
}

/// Has the form `3 dropped, no_room: no room ...; first at 12 us from 10.0.0.3:12288: MRd, len 1, ...`.
impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Dropped { reason, count, at, peer, first } = self;
        write!(f, "{count} dropped, {}: {}; first at {at}", reason.name(), reason.text())?;
        peer.iter().try_for_each(|peer| write!(f, " from {peer}"))?;
        write!(f, ": {first}")
    }
}

impl Serialize for Dropped {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Dropped", 6)?;
        object.serialize_field("reason", self.reason.name())?;
        object.serialize_field("text", self.reason.text())?;
        object.serialize_field("count", &self.count)?;
        object.serialize_field("at_ps", &self.at.as_ps())?;
        object.serialize_field("peer", &self.peer)?;
        object.serialize_field("first", &self.first.to_string())?;
        object.end()
    }
}

/// Dropped datagrams and completions, by reason.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drops([Option<Dropped>; DropReason::ALL.len()]);

impl Drops {
    /// Counts a TLP that `peer` has sent. For each reason, keeps the first TLP.
    #[cold]
    pub fn record_tlp(&mut self, now: Time, reason: DropReason, peer: Option<SocketAddr>, tlp: Head) {
        self.add(&Dropped { reason, count: 1, at: now, peer, first: First::Tlp(tlp) });
    }

    /// Counts a datagram that is not a TLP and that `peer` has sent. For each reason, keeps the first bytes of the
    /// first datagram.
    #[cold]
    pub fn record_datagram(
        &mut self,
        now: Time,
        reason: DropReason,
        peer: Option<SocketAddr>,
        datagram: &[u8],
    ) {
        let mut start = [0; START_BYTES];
        start.iter_mut().zip(datagram).for_each(|(to, from)| *to = *from);
        let first = First::Datagram { start, len: datagram.len() };
        self.add(&Dropped { reason, count: 1, at: now, peer, first });
    }

    /// Counts a completion that arrived on the path `found` instead of `expected`. Keeps the first completion.
    #[cold]
    pub fn record_wrong_port(
        &mut self,
        now: Time,
        found: PeerPath,
        expected: Option<PeerPath>,
        completion: Head,
    ) {
        let first = First::OnPath { tlp: completion, found, expected };
        self.add(&Dropped {
            reason: DropReason::WrongPort,
            count: 1,
            at: now,
            peer: Some(found.peer),
            first,
        });
    }

    /// Adds the drops of another end with the same clock. Keeps the earlier of the two first datagrams.
    pub fn add(&mut self, other: &Dropped) {
        let mine = &mut self.0[other.reason as usize];
        *mine = Some(match *mine {
            Some(mine) => {
                let first = if other.at < mine.at { *other } else { mine };
                Dropped { count: mine.count + other.count, ..first }
            }
            None => *other,
        });
    }

    /// Adds all drops of `others`, as if `peer` had sent the datagrams.
    pub fn extend_from(&mut self, others: &Drops, peer: Option<SocketAddr>) {
        others.iter().for_each(|other| self.add(&Dropped { peer: peer.or(other.peer), ..*other }));
    }

    /// Returns the drops of each reason that has occurred.
    pub fn iter(&self) -> impl Iterator<Item = &Dropped> {
        self.0.iter().flatten()
    }
}
