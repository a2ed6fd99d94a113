// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queue of datagrams to send, on one of several sockets, to one of several peers.

use crate::carrier::SendError;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Maximum number of queued datagrams.
pub(super) const QUEUE_DATAGRAMS: usize = 2048;
/// Maximum number of queued bytes.
pub(super) const QUEUE_BYTES: usize = 1 << 20;

/// A queued datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    /// Index of its socket.
    pub(super) socket: u16,
    /// Its destination; `None` if the socket is connected.
    pub(super) to: Option<SocketAddr>,
    pub(super) offset: usize,
    pub(super) len: usize,
}

/// The queue. The bytes are contiguous and in order, so that a run of equal datagrams is one slice.
#[derive(Debug)]
pub(super) struct SendQueue {
    bytes: Box<[u8]>,
    used: usize,
    entries: VecDeque<Entry>,
}

impl SendQueue {
    pub(super) fn new() -> SendQueue {
        let bytes = vec![0; QUEUE_BYTES].into_boxed_slice();
        SendQueue { bytes, used: 0, entries: VecDeque::with_capacity(QUEUE_DATAGRAMS) }
    }

    /// Returns how many datagrams of `len` bytes fit now.
    pub(super) fn room(&self, len: usize) -> usize {
        (QUEUE_DATAGRAMS - self.entries.len()).min((QUEUE_BYTES - self.used) / len.max(1))
    }

    /// Returns true if less than half of the queue is free.
    pub(super) fn is_half_full(&self) -> bool {
        self.entries.len() > QUEUE_DATAGRAMS / 2 || self.used > QUEUE_BYTES / 2
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Queues a datagram.
    pub(super) fn push(
        &mut self,
        socket: u16,
        to: Option<SocketAddr>,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), SendError> {
        if self.room(len) == 0 {
            return Err(SendError::NoRoom);
        }
        let offset = self.used;
        fill(&mut self.bytes[offset..offset + len]);
        self.used += len;
        self.entries.push_back(Entry { socket, to, offset, len });
        Ok(())
    }

    /// Returns the datagrams at the front that can be sent as one: same socket, same peer, same length; the last may
    /// be shorter. Returns `None` if the queue is empty.
    pub(super) fn front_run(&self, most: usize, most_bytes: usize) -> Option<(Entry, usize, &[u8])> {
        let first = *self.entries.front()?;
        let (mut count, mut end) = (0, first.offset);
        for entry in self.entries.iter().take(most) {
            let fits = entry.offset + entry.len - first.offset <= most_bytes;
            if entry.socket != first.socket
                || entry.to != first.to
                || entry.len > first.len
                || (count > 0 && !fits)
            {
                break;
            }
            count += 1;
            end = entry.offset + entry.len;
            if entry.len < first.len {
                break;
            }
        }
        Some((first, count, &self.bytes[first.offset..end]))
    }

    /// Removes `count` datagrams from the front.
    pub(super) fn pop(&mut self, count: usize) {
        self.entries.drain(..count);
        if self.entries.is_empty() {
            self.used = 0;
        }
    }
}
