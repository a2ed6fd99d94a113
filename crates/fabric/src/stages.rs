// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where transactions spend their time, as sums over all of them.
//!
//! No TLP carries a stamp: the time that all have waited is the sum of the times at which they left less the sum of those
//! at which they came, whatever their order. So a breakdown costs two additions for each.

use link::{Frame, Transmission};
use tlp::{Class, Duration, Time, Tlp};

/// Sums of times at which things came and left.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wait {
    came: u64,
    left: u64,
    came_ps: u128,
    left_ps: u128,
}

impl Wait {
    pub(crate) fn come(&mut self, at: Time) {
        self.came += 1;
        self.came_ps += u128::from(at.as_ps());
    }

    pub(crate) fn leave(&mut self, at: Time) {
        self.left += 1;
        self.left_ps += u128::from(at.as_ps());
    }

    /// The time that all have waited up to `now`; those that are still there count until then.
    pub(crate) fn total(&self, now: Time) -> Duration {
        let still = u128::from(self.came.saturating_sub(self.left));
        let left = self.left_ps + still * u128::from(now.as_ps());
        Duration::from_ps(u64::try_from(left.saturating_sub(self.came_ps)).unwrap_or(u64::MAX))
    }
}

/// The TLPs of one class out of one port.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClassStages {
    pub(crate) queue: Wait,
    /// Transmissions, without replays, and the time that they were on the wire and in flight.
    pub(crate) sent: u64,
    pub(crate) wire: Duration,
}

/// The TLPs out of one port, by class.
pub(crate) type PortStages = [ClassStages; 3];

/// A TLP enters a transmit queue.
pub(crate) fn enqueued(stages: &mut PortStages, now: Time, tlp: &Tlp) {
    stages[tlp.class().index()].queue.come(now);
}

/// A frame goes onto the wire. `tlps` is what the port has sent, replays left out: one more than is known here, where
/// this is the first transmission of a TLP.
pub(crate) fn transmitted(stages: &mut PortStages, tlps: u64, sent: &Transmission, propagation: Duration) {
    let Frame::Tlp { tlp, .. } = &sent.frame else { return };
    if stages.iter().map(|s| s.sent).sum::<u64>() == tlps {
        return;
    }
    let class = &mut stages[tlp.class().index()];
    class.sent += 1;
    class.queue.leave(sent.start);
    class.wire += sent.end.since(sent.start) + propagation;
}

/// What a root port has had from the memory system.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Service {
    pub(crate) root_complex: Duration,
    pub(crate) memory: Duration,
}

/// Kinds of transactions on a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TransactionKind {
    /// The device writes host memory (or raises an interrupt, or sends a message).
    DmaWrite,
    /// The device reads host memory.
    DmaRead,
    /// The host writes the device.
    HostWrite,
    /// The host reads the device, or its configuration space, or writes the latter.
    HostRead,
}

impl TransactionKind {
    /// All kinds.
    pub const ALL: [TransactionKind; 4] = [
        TransactionKind::DmaWrite,
        TransactionKind::DmaRead,
        TransactionKind::HostWrite,
        TransactionKind::HostRead,
    ];

    /// `dma_write` and so on.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            TransactionKind::DmaWrite => "dma_write",
            TransactionKind::DmaRead => "dma_read",
            TransactionKind::HostWrite => "host_write",
            TransactionKind::HostRead => "host_read",
        }
    }

    /// Class of its requests.
    #[must_use]
    pub(crate) const fn request_class(self) -> Class {
        match self {
            TransactionKind::DmaWrite | TransactionKind::HostWrite => Class::Posted,
            TransactionKind::DmaRead | TransactionKind::HostRead => Class::NonPosted,
        }
    }

    /// True where completions answer it.
    #[must_use]
    pub(crate) const fn is_answered(self) -> bool {
        matches!(self, TransactionKind::DmaRead | TransactionKind::HostRead)
    }

    /// True where the device asks.
    #[must_use]
    pub(crate) const fn is_dma(self) -> bool {
        matches!(self, TransactionKind::DmaWrite | TransactionKind::DmaRead)
    }
}

/// Where the transactions of one kind on one link have spent their time: sums over `requests` request TLPs and the
/// completions that answer them. Times of packets that are under way together are all counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Breakdown {
    /// Request TLPs.
    pub requests: u64,
    /// In transmit queues, of ports and of the root complex, while not at their head without credits.
    pub queue: Duration,
    /// At the head of a transmit queue without credits.
    pub credit_wait: Duration,
    /// On the wire and in flight.
    pub wire: Duration,
    /// In the root complex, by its own latency.
    pub root_complex: Duration,
    /// In the memory system: waiting for service, in service, and its latency.
    pub memory: Duration,
}
