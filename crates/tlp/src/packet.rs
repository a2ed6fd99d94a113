// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A TLP as it travels: its header and its data.

use crate::{Body, MemoryOp, Payload, Repr};

/// Flow-control and ordering class of a TLP (`PCIe 5.0 §2.6.1`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Memory writes and messages.
    Posted,
    /// All requests that a completion answers.
    NonPosted,
    /// Completions.
    Completion,
}

impl Class {
    /// Every class, in the order of the InitFC DLLPs.
    pub const ALL: [Class; 3] = [Class::Posted, Class::NonPosted, Class::Completion];

    /// 0, 1, 2: an index for tables by class.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// The data of a transfer: bytes, or only their number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Data {
    /// Only counted, in bytes: for runs that ask how long, not what.
    Counted(u32),
    /// Carried.
    Carried(Payload),
}

impl Data {
    /// No data at all.
    pub const NONE: Data = Data::Counted(0);

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Data::Counted(n) => *n as usize,
            Data::Carried(p) => p.len(),
        }
    }

    /// True where there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, where they are carried.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Data::Counted(_) => None,
            Data::Carried(p) => Some(p),
        }
    }

    /// The part from `start` of `len` bytes, without a copy.
    ///
    /// # Panics
    /// Where it reaches beyond the data.
    #[must_use]
    pub fn slice(&self, start: usize, len: usize) -> Data {
        match self {
            Data::Counted(n) => {
                assert!(start + len <= *n as usize, "slice beyond the data");
                Data::Counted(len as u32)
            }
            Data::Carried(p) => Data::Carried(p.slice(start..start + len)),
        }
    }
}

/// A TLP between two ports: header and data.
///
/// `data` holds the bytes from the first to the last enabled one (of a write), or those that the completion
/// answers; the lanes before and behind them, which the wire pads to whole DWs, are not kept. It is
/// [`Data::NONE`] where the type has no data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tlp {
    /// The header.
    pub repr: Repr,
    /// The data.
    pub data: Data,
    /// In a read request: whether its completions shall carry bytes, or only count them. Not on the wire.
    pub carry: bool,
}

impl Tlp {
    /// Its flow-control and ordering class.
    #[must_use]
    pub const fn class(&self) -> Class {
        match &self.repr.body {
            Body::Memory(m) => match m.op {
                MemoryOp::Read => Class::NonPosted,
                MemoryOp::Write => Class::Posted,
            },
            Body::Message(_) => Class::Posted,
            Body::Config(_) => Class::NonPosted,
            Body::Completion(_) => Class::Completion,
        }
    }

    /// Data credits it takes: units of 16 B (`PCIe 5.0 §2.6.1`).
    #[must_use]
    pub const fn data_credits(&self) -> u32 {
        self.repr.data_dw().div_ceil(4)
    }
}
