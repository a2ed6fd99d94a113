// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file seen through a window that slides forward. Never holds more than twice the largest block.

use std::io::{self, Read};

/// Bytes of the window at first: small enough to stay in a core's cache.
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

    /// Offset in the file of the window's first byte.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The bytes at hand.
    pub(super) fn window(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Makes `need` bytes available, if the file has them; says whether it does.
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

    // Twice the need, so that the bytes moved to the front stay fewer than those consumed in between.
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

    /// Moves the window's start `n` bytes on, at most to its end.
    pub(super) fn skip(&mut self, n: usize) {
        let n = n.min(self.end - self.start);
        self.start += n;
        self.offset += n as u64;
    }

    /// The `len` bytes that lie `back` bytes before the window: what was just skipped and not yet overwritten.
    pub(super) fn behind(&self, back: usize, len: usize) -> &[u8] {
        let from = self.start.saturating_sub(back);
        &self.buffer[from..(from + len).min(self.end)]
    }
}
