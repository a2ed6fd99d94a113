// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The two directions of a connection: bytes to messages, and messages to bytes.

use super::MAX_FDS;
use super::refusal::HangUp;
use super::wire::{HEADER_BYTES, Header, REPLY, TYPE};
use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::OwnedFd;

/// Maximum number of bytes of whole messages sent in one call. A socket accepts this number of bytes completely or not
/// at all, so a peer that expects to read a whole header can read one. Only a longer message is split, after its
/// header.
const MAX_BATCH: usize = 32 << 10;

/// Received bytes that are not handled yet.
#[derive(Debug)]
pub(super) struct Input {
    bytes: Vec<u8>,
    /// Offset in `bytes` of the next message.
    start: usize,
    /// Bytes of the stream before `bytes`.
    before: u64,
    /// Descriptors, each with the stream offset of the last byte that arrived with it.
    fds: VecDeque<(u64, OwnedFd)>,
    /// Maximum size of a message in bytes.
    max_message_bytes: usize,
}

/// A message: its header, the range of its payload, and its descriptors.
pub(super) struct Message {
    pub(super) header: Header,
    pub(super) payload: Range<usize>,
    pub(super) fds: Vec<OwnedFd>,
}

impl Input {
    pub(super) fn new(max_message_bytes: usize) -> Input {
        Input { bytes: Vec::new(), start: 0, before: 0, fds: VecDeque::new(), max_message_bytes }
    }

    /// Appends the result of one receive call.
    pub(super) fn receive(&mut self, bytes: &[u8], fds: impl IntoIterator<Item = OwnedFd>) {
        self.before += self.start as u64;
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
        let last = (self.before + self.bytes.len() as u64).saturating_sub(1);
        // This is one more than a message may have, so that the message is refused.
        let room = (2 * MAX_FDS + 1).saturating_sub(self.fds.len());
        self.fds.extend(fds.into_iter().take(room).map(|fd| (last, fd)));
    }

    /// Returns the number of bytes missing to the longest message.
    pub(super) fn room(&self) -> usize {
        self.max_message_bytes.saturating_sub(self.bytes.len() - self.start)
    }

    /// Returns whether the peer stopped within a message.
    pub(super) fn is_within_message(&self) -> bool {
        self.start < self.bytes.len()
    }

    /// Takes the buffer while a message is handled; `put_bytes` returns it.
    pub(super) fn take_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    pub(super) fn put_bytes(&mut self, bytes: Vec<u8>) {
        self.bytes = bytes;
    }

    /// Returns the next message if it is complete.
    pub(super) fn next(&mut self) -> Result<Option<Message>, HangUp> {
        let Some(header) = Header::read(&self.bytes[self.start..]) else { return Ok(None) };
        let size = header.size as usize;
        if size < HEADER_BYTES || size > self.max_message_bytes {
            return Err(HangUp::Size {
                command: header.command,
                bytes: header.size,
                most: self.max_message_bytes as u32,
            });
        }
        if header.flags & TYPE > REPLY {
            return Err(HangUp::Type { command: header.command, flags: header.flags });
        }
        let end = self.start + size;
        if self.bytes.len() < end {
            return Ok(None);
        }
        let payload = self.start + HEADER_BYTES..end;
        self.start = end;
        let fds = self.fds_before(self.before + end as u64);
        if fds.len() > MAX_FDS {
            return Err(HangUp::Descriptors { command: header.command });
        }
        Ok(Some(Message { header, payload, fds }))
    }

    /// Returns the descriptors that arrived with bytes before `end`.
    fn fds_before(&mut self, end: u64) -> Vec<OwnedFd> {
        let count = self.fds.iter().take_while(|(last, _)| *last < end).count();
        self.fds.drain(..count).map(|(_, fd)| fd).collect()
    }
}

/// Messages to send.
#[derive(Debug, Default)]
pub(super) struct Output {
    bytes: Vec<u8>,
    /// Offset in `bytes` of the first unsent byte.
    start: usize,
    /// Ends of unsent messages.
    ends: VecDeque<usize>,
}

impl Output {
    /// Adds a message and fills in its size. `fill` appends the payload.
    pub(super) fn message(&mut self, header: Header, fill: impl FnOnce(&mut Vec<u8>)) {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
        let at = self.bytes.len();
        header.write(&mut self.bytes);
        fill(&mut self.bytes);
        let size = (self.bytes.len() - at) as u32;
        self.bytes[at + 4..at + 8].copy_from_slice(&size.to_ne_bytes());
        self.ends.push_back(self.bytes.len());
    }

    /// Returns the bytes to send in one call.
    pub(super) fn next(&self) -> &[u8] {
        let fits = self.ends.iter().take_while(|&&end| end - self.start <= MAX_BATCH).last();
        let end = fits.or(self.ends.front()).map_or(self.start, |end| *end);
        &self.bytes[self.start..end]
    }

    /// Removes sent bytes.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.start = self.start.saturating_add(bytes).min(self.bytes.len());
        while self.ends.front().is_some_and(|&end| end <= self.start) {
            self.ends.pop_front();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }
}
