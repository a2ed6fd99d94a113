// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Address ranges that the client opens to DMA. This module does not map the memory: the caller does this when it
//! handles the events.

use super::check;
use super::refusal::{Legal, Refusal};
use super::wire::command::{DMA_MAP, DMA_UNMAP};
use super::wire::{longs, words};
use super::{MAX_MAPPED_BYTES, PAGE_BYTES};
use std::collections::BTreeMap;

/// Permissions of DMA in a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DmaAccess {
    /// Reads are allowed.
    pub read: bool,
    /// Writes are allowed.
    pub write: bool,
}

/// A range of the client's addresses that DMA may access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DmaMap {
    /// Address of the first byte, a multiple of [`PAGE_BYTES`].
    pub address: u64,
    /// Size in bytes, a multiple of [`PAGE_BYTES`]; the range ends below 2^64.
    pub size: u64,
    /// Permissions.
    pub access: DmaAccess,
}

/// Payload of DMA_MAP in bytes.
pub(super) const MAP_BYTES: usize = 32;
/// Payload of DMA_UNMAP in bytes, and of its reply.
pub(super) const UNMAP_BYTES: usize = 24;

const READABLE: u32 = 1;
const WRITABLE: u32 = 2;
/// `VFIO_DMA_UNMAP_FLAG_GET_DIRTY_BITMAP`.
const UNMAP_DIRTY: u32 = 1;
/// `VFIO_DMA_UNMAP_FLAG_ALL`.
const UNMAP_ALL: u32 = 2;

/// All maps of a client, by address.
#[derive(Debug)]
pub(super) struct Maps {
    maps: BTreeMap<u64, DmaMap>,
    most: u32,
}

impl Maps {
    pub(super) fn new(most: u32) -> Maps {
        Maps { maps: BTreeMap::new(), most }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &DmaMap> {
        self.maps.values()
    }

    /// Returns the map that contains all of these bytes.
    pub(super) fn of(&self, address: u64, len: u64) -> Option<&DmaMap> {
        let (_, map) = self.maps.range(..=address).next_back()?;
        let end = address.checked_add(len)?;
        (end - map.address <= map.size).then_some(map)
    }

    pub(super) fn remove(&mut self, address: u64) {
        self.maps.remove(&address);
    }

    /// Adds the map of a DMA_MAP. Returns it, and its offset in the descriptor that came with it.
    pub(super) fn map(&mut self, payload: &[u8], has_fd: bool) -> Result<(DmaMap, u64), Refusal> {
        let (map, offset) = read_map(payload, has_fd)?;
        let end = map.address + map.size;
        if let Some((_, other)) = self.maps.range(..end).next_back()
            && other.address + other.size > map.address
        {
            let DmaMap { address, size, .. } = map;
            return Err(Refusal::Overlap { address, size, other: other.address, other_size: other.size });
        }
        if self.maps.len() >= self.most as usize {
            return Err(Refusal::Maps(self.most));
        }
        let mapped: u64 = self.maps.values().map(|map| map.size).sum();
        if has_fd && map.size > MAX_MAPPED_BYTES.saturating_sub(mapped) {
            return Err(Refusal::Mapped { mapped, size: map.size });
        }
        self.maps.insert(map.address, map);
        Ok((map, offset))
    }

    /// Removes the maps of a DMA_UNMAP.
    pub(super) fn unmap(&mut self, payload: &[u8]) -> Result<Vec<DmaMap>, Refusal> {
        let bad = |field, value, legal| check::bad(DMA_UNMAP, field, value, legal);
        let ([argsz, flags], [address, size]) = (words(payload, 0), longs(payload, 8));
        check::argsz(DMA_UNMAP, argsz, UNMAP_BYTES)?;
        match flags {
            0 => {}
            UNMAP_ALL if address == 0 && size == 0 => {
                return Ok(std::mem::take(&mut self.maps).into_values().collect());
            }
            UNMAP_ALL => return Err(bad("address and size, or either,", address | size, Legal::Zero)),
            UNMAP_DIRTY => return Err(Refusal::Migration(DMA_UNMAP)),
            _ => return Err(bad("flags", flags.into(), Legal::Text("0 or 0x2"))),
        }
        if size == 0 || address.checked_add(size).is_none() {
            return Err(bad("size", size, Legal::Text("1 or more, and an end below 2^64")));
        }
        // Like VFIO (type 1, version 2), an unmap removes all maps within the range, possibly none. A map that is partly
        // outside is an error.
        let end = address + size;
        let before = self.maps.range(..address).next_back();
        let last = self.maps.range(address..end).next_back();
        let starts = before.is_none_or(|(_, map)| map.address + map.size <= address);
        let ends = last.is_none_or(|(_, map)| map.address + map.size <= end);
        if !(starts && ends) {
            return Err(Refusal::PartOfMap { address, size });
        }
        let mut rest = self.maps.split_off(&address);
        self.maps.append(&mut rest.split_off(&end));
        Ok(rest.into_values().collect())
    }
}

fn read_map(payload: &[u8], has_fd: bool) -> Result<(DmaMap, u64), Refusal> {
    let bad = |field, value: u64, legal| Err(check::bad(DMA_MAP, field, value, legal));
    let ([argsz, flags], [offset, address, size]) = (words(payload, 0), longs(payload, 8));
    const WHOLE: Legal = Legal::Text("a multiple of 0x1000 with an end in range");
    check::argsz(DMA_MAP, argsz, MAP_BYTES)?;
    if flags == 0 || flags & !(READABLE | WRITABLE) != 0 {
        return bad("flags", flags.into(), Legal::Text("0x1, 0x2 or 0x3"));
    }
    if !address.is_multiple_of(PAGE_BYTES) {
        return bad("address", address, WHOLE);
    }
    if size == 0 || !size.is_multiple_of(PAGE_BYTES) || address.checked_add(size).is_none() {
        return bad("size", size, WHOLE);
    }
    // The offset has no meaning without a descriptor.
    if has_fd
        && (!offset.is_multiple_of(PAGE_BYTES)
            || offset.checked_add(size).is_none_or(|end| end > i64::MAX as u64))
    {
        return bad("offset", offset, WHOLE);
    }
    let access = DmaAccess { read: flags & READABLE != 0, write: flags & WRITABLE != 0 };
    Ok((DmaMap { address, size, access }, offset))
}
