// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The record format: every input of a lab from outside, with its virtual time. A record is sufficient to repeat the
//! run exactly without the outside.
//!
//! ```text
//! "riser lab recording 4\n"
//! u32 length, path of the lab file     u32 length, its text     u64 seed
//! u32 count of the files that the lab names, and of each: u32 length, its name in the lab     u32 length, its bytes
//! u32 count of the overriding keys, and of each: u32 length, KEY=VALUE
//! u32 count of the places where the outside joins, and of each: u32 length, its name
//! then entries, each: u8 kind, and
//!   1 an input            u64 time in ps, u16 place, u32 length, bytes in the format of the place
//!   2 an answer of memory u16 place, u8 what, u64 address, u32 length, bytes: of memory that riser does not own
//!                         what: 0 bytes read, 1 a failed read, 2 a failed write, 3 the value before an AtomicOp,
//!                         4 a failed AtomicOp, 5 bytes that another program must provide later; failed
//!                         accesses have no bytes
//!   3 full                the size limit is reached
//!   4 the end             u64 time in ps
//! ```
//!
//! Numbers are little endian; a place is its index in the head's list. Maps and unmaps of memory are inputs of the
//! memory's host, frames of a cable are inputs of the cable's place. An answer of memory follows the input that led to
//! its request. Writes to memory that riser does not own are not recorded, because the replay computes them again.
//!
//! Versions 1 to 3, `riser nettlp record`, knew one place; see [`old`](super::old).

use super::bytes::Put;
use std::io::{self, Write};
use tlp::Time;

use plug::file::KeptFiles;

/// The first line, with the version of the format.
pub(super) const MAGIC: &[u8] = b"riser lab recording 4\n";
/// Kinds of entries in the format.
pub(super) const INPUT: u8 = 1;
pub(super) const ANSWER: u8 = 2;
pub(super) const FULL: u8 = 3;
pub(super) const END: u8 = 4;
/// Bytes reserved in a record, for its end or the mark that it is full.
const END_BYTES: u64 = 9;

/// Lab of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordedLab {
    /// Path of the lab file, as the user named it.
    pub path: String,
    /// Text of the lab file.
    pub text: String,
    /// The overriding keys, in the format of [`Overrides`](lab::Overrides).
    pub set: Vec<String>,
    /// Seed of the lab.
    pub seed: u64,
    /// The files that the lab names, by these names; `None` for a record of version 1, which holds no files.
    pub files: Option<KeptFiles>,
}

/// An answer of memory that riser does not own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    /// The place of the memory's host.
    pub(crate) place: u16,
    pub(crate) what: Answered,
    pub(crate) address: u64,
    pub(crate) bytes: Vec<u8>,
}

/// The request to memory and its outcome. A write that succeeded is not recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answered {
    Read,
    ReadFailed,
    WriteFailed,
    Atomic,
    AtomicFailed,
    /// The bytes are remote, and were requested.
    Awaited,
}

impl Answered {
    pub(super) const ALL: [Answered; 6] = [
        Answered::Read,
        Answered::ReadFailed,
        Answered::WriteFailed,
        Answered::Atomic,
        Answered::AtomicFailed,
        Answered::Awaited,
    ];
}

/// The size of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct RecordSize {
    /// Bytes of the record.
    pub bytes: u64,
    /// Number of entries that did not fit. The record ends before the first of them.
    pub left_out: u64,
}

/// Writes a record. Write errors are reported when it [ends](Recorder::finish).
pub(crate) struct Recorder {
    out: Box<dyn Write>,
    failed: Option<io::Error>,
    buffer: Vec<u8>,
    size: RecordSize,
    limit: u64,
}

impl Recorder {
    /// Returns a record of `lab` with these places, in at most `limit` bytes, or only its head if that is longer.
    pub(crate) fn new(out: Box<dyn Write>, lab: &RecordedLab, places: &[String], limit: u64) -> Recorder {
        let size = RecordSize::default();
        let mut recorder = Recorder { out, failed: None, buffer: Vec::new(), size, limit };
        let buffer = &mut recorder.buffer;
        buffer.extend_from_slice(MAGIC);
        buffer.put_counted(lab.path.as_bytes());
        buffer.put_counted(lab.text.as_bytes());
        buffer.put_u64(lab.seed);
        let files = lab.files.iter().flatten();
        buffer.put_u32(lab.files.as_ref().map_or(0, |files| files.len() as u32));
        for (name, bytes) in files {
            buffer.put_counted(name.as_bytes());
            buffer.put_counted(bytes);
        }
        for list in [&lab.set[..], places] {
            buffer.put_u32(list.len() as u32);
            list.iter().for_each(|text| buffer.put_counted(text.as_bytes()));
        }
        recorder.write();
        recorder
    }

    /// Records an input of `place`, which `emit` writes.
    pub(crate) fn input(&mut self, time: Time, place: u16, emit: impl FnOnce(&mut Vec<u8>)) {
        self.entry(|buffer| {
            buffer.put_u8(INPUT);
            buffer.put_u64(time.as_ps());
            buffer.put_u16(place);
            let length_at = buffer.len();
            buffer.put_u32(0);
            emit(buffer);
            let len = (buffer.len() - length_at - 4) as u32;
            buffer[length_at..length_at + 4].copy_from_slice(&len.to_le_bytes());
        });
    }

    /// Records an answer of memory.
    pub(crate) fn answer(&mut self, place: u16, what: Answered, address: u64, bytes: &[u8]) {
        self.entry(|buffer| {
            buffer.put_u8(ANSWER);
            buffer.put_u16(place);
            buffer.put_u8(what as u8);
            buffer.put_u64(address);
            buffer.put_counted(bytes);
        });
    }

    fn entry(&mut self, emit: impl FnOnce(&mut Vec<u8>)) {
        if self.size.left_out > 0 {
            self.size.left_out += 1;
            return;
        }
        emit(&mut self.buffer);
        let bytes = self.size.bytes + self.buffer.len() as u64;
        if bytes.saturating_add(END_BYTES) > self.limit {
            self.buffer.clear();
            self.buffer.put_u8(FULL);
            self.size.left_out = 1;
        }
        self.write();
    }

    fn write(&mut self) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(&self.buffer).err();
            self.size.bytes += self.buffer.len() as u64;
        }
        self.buffer.clear();
    }

    /// Ends the record.
    ///
    /// # Errors
    /// The first error of a write.
    pub(crate) fn finish(mut self, time: Time) -> io::Result<RecordSize> {
        if self.size.left_out == 0 {
            self.buffer.put_u8(END);
            self.buffer.put_u64(time.as_ps());
            self.write();
        }
        match self.failed {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.size),
        }
    }
}
