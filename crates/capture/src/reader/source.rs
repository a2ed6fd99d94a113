// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A window that moves forward over a file. It has at most twice the size of the largest block. [`resync`] finds
//! the next valid record, and [`Order`] reads numbers.

use super::{Defect, Fault, Step};
use std::io::{self, Read};

/// Initial size of the window in bytes, which fits into the cache of a core.
const INITIAL_CAPACITY: usize = 256 << 10;

pub(super) struct Source<R> {
    inner: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    at_end: bool,
    offset: u64,
}

impl<R: Read> Source<R> {
    pub(super) fn new(inner: R) -> Source<R> {
        Source { inner, buffer: vec![0; INITIAL_CAPACITY], start: 0, end: 0, at_end: false, offset: 0 }
    }

    /// Offset of the window's first byte in the file.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the bytes of the window.
    pub(super) fn window(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Reads until the window has `need` bytes. Returns false if the file ends first.
    pub(super) fn need(&mut self, need: usize) -> io::Result<bool> {
        if self.end - self.start >= need {
            return Ok(true);
        }
        self.fill(need)
    }

    #[cold]
    fn fill(&mut self, need: usize) -> io::Result<bool> {
        self.make_room(need);
        while self.end - self.start < need && !self.at_end {
            match self.inner.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(n) => self.end += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(self.end - self.start >= need)
    }

    // The buffer has twice the needed size, so fewer bytes are moved to the front than were consumed since the last
    // move.
    fn make_room(&mut self, need: usize) {
        if self.buffer.len() - self.start >= need {
            return;
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() < need * 2 {
            self.buffer.resize(need * 2, 0);
        }
    }

    /// Moves the start of the window forward by `n` bytes, at most to its end.
    pub(super) fn skip(&mut self, n: usize) {
        let n = n.min(self.end - self.start);
        self.start += n;
        self.offset += n as u64;
    }

    /// Returns `len` bytes that start `back` bytes before the window. They were just skipped and are still in the
    /// buffer.
    pub(super) fn behind(&self, back: usize, len: usize) -> &[u8] {
        let from = self.start.saturating_sub(back);
        &self.buffer[from..(from + len).min(self.end)]
    }
}

/// Moves to the next position where `is_sound` accepts the window, which has `need` bytes or ends with the file.
pub(super) fn resync<R: Read>(
    source: &mut Source<R>,
    what: Defect,
    need: usize,
    is_sound: impl Fn(&[u8]) -> bool,
) -> io::Result<Step> {
    let offset = source.offset();
    loop {
        source.skip(1);
        source.need(need)?;
        if source.window().is_empty() || is_sound(source.window()) {
            return Ok(Step::Fault(Fault::Corrupt { offset, what, skipped: source.offset() - offset }));
        }
    }
}

/// Returns `Step::End` at the end of the file, or a fault if a truncated record is left.
pub(super) fn cut_short<R: Read>(source: &mut Source<R>, need: usize) -> Step {
    let (offset, have) = (source.offset(), source.window().len());
    if have == 0 {
        return Step::End;
    }
    source.skip(have);
    Step::Fault(Fault::Truncated { offset, need, have })
}

/// The byte order of a file or section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    Big,
    Little,
}

impl Order {
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let word = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        if self == Order::Big { word.swap_bytes() } else { word }
    }

    pub(super) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let bytes = &bytes[at..at + 4];
        let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        if self == Order::Big { word.swap_bytes() } else { word }
    }

    pub(super) fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let (first, second) = (u64::from(self.u32(bytes, at)), u64::from(self.u32(bytes, at + 4)));
        if self == Order::Big { first << 32 | second } else { second << 32 | first }
    }
}
