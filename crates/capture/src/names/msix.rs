// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The contents of MSI-X tables, learned from writes (`PCIe 5.0 §6.1.4.2`). Holds at most [`MAX_VECTORS`] entries.

use super::DeviceRegister;
use config::cap::msix::ENTRY_BYTES;
use std::collections::{BTreeMap, BTreeSet};
use tlp::Bdf;

/// Maximum number of MSI-X table entries that are kept.
pub const MAX_VECTORS: usize = 65_536;

/// Length of the address and data in an entry, which make up the interrupt, in bytes.
const MESSAGE_BYTES: usize = 12;
const MESSAGE_KNOWN: u16 = (1 << MESSAGE_BYTES) - 1;

/// The registers of an entry.
pub(super) const ENTRY: [DeviceRegister; 4] = [
    DeviceRegister { bar: None, offset: 0, bytes: 4, name: "Message Address" },
    DeviceRegister { bar: None, offset: 4, bytes: 4, name: "Message Upper Address" },
    DeviceRegister { bar: None, offset: 8, bytes: 4, name: "Message Data" },
    DeviceRegister { bar: None, offset: 12, bytes: 4, name: "Vector Control" },
];

/// Position and size of a function's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Table {
    pub(super) bar: u8,
    pub(super) offset: u64,
    pub(super) vectors: u16,
}

impl Table {
    pub(super) const fn holds(&self, bar: u8, offset: u64) -> bool {
        let end = self.offset + self.vectors as u64 * ENTRY_BYTES;
        bar == self.bar && self.offset <= offset && offset < end
    }
}

/// The first bytes of an entry, and a mask of the known ones.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    bytes: [u8; MESSAGE_BYTES],
    known: u16,
}

impl Entry {
    fn message(&self) -> Option<(u64, u32)> {
        let (address, data) = self.bytes.split_first_chunk().filter(|_| self.known == MESSAGE_KNOWN)?;
        Some((u64::from_le_bytes(*address), u32::from_le_bytes(*data.first_chunk()?)))
    }
}

/// The vector with a given address and data. Several vectors may have the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Vector {
    One(u16),
    Several,
}

impl Vector {
    /// The vector; `None` if several have the same address and data.
    pub(super) const fn only(self) -> Option<u16> {
        match self {
            Vector::One(vector) => Some(vector),
            Vector::Several => None,
        }
    }
}

/// The entries of all functions.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    entries: BTreeMap<(Bdf, u16), Entry>,
    /// The known address and data of each entry: function, address, data and vector.
    messages: BTreeSet<(Bdf, u64, u32, u16)>,
}

impl Entries {
    pub(super) const fn new() -> Entries {
        Entries { entries: BTreeMap::new(), messages: BTreeSet::new() }
    }

    /// Stores a write of `data` at `offset` in a function's table.
    pub(super) fn write(&mut self, function: Bdf, offset: u64, data: &[u8]) {
        let first = offset / ENTRY_BYTES;
        let last = (offset + (data.len() as u64).saturating_sub(1)) / ENTRY_BYTES;
        for vector in first..=last {
            let start = vector * ENTRY_BYTES;
            // The part of the data that belongs to this entry, and its offset there.
            let skipped = start.saturating_sub(offset) as usize;
            let at = (offset + skipped as u64 - start) as usize;
            self.write_entry(function, vector as u16, at, data.get(skipped..).unwrap_or_default());
        }
    }

    fn write_entry(&mut self, function: Bdf, vector: u16, at: usize, data: &[u8]) {
        let key = (function, vector);
        if self.entries.len() >= MAX_VECTORS && !self.entries.contains_key(&key) {
            return;
        }
        let entry = self.entries.entry(key).or_default();
        if let Some((address, message)) = entry.message() {
            self.messages.remove(&(function, address, message, vector));
        }
        for (place, byte) in (at..MESSAGE_BYTES).zip(data) {
            entry.bytes[place] = *byte;
            entry.known |= 1 << place;
        }
        if let Some((address, message)) = entry.message() {
            self.messages.insert((function, address, message, vector));
        }
    }

    /// The vector whose entry has this address and data; `None` if there is none.
    pub(super) fn vector(&self, function: Bdf, address: u64, data: u32) -> Option<Vector> {
        let range = (function, address, data, 0)..=(function, address, data, u16::MAX);
        let mut found = self.messages.range(range).map(|(_, _, _, vector)| *vector);
        let first = found.next()?;
        Some(if found.next().is_none() { Vector::One(first) } else { Vector::Several })
    }

    /// Removes the entries of a function.
    pub(super) fn forget(&mut self, function: Bdf) {
        self.entries.retain(|(of, _), _| *of != function);
        self.messages.retain(|(of, ..)| *of != function);
    }
}
