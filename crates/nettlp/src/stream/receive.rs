// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receiving half of a stream: TLPs in order are delivered. TLPs that arrive too early wait for the missing TLPs.

use super::ACK_DELAY;
use super::record::MAX_WINDOW;
use std::collections::VecDeque;
use tlp::Time;

/// Action for a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It is the next datagram of the stream: deliver it.
    Deliver,
    /// It is kept until all earlier datagrams have arrived.
    Kept,
    /// It arrived before.
    Duplicate,
    /// It is beyond the granted credits.
    Beyond,
}

/// The receiving half.
#[derive(Debug)]
pub(super) struct Receive {
    /// Number of the first datagram that has not arrived.
    next: u64,
    /// First number without a credit. This is the limit that has been granted, or can be granted now.
    limit: u64,
    window: u16,
    /// Datagrams after `next`: `ahead[i]` is number `next + 1 + i`; empty if it has not arrived.
    pub(super) ahead: VecDeque<Vec<u8>>,
    /// Number of datagrams in `ahead` and `ready`.
    pub(super) kept: usize,
    /// The datagram with number `next`, if it arrived out of order.
    ready: Option<Vec<u8>>,
    /// Buffers for reuse.
    pub(super) spare: Vec<Vec<u8>>,
    /// Datagrams delivered since the last Ack.
    unacked: u16,
    /// The limit in the last Ack.
    told_limit: u64,
    /// True if a datagram's credit returns when it is delivered.
    pub(super) releases_itself: bool,
    ack_now: bool,
    ack_at: Option<Time>,
}

impl Receive {
    /// Creates a stream whose first TLP has number `first`; at most `window` TLPs may be unacknowledged.
    pub(super) fn new(first: u64, window: u16) -> Receive {
        let limit = first + u64::from(window);
        Receive {
            next: first,
            limit,
            window,
            ahead: VecDeque::new(),
            kept: 0,
            ready: None,
            spare: Vec::new(),
            unacked: 0,
            told_limit: limit,
            releases_itself: true,
            ack_now: false,
            ack_at: None,
        }
    }

    /// Classifies a datagram. If earlier datagrams are missing, keeps a copy of it. Before this call, call
    /// [`pop_kept`](Self::pop_kept) until it returns `None`.
    pub(super) fn accept(&mut self, now: Time, sequence: u64, datagram: &[u8]) -> Verdict {
        if sequence == self.next && sequence < self.limit && self.ready.is_none() {
            self.step(now);
            return Verdict::Deliver;
        }
        self.ack_now = true;
        if sequence == self.next {
            return if self.ready.is_some() { Verdict::Duplicate } else { Verdict::Beyond };
        }
        if sequence < self.next {
            return Verdict::Duplicate;
        }
        if sequence >= self.limit {
            return Verdict::Beyond;
        }
        self.keep((sequence - self.next - 1) as usize, datagram)
    }

    fn keep(&mut self, index: usize, datagram: &[u8]) -> Verdict {
        while self.ahead.len() <= index {
            self.ahead.push_back(Vec::new());
        }
        if !self.ahead[index].is_empty() {
            return Verdict::Duplicate;
        }
        self.ahead[index] = self.copy(datagram);
        self.kept += 1;
        Verdict::Kept
    }

    /// Copies a datagram, into a reused buffer if there is one.
    pub(super) fn copy(&mut self, datagram: &[u8]) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(datagram);
        buffer
    }

    /// Records that the next datagram was delivered.
    fn step(&mut self, now: Time) {
        self.next += 1;
        self.ready = self.ahead.pop_front().filter(|buffer| !buffer.is_empty());
        if self.releases_itself {
            self.limit += 1;
        }
        self.unacked += 1;
        if self.unacked >= (self.window / 4).max(1) {
            self.ack_now = true;
        } else if self.ack_at.is_none() {
            self.ack_at = Some(now + ACK_DELAY);
        }
    }

    /// Returns true if a kept datagram is now in order.
    pub(super) fn has_kept(&self) -> bool {
        self.ready.is_some()
    }

    /// Returns a kept datagram that is now in order; return its buffer with [`recycle`](Self::recycle). Call it after
    /// each delivery until it returns `None`.
    pub(super) fn pop_kept(&mut self, now: Time) -> Option<Vec<u8>> {
        let buffer = self.ready.take()?;
        self.kept -= 1;
        self.step(now);
        Some(buffer)
    }

    /// Takes back a buffer for reuse.
    pub(super) fn recycle(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < usize::from(MAX_WINDOW) {
            self.spare.push(buffer);
        }
    }

    /// Returns the credits of `count` delivered datagrams.
    pub(super) fn release(&mut self, count: u64) {
        let most = self.next + u64::from(self.window);
        self.limit = (self.limit + count).min(most);
        // A peer without credits gets an update at once. Other peers get it when the change justifies a datagram.
        let untold = self.limit - self.told_limit;
        if untold > 0 && (self.told_limit <= self.next || untold >= u64::from(self.window / 4)) {
            self.ack_now = true;
        }
    }

    /// Returns true if a datagram arrived since the last Ack.
    pub(super) fn has_unacked(&self) -> bool {
        self.unacked > 0
    }

    /// Requests an Ack as soon as possible.
    pub(super) fn demand_ack(&mut self) {
        self.ack_now = true;
    }

    /// Returns when an Ack is due if no datagram arrives before.
    pub(super) fn ack_at(&self) -> Option<Time> {
        if self.ack_now { Some(Time::ZERO) } else { self.ack_at }
    }

    /// Returns the content of an Ack if one is due now, and counts it as sent: `next`, `limit`, and the number of
    /// `bitmap` bytes used.
    pub(super) fn poll_ack(
        &mut self,
        now: Time,
        bitmap: &mut [u8; MAX_WINDOW as usize / 8],
    ) -> Option<(u64, u64, usize)> {
        if !self.ack_now && self.ack_at.is_none_or(|at| at > now) {
            return None;
        }
        (self.ack_now, self.ack_at, self.unacked) = (false, None, 0);
        self.told_limit = self.limit;
        let mut len = 0;
        if self.kept > 0 {
            for (index, _) in self.ahead.iter().enumerate().filter(|(_, buffer)| !buffer.is_empty()) {
                bitmap[index / 8] |= 0x80 >> (index % 8);
                len = index / 8 + 1;
            }
        }
        Some((self.next, self.limit, len))
    }
}
