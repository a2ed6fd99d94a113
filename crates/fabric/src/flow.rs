// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flow of data in one direction of a link. It only counts.

use tlp::{Duration, Time};

/// Data that one end of a link has sent: of memory requests, AtomicOps and their completions, without replays. Data of
/// configuration and I/O requests does not count, so that enumeration is not part of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flow {
    bytes: u64,
    start: Option<Time>,
    end: Time,
}

impl Flow {
    pub(crate) fn add(&mut self, bytes: u32, start: Time, end: Time) {
        self.bytes += u64::from(bytes);
        self.start = self.start.or(Some(start));
        self.end = end;
    }

    /// Returns the number of bytes on the wire, in whole DWs.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the time from the first symbol of the first TLP with data to the last symbol of the last one.
    pub fn active(&self) -> Duration {
        self.start.map_or(Duration::ZERO, |start| self.end.since(start))
    }
}
