// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stages of a transaction, the kinds of transactions, and one transaction with its parts. These are names only:
//! [`ledger`](crate::ledger) charges the stages, [`breakdown`](crate::breakdown) sums them up.
//!
//! A transaction is a request TLP with the completions that answer it. Its time is divided whenever it moves from one stage
//! to the next, so that the parts add up to the whole, to the picosecond:
//!
//! | from | to | stage |
//! |---|---|---|
//! | handed to a port's transmit queue, or to a root port's | its first symbol is sent | `queue`; less: |
//! | at the head of its queue, short of credits | credits have arrived | `credit_wait` |
//! | its first symbol is sent | its last symbol has been sent | `serialization` |
//! | its last symbol has been sent | it would have arrived | `wire` |
//! | it would have arrived | it is accepted after a replay | `replay` |
//! | accepted by the root complex, or handed over by memory or program | one root complex latency later | `root_complex` |
//! | at the memory system | its data is there, or the write visible to reads | `memory` |
//! | accepted by a switch | handed to the transmit queue of its egress port | `switch` |
//! | accepted by a device | the device hands over the first completion | `completer` |
//!
//! A request of a device begins when the port takes it from the device. A request of the host begins when the root
//! complex takes it from the host program. A posted write ends when it is visible in memory or is delivered to the
//! device; a message when it is delivered; an interrupt when it reaches the host program. A transaction with
//! completions ends when the last of them has arrived (at the host program for requests of the host). If there are
//! several completions, the path of the last one counts. So the time that earlier completions take on the wire counts
//! as `queue` of the last one.

use std::fmt;
use tlp::{Bdf, Duration, Status, Tag, Time};

/// A stage of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// In transmit queues of ports and root ports: waiting for earlier TLPs, SKP ordered sets and DLLPs, room in the
    /// replay buffer, a link that retrains.
    Queue,
    /// At the head of a transmit queue, short of credits, while the wire was free.
    CreditWait,
    /// From its first symbol to its last, with framing.
    Serialization,
    /// Time of flight of the last symbol.
    Wire,
    /// From the expected arrival until the TLP was accepted, because this TLP or an earlier one was lost or damaged and
    /// then replayed.
    Replay,
    /// Latency of the root complex, each way; for an interrupt also the way to the program.
    RootComplex,
    /// The memory system: wait for a place or for earlier requests, service, and latency.
    Memory,
    /// Switches: their latency, and the wait for other TLPs and for room at the egress port.
    Switch,
    /// The device that answers: from the arrival of the request until the device hands over the first completion.
    Completer,
}

impl Stage {
    /// All stages, in the order of [`Parts`].
    pub const ALL: [Stage; 9] = [
        Stage::Queue,
        Stage::CreditWait,
        Stage::Serialization,
        Stage::Wire,
        Stage::Replay,
        Stage::RootComplex,
        Stage::Memory,
        Stage::Switch,
        Stage::Completer,
    ];

    /// Name of the stage in output: `queue`, `credit_wait` and so on.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Queue => "queue",
            Stage::CreditWait => "credit_wait",
            Stage::Serialization => "serialization",
            Stage::Wire => "wire",
            Stage::Replay => "replay",
            Stage::RootComplex => "root_complex",
            Stage::Memory => "memory",
            Stage::Switch => "switch",
            Stage::Completer => "completer",
        }
    }
}

/// Time by stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Parts([u64; Stage::ALL.len()]);

impl Parts {
    /// No time in any stage.
    pub const NONE: Parts = Parts([0; Stage::ALL.len()]);

    /// Time spent in `stage`.
    pub const fn of(&self, stage: Stage) -> Duration {
        Duration::from_ps(self.0[stage as usize])
    }

    /// Total time of all stages.
    pub fn total(&self) -> Duration {
        Duration::from_ps(self.0.iter().sum())
    }

    pub(crate) fn add(&mut self, stage: Stage, spent: Duration) {
        self.0[stage as usize] += spent.as_ps();
    }

    pub(crate) fn add_all(&mut self, other: &Parts) {
        for (sum, part) in self.0.iter_mut().zip(&other.0) {
            *sum += part;
        }
    }
}

/// The stages that took time, each in picoseconds.
impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spent = Stage::ALL.into_iter().filter(|s| self.of(*s) > Duration::ZERO);
        spent.enumerate().try_for_each(|(n, stage)| {
            let space = if n == 0 { "" } else { " " };
            write!(f, "{space}{} {}", stage.name(), self.of(stage).as_ps())
        })
    }
}

/// Kinds of transactions on a link: the requester's side and the type of request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TransactionKind {
    /// The device writes host memory.
    DmaWrite,
    /// The device reads host memory.
    DmaRead,
    /// The device writes host memory by a deferrable write (DMWr).
    DmaDeferrableWrite,
    /// The device requests an AtomicOp on host memory.
    DmaAtomic,
    /// The device raises an interrupt by a memory write (MSI, MSI-X).
    Interrupt,
    /// The device sends a message.
    DmaMessage,
    /// The device makes a request that only hosts make: I/O or configuration.
    DmaOther,
    /// The host writes the device's memory space.
    HostWrite,
    /// The host reads the device's memory space, including locked reads.
    HostRead,
    /// The host writes the device's memory space by a deferrable write (DMWr).
    HostDeferrableWrite,
    /// The host requests an AtomicOp on the device.
    HostAtomic,
    /// The host reads or writes I/O space.
    HostIo,
    /// The host reads or writes configuration space.
    HostConfig,
    /// The host sends a message.
    HostMessage,
}

impl TransactionKind {
    /// All kinds.
    pub const ALL: [TransactionKind; 14] = [
        TransactionKind::DmaWrite,
        TransactionKind::DmaRead,
        TransactionKind::DmaDeferrableWrite,
        TransactionKind::DmaAtomic,
        TransactionKind::Interrupt,
        TransactionKind::DmaMessage,
        TransactionKind::DmaOther,
        TransactionKind::HostWrite,
        TransactionKind::HostRead,
        TransactionKind::HostDeferrableWrite,
        TransactionKind::HostAtomic,
        TransactionKind::HostIo,
        TransactionKind::HostConfig,
        TransactionKind::HostMessage,
    ];

    /// Name of the kind in output: `dma_write` and so on.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            TransactionKind::DmaWrite => "dma_write",
            TransactionKind::DmaRead => "dma_read",
            TransactionKind::DmaDeferrableWrite => "dma_deferrable_write",
            TransactionKind::DmaAtomic => "dma_atomic",
            TransactionKind::Interrupt => "interrupt",
            TransactionKind::DmaMessage => "dma_message",
            TransactionKind::DmaOther => "dma_other",
            TransactionKind::HostWrite => "host_write",
            TransactionKind::HostRead => "host_read",
            TransactionKind::HostDeferrableWrite => "host_deferrable_write",
            TransactionKind::HostAtomic => "host_atomic",
            TransactionKind::HostIo => "host_io",
            TransactionKind::HostConfig => "host_config",
            TransactionKind::HostMessage => "host_message",
        }
    }
}

/// A transaction that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// Number of the link.
    pub link: u32,
    /// Kind of the transaction.
    pub kind: TransactionKind,
    /// Requester ID of the request.
    pub requester: Bdf,
    /// Tag of the request; without meaning if no completion answers it.
    pub tag: Tag,
    /// Bytes read or written. For an AtomicOp, bytes of its operands; for a message, bytes of its data.
    pub bytes: u32,
    /// Status of the last completion; Successful Completion if there is no completion.
    pub status: Status,
    /// When the transaction began.
    pub start: Time,
    /// When the transaction ended.
    pub end: Time,
    /// Time by stage; the sum is `end` minus `start`.
    pub parts: Parts,
}

impl Transaction {
    /// Duration of the transaction.
    pub const fn latency(&self) -> Duration {
        self.end.since(self.start)
    }
}

/// An observer of transactions.
pub trait TransactionTap {
    /// Sees a transaction whose end is known. The end of a write is known in advance, when the write reaches the memory
    /// system. So transactions are not reported in the order of their ends.
    fn transaction(&mut self, transaction: &Transaction);
}
