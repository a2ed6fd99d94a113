// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of an external host, mapped for DMA. riser does not own this memory, so data that DMA reads from it is
//! recorded, and a replay uses the recorded data. This module stores no bytes.

use crate::external::journal::Journal;
use crate::external::record::Answered;
use host::memory::{DmaAccess, MemoryContents, write_result};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use thiserror::Error;
use tlp::AtomicOp;

/// Alignment of maps in bytes, at both ends.
pub const MAP_BYTES: u64 = 4096;
/// Maximum number of maps at a time.
pub const MAX_MAPS: usize = 4096;

/// DMA access to a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapAccess {
    /// DMA may read the map.
    Read,
    /// DMA may read and write the map.
    ReadWrite,
}

/// A range of addresses that a host maps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Map {
    /// Address of the first byte.
    pub address: u64,
    /// Length in bytes, a multiple of [`MAP_BYTES`].
    pub bytes: u64,
    /// DMA access.
    pub access: MapAccess,
}

/// Storage of a map's bytes. Offsets count from its first byte, and each access is within the map.
///
/// The owner may change the bytes at any time, so two reads may return different bytes.
pub trait Backing {
    /// Reads bytes; false if that fails.
    fn read(&self, offset: u64, to: &mut [u8]) -> bool;

    /// Writes bytes; false if that fails.
    fn write(&self, offset: u64, from: &[u8]) -> bool;

    /// True if the access that has just failed was requested elsewhere and must be retried.
    fn awaits(&self) -> bool {
        false
    }

    /// Executes an AtomicOp, and stores the value before in `old`; false if that fails.
    fn operate(&self, offset: u64, op: AtomicOp, operands: &[u8], old: &mut [u8]) -> bool {
        self.read(offset, old) && write_result(op, operands, old, |new| self.write(offset, new))
    }
}

/// Reason why a host may not map or unmap a range.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum MapError {
    /// The range cannot be mapped.
    #[error(
        "{bytes:#x} bytes at {address:#x}, expected one or more multiples of {MAP_BYTES:#x} at a multiple of it, below 2^64"
    )]
    Range {
        /// Address of the first byte.
        address: u64,
        /// Length in bytes.
        bytes: u64,
    },
    /// The range overlaps a map.
    #[error("{bytes:#x} bytes at {address:#x}: {other:#x} bytes at {at:#x} are mapped already")]
    Overlaps {
        /// Address of the first byte.
        address: u64,
        /// Length in bytes.
        bytes: u64,
        /// Address of the other map.
        at: u64,
        /// Length of the other map in bytes.
        other: u64,
    },
    /// The host has too many maps.
    #[error("more than {MAX_MAPS} maps at a time")]
    TooMany,
    /// The range is not a whole map.
    #[error("cannot unmap {bytes:#x} bytes at {address:#x}, expected a whole map: {mapped}")]
    NotMapped {
        /// Address of the first byte.
        address: u64,
        /// Length in bytes.
        bytes: u64,
        /// The nearest map.
        mapped: String,
    },
}

/// The memory of an external host. Clones are handles of the same memory.
#[derive(Clone)]
pub(crate) struct OutsideMemory {
    maps: Rc<RefCell<Maps>>,
    /// The first rejected DMA since the last query, and the number of rejected DMAs.
    refused: Rc<Cell<Option<(DmaAccess, u64)>>>,
    /// True if the last access must be retried.
    awaits: Rc<Cell<bool>>,
    journal: Journal,
    /// Number of the host's place.
    place: u16,
}

#[derive(Default)]
struct Maps(BTreeMap<u64, Mapped>);

/// A map and its storage; `None` in a replay.
struct Mapped {
    map: Map,
    backing: Option<Rc<dyn Backing>>,
}

impl Maps {
    /// The map that contains all of these bytes.
    fn of(&self, address: u64, len: u64) -> Option<&Mapped> {
        let (_, mapped) = self.0.range(..=address).next_back()?;
        let behind = address.checked_add(len)?;
        (behind - mapped.map.address <= mapped.map.bytes).then_some(mapped)
    }

    fn check(&self, map: &Map) -> Result<(), MapError> {
        let Map { address, bytes, .. } = *map;
        let aligned = address.is_multiple_of(MAP_BYTES) && bytes.is_multiple_of(MAP_BYTES) && bytes > 0;
        let end = address.checked_add(bytes).filter(|_| aligned).ok_or(MapError::Range { address, bytes })?;
        if self.0.len() >= MAX_MAPS {
            return Err(MapError::TooMany);
        }
        let before = self.0.range(..end).next_back().map(|(_, mapped)| mapped.map);
        match before.filter(|other| other.address + other.bytes > address) {
            Some(other) => Err(MapError::Overlaps { address, bytes, at: other.address, other: other.bytes }),
            None => Ok(()),
        }
    }

    fn unmap(&mut self, address: u64, bytes: u64) -> Result<(), MapError> {
        if self.0.get(&address).is_some_and(|mapped| mapped.map.bytes == bytes) {
            self.0.remove(&address);
            return Ok(());
        }
        let next = self.0.range(..=address).next_back().or_else(|| self.0.range(address..).next());
        let mapped =
            next.map_or("nothing".to_owned(), |(at, m)| format!("{:#x} bytes at {at:#x}", m.map.bytes));
        Err(MapError::NotMapped { address, bytes, mapped })
    }
}

impl OutsideMemory {
    pub(crate) fn new(journal: Journal, place: u16) -> OutsideMemory {
        OutsideMemory { maps: Rc::default(), refused: Rc::default(), awaits: Rc::default(), journal, place }
    }

    /// Returns a separate address space of the same host, without maps.
    pub(super) fn beside(&self) -> OutsideMemory {
        OutsideMemory { maps: Rc::default(), ..self.clone() }
    }

    /// Takes the first unreported rejected DMA, and their number.
    pub(super) fn refused(&self) -> Option<(DmaAccess, u64)> {
        self.refused.take()
    }

    /// Checks whether `map` can be mapped now.
    pub(super) fn check(&self, map: &Map) -> Result<(), MapError> {
        self.maps.borrow().check(map)
    }

    pub(super) fn map(&self, map: Map, backing: Option<Rc<dyn Backing>>) -> Result<(), MapError> {
        let mut maps = self.maps.borrow_mut();
        maps.check(&map)?;
        maps.0.insert(map.address, Mapped { map, backing });
        Ok(())
    }

    pub(super) fn unmap(&self, address: u64, bytes: u64) -> Result<(), MapError> {
        self.maps.borrow_mut().unmap(address, bytes)
    }

    /// Returns the storage of these bytes, and their offset in the map. `None` if they are not mapped, or are not
    /// writable.
    fn find(&self, address: u64, len: usize, writes: bool) -> Option<(Option<Rc<dyn Backing>>, u64)> {
        let maps = self.maps.borrow();
        let mapped = maps.of(address, len as u64)?;
        let lets = !writes || mapped.map.access == MapAccess::ReadWrite;
        lets.then(|| (mapped.backing.clone(), address - mapped.map.address))
    }

    /// Fills `to` from the storage or the record. `answers` are the answers with and without bytes.
    fn ask(
        &self,
        address: u64,
        answers: [Answered; 2],
        to: &mut [u8],
        ask: impl FnOnce(&dyn Backing, u64, &mut [u8]) -> bool,
    ) -> bool {
        let writes = answers[0] == Answered::Atomic;
        let Some((backing, offset)) = self.find(address, to.len(), writes) else { return false };
        let Some(backing) = backing else {
            return self.journal.answered(self.place, answers, address, to, &self.awaits);
        };
        let done = ask(&*backing, offset, to);
        self.awaits.set(!done && backing.awaits());
        let (what, bytes) = match done {
            true => (answers[0], &*to),
            false if self.awaits.get() => (Answered::Awaited, &[][..]),
            false => (answers[1], &[][..]),
        };
        self.journal.answer(self.place, what, address, bytes);
        done
    }
}

impl MemoryContents for OutsideMemory {
    fn ranges(&self) -> Vec<Range<u64>> {
        self.maps.borrow().0.values().map(|m| m.map.address..m.map.address + m.map.bytes).collect()
    }

    fn contains(&self, address: u64, len: usize) -> bool {
        self.maps.borrow().of(address, len as u64).is_some()
    }

    fn lets_dma(&self, dma: &DmaAccess) -> bool {
        let lets = self.find(dma.address, dma.len as usize, dma.writes).is_some();
        if !lets {
            let (first, count) = self.refused.get().unwrap_or((*dma, 0));
            self.refused.set(Some((first, count + 1)));
        }
        lets
    }

    fn read(&self, address: u64, to: &mut [u8]) -> bool {
        self.ask(address, [Answered::Read, Answered::ReadFailed], to, |backing, offset, to| {
            backing.read(offset, to)
        })
    }

    fn awaits(&self) -> bool {
        self.awaits.take()
    }

    fn write(&self, address: u64, from: &[u8]) -> bool {
        let Some((backing, offset)) = self.find(address, from.len(), true) else { return false };
        let Some(backing) = backing else { return !self.journal.write_failed(self.place, address) };
        let done = backing.write(offset, from);
        if !done {
            self.journal.answer(self.place, Answered::WriteFailed, address, &[]);
        }
        done
    }

    fn operate(&self, address: u64, op: AtomicOp, operands: &[u8], old: &mut [u8]) -> bool {
        self.ask(address, [Answered::Atomic, Answered::AtomicFailed], old, |backing, offset, old| {
            backing.operate(offset, op, operands, old)
        })
    }
}
