// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a requester has counted. Counts only grow.

use std::fmt;

/// A completion that answers nothing, and why. None ever becomes data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stray {
    /// No TLP: too short, a reserved field, a length that does not fit the datagram.
    Malformed,
    /// Answers another Requester ID.
    Requester,
    /// Answers a tag that asks for nothing now.
    Tag,
    /// Lower Address is not that of the bytes that its Byte Count names (`PCIe 5.0 §2.3.1.1`).
    LowerAddress,
    /// More bytes remain than were asked for.
    ByteCount,
    /// Its data has more DWs than remain, or bytes that have come already in part.
    Length,
    /// Its bytes have come already: a doubled datagram.
    Repeated,
    /// Successful, but without data.
    WithoutData,
    /// CplLk or CplDLk: nothing locked was asked for.
    Locked,
    /// More pieces ahead of a gap than are kept apart.
    Scattered,
}

impl Stray {
    /// Every kind with its name as in JSON, in the order of their numbers.
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

/// Strays by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Strays([u64; Stray::ALL.len()]);

impl Strays {
    /// How many of this kind.
    pub const fn of(&self, kind: Stray) -> u64 {
        self.0[kind as usize]
    }

    /// How many of all kinds.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The kinds that have come, by their names.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Stray::ALL.iter().map(|(kind, name)| (*name, self.of(*kind))).filter(|(_, count)| *count > 0)
    }

    pub(super) fn count(&mut self, kind: Stray) {
        self.0[kind as usize] += 1;
    }
}

impl fmt::Display for Strays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<String> = self.rows().map(|(name, count)| format!("{count} {name}")).collect();
        f.write_str(if kinds.is_empty() { "none" } else { "" })?;
        f.write_str(&kinds.join(", "))
    }
}

/// What a requester has sent, received and given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// MRd sent, those sent again among them.
    pub read_tlps: u64,
    /// MRd sent again.
    pub retried: u64,
    /// MRd given up for want of completions.
    pub timed_out: u64,
    /// MWr sent.
    pub write_tlps: u64,
    /// Completions that were answers.
    pub completions: u64,
    /// Bytes of data that they brought.
    pub read_bytes: u64,
    /// Bytes of data sent.
    pub written_bytes: u64,
    /// Completions of reads that were given up, while their tag rests.
    pub late: u64,
    /// Completions of reads that were answered in full, while their tag rests: copies.
    pub copies: u64,
    /// Completions that were answers to nothing.
    pub strays: Strays,
}

impl Counters {
    /// Adds what another requester has counted.
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
