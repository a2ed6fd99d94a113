// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Regions of a device, and the check of accesses to them.

use super::check::{self, bad};
use super::refusal::{Legal, Refusal};
use super::wire::command::{
    DEVICE_GET_REGION_INFO, DEVICE_GET_REGION_IO_FDS, REGION_READ, REGION_WRITE_MULTI,
};
use super::wire::{longs, u64_at, words};

/// Number of regions of a PCI device.
pub const REGIONS: usize = 9;

/// Indices of the regions that are not BARs; BAR n has index n.
pub mod region {
    /// The Expansion ROM.
    pub const ROM: usize = 6;
    /// Configuration space.
    pub const CONFIG: usize = 7;
    /// VGA.
    pub const VGA: usize = 8;
}

/// A region. Size 0 means that the region does not exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Region {
    /// Size in bytes.
    pub size: u64,
    /// Whether the client may read the region.
    pub readable: bool,
    /// Whether the client may write the region.
    pub writable: bool,
}

impl Region {
    /// Returns a region that may be read and written.
    #[must_use]
    pub const fn of(size: u64) -> Region {
        Region { size, readable: true, writable: true }
    }

    /// `VFIO_REGION_INFO_FLAG_READ` and `WRITE`.
    fn flags(self) -> u32 {
        u32::from(self.readable) | u32::from(self.writable) << 1
    }
}

/// Bytes of the payload of DEVICE_GET_REGION_INFO, and of its reply.
pub(super) const INFO_BYTES: usize = 32;
/// Bytes of the payload of DEVICE_GET_REGION_IO_FDS, and of its reply without descriptors.
pub(super) const IO_FDS_BYTES: usize = 16;
/// Bytes of the fields before the data of an access.
pub(super) const ACCESS_BYTES: usize = 16;
/// Bytes of an entry of REGION_WRITE_MULTI.
pub(super) const ENTRY_BYTES: usize = 24;

/// Range of a read or write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Access {
    pub(super) offset: u64,
    pub(super) region: u32,
    pub(super) count: u32,
}

impl Access {
    /// Decodes the fields of an access; missing fields are zero.
    pub(super) fn read(payload: &[u8]) -> Access {
        let ([offset], [region, count]) = (longs(payload, 0), words(payload, 8));
        Access { offset, region, count }
    }

    pub(super) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset.to_ne_bytes());
        out.extend_from_slice(&self.region.to_ne_bytes());
        out.extend_from_slice(&self.count.to_ne_bytes());
    }

    /// Checks that the access is within its region, that the region allows it, and that it has at
    /// most `most` bytes.
    pub(super) fn check(self, regions: &[Region; REGIONS], command: u16, most: u32) -> Result<(), Refusal> {
        let Access { offset, region, count } = self;
        let of = find(regions, command, "region", region)?;
        if count > most {
            return Err(bad(command, "count", count, Legal::To(most.into())));
        }
        if offset.checked_add(count.into()).is_none_or(|end| end > of.size) {
            return Err(Refusal::Outside { command, region, offset, count, size: of.size });
        }
        let is_allowed = if command == REGION_READ { of.readable } else { of.writable };
        if is_allowed { Ok(()) } else { Err(Refusal::Forbidden { command, region }) }
    }
}

fn find(
    regions: &[Region; REGIONS],
    command: u16,
    field: &'static str,
    index: u32,
) -> Result<Region, Refusal> {
    let legal = Legal::To(REGIONS as u64 - 1);
    let region = regions.get(index as usize).copied();
    region.ok_or_else(|| bad(command, field, index, legal))
}

/// Handles a DEVICE_GET_REGION_INFO: returns index, flags and size of the region.
pub(super) fn info(regions: &[Region; REGIONS], payload: &[u8]) -> Result<(u32, u32, u64), Refusal> {
    let command = DEVICE_GET_REGION_INFO;
    let [argsz, flags, index, capability] = words(payload, 0);
    let [size, offset] = longs(payload, 16);
    check::argsz(command, argsz, INFO_BYTES)?;
    let zeros =
        [("flags", flags.into()), ("cap_offset", capability.into()), ("size", size), ("offset", offset)];
    check::zeros(command, &zeros)?;
    let region = find(regions, command, "index", index)?;
    Ok((index, region.flags(), region.size))
}

/// Handles a DEVICE_GET_REGION_IO_FDS: returns the index of the region.
pub(super) fn io_fds(regions: &[Region; REGIONS], payload: &[u8]) -> Result<u32, Refusal> {
    let command = DEVICE_GET_REGION_IO_FDS;
    let [argsz, flags, index, count] = words(payload, 0);
    check::argsz(command, argsz, IO_FDS_BYTES)?;
    check::zeros(command, &[("flags", flags.into()), ("count", count.into())])?;
    find(regions, command, "index", index)?;
    Ok(index)
}

/// Returns the writes of a REGION_WRITE_MULTI, all checked. There may be at most `most`.
pub(super) fn entries<'p>(
    regions: &[Region; REGIONS],
    payload: &'p [u8],
    most: usize,
) -> Result<impl Iterator<Item = (Access, &'p [u8])> + Clone + use<'p>, Refusal> {
    let command = REGION_WRITE_MULTI;
    let count = u64_at(payload, 0).ok_or(Refusal::Length { command, bytes: payload.len(), legal: 8 })?;
    if count > most as u64 {
        return Err(bad(command, "wr_cnt", count, Legal::To(most as u64)));
    }
    let legal = 8 + count * ENTRY_BYTES as u64;
    if payload.len() as u64 != legal {
        return Err(Refusal::Length { command, bytes: payload.len(), legal });
    }
    let entries = payload[8..].chunks_exact(ENTRY_BYTES).map(|entry| {
        let access = Access::read(entry);
        let data = &entry[ACCESS_BYTES..];
        (access, &data[..data.len().min(access.count as usize)])
    });
    for (access, _) in entries.clone() {
        access.check(regions, command, (ENTRY_BYTES - ACCESS_BYTES) as u32)?;
    }
    Ok(entries)
}
