// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of a requester. They never decrease.

use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// Kind of a completion that answers no request. Its data is never used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stray {
    /// Is not a TLP: is too short, has a reserved value, or has a length that does not match the datagram.
    Malformed,
    /// Has another Requester ID.
    Requester,
    /// Has a tag without an outstanding request.
    Tag,
    /// Lower Address does not match Byte Count (`PCIe 5.0 §2.3.1.1`).
    LowerAddress,
    /// Byte Count is larger than the number of requested bytes that remain.
    ByteCount,
    /// Has more DWs of data than remain, or overlaps received bytes in part.
    Length,
    /// All its bytes were received before, so it is a duplicated datagram.
    Repeated,
    /// Is successful, but has no data.
    WithoutData,
    /// Is a CplLk or CplDLk, but the requester sends no locked reads.
    Locked,
    /// Has data after a gap, but the requester cannot track one more separate piece.
    Scattered,
}

impl Stray {
    /// All kinds with their JSON names, in numeric order.
    pub const ALL: [(Stray, &str); 10] = [
        (Stray::Malformed, "malformed"),
        (Stray::Requester, "requester"),
        (Stray::Tag, "tag"),
        (Stray::LowerAddress, "lower_address"),
        (Stray::ByteCount, "byte_count"),
        (Stray::Length, "length"),
        (Stray::Repeated, "repeated"),
        (Stray::WithoutData, "without_data"),
        (Stray::Locked, "locked"),
        (Stray::Scattered, "scattered"),
    ];
}

/// Number of strays of each kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Strays([u64; Stray::ALL.len()]);

impl Strays {
    /// Returns the number of strays of this kind.
    pub const fn of(&self, kind: Stray) -> u64 {
        self.0[kind as usize]
    }

    /// Returns the number of strays of all kinds.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the kinds that occurred, by name.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Stray::ALL.iter().map(|(kind, name)| (*name, self.of(*kind))).filter(|(_, count)| *count > 0)
    }

    pub(super) fn count(&mut self, kind: Stray) {
        self.0[kind as usize] += 1;
    }
}

impl Serialize for Strays {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.rows().collect::<BTreeMap<_, _>>().serialize(serializer)
    }
}

impl fmt::Display for Strays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<String> = self.rows().map(|(name, count)| format!("{count} {name}")).collect();
        f.write_str(if kinds.is_empty() { "none" } else { "" })?;
        f.write_str(&kinds.join(", "))
    }
}

/// Counters of sent, received and given-up TLPs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counters {
    /// Sent MRd, including retries.
    pub read_tlps: u64,
    /// Sent MWr.
    pub write_tlps: u64,
    /// MRd that were sent again.
    pub retried: u64,
    /// MRd given up because completions were missing.
    pub timed_out: u64,
    /// Completions that answered a request.
    #[serde(skip)]
    pub completions: u64,
    /// Bytes of data in these completions.
    #[serde(skip)]
    pub read_bytes: u64,
    /// Bytes of data sent.
    #[serde(skip)]
    pub written_bytes: u64,
    /// Completions of abandoned reads that arrived before their tag could be used again.
    pub late: u64,
    /// Duplicated completions of fully answered reads that arrived before their tag could be used again.
    pub copies: u64,
    /// Completions that answered no request.
    pub strays: Strays,
}

impl Counters {
    /// Adds the counters of another requester.
    pub fn add(&mut self, other: &Counters) {
        self.read_tlps += other.read_tlps;
        self.retried += other.retried;
        self.timed_out += other.timed_out;
        self.write_tlps += other.write_tlps;
        self.completions += other.completions;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.late += other.late;
        self.copies += other.copies;
        for (mine, theirs) in self.strays.0.iter_mut().zip(other.strays.0) {
            *mine += theirs;
        }
    }
}
