// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Base Address Registers (`PCIe 5.0 §7.5.1.2.1`): the size and kind that a function requests, and the window that
//! software assigned. Decoding accesses is the caller's job.

use crate::header::{TYPE_0_HEADER, type0};
use crate::register::Register;

/// Number of a Base Address Register, 0 to 5. Methods that take one also take a `u8`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BarIndex(pub u8);

impl From<u8> for BarIndex {
    fn from(index: u8) -> BarIndex {
        BarIndex(index)
    }
}

/// A Base Address Register, as the function declares it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bar {
    /// Address space and width.
    pub kind: BarKind,
    /// Bytes, a power of two.
    pub size: u64,
    /// Prefetchable (bit 3 of a memory BAR).
    pub prefetchable: bool,
}

/// Address space and width of a BAR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BarKind {
    /// Memory BAR below 4 GiB; 128 B to 2 GiB.
    Memory32,
    /// Memory BAR at any 64-bit address; uses this register and the next; 128 B to 2^63 B.
    Memory64,
    /// I/O; 4 to 256 B.
    Io,
}

/// Window of a BAR in its address space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BarWindow {
    /// Address space and width of the BAR.
    pub kind: BarKind,
    /// Address of the first byte.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// Prefetchable.
    pub prefetchable: bool,
}

impl Bar {
    /// Returns a 32-bit memory BAR of `size` bytes.
    pub const fn memory32(size: u64) -> Bar {
        Bar { kind: BarKind::Memory32, size, prefetchable: false }
    }

    /// Returns a 64-bit memory BAR of `size` bytes.
    pub const fn memory64(size: u64) -> Bar {
        Bar { kind: BarKind::Memory64, size, prefetchable: false }
    }

    /// Returns an I/O BAR of `size` bytes.
    pub const fn io(size: u64) -> Bar {
        Bar { kind: BarKind::Io, size, prefetchable: false }
    }

    /// Marks the BAR as prefetchable.
    #[must_use]
    pub const fn prefetchable(mut self) -> Bar {
        self.prefetchable = true;
        self
    }

    /// True if the specification allows this size for this kind.
    pub const fn size_is_legal(&self) -> bool {
        let (min, max) = match self.kind {
            BarKind::Memory32 => (128, 1 << 31),
            BarKind::Memory64 => (128, 1 << 63),
            BarKind::Io => (4, 256),
        };
        self.size.is_power_of_two() && self.size >= min && self.size <= max
    }

    /// Bits 3:0 (1:0 of an I/O BAR), which are read-only and encode the BAR's kind.
    pub const fn type_bits(&self) -> u32 {
        let prefetch = if self.prefetchable { 0b1000 } else { 0 };
        match self.kind {
            BarKind::Memory32 => prefetch,
            BarKind::Memory64 => prefetch | 0b0100,
            BarKind::Io => 0b01,
        }
    }

    /// The address bits that software may write, low and high register: those above the size.
    pub const fn address_bits(&self) -> (u32, u32) {
        let bits = !(self.size - 1);
        match self.kind {
            BarKind::Memory64 => (bits as u32, (bits >> 32) as u32),
            BarKind::Memory32 | BarKind::Io => (bits as u32, 0),
        }
    }
}

impl Bar {
    /// The low and the high register; the second is used only by a 64-bit BAR.
    pub(crate) const fn registers(&self) -> [Register; 2] {
        let (low, high) = self.address_bits();
        [
            TYPE_0_HEADER.register(type0::BAR0, self.type_bits()).fix(!low),
            TYPE_0_HEADER.register(type0::BAR0, 0).fix(!high),
        ]
    }
}

/// True if an Expansion ROM may have this many bytes (`PCIe 5.0 §7.5.1.2.4`).
pub(crate) const fn rom_size_is_legal(size: u32) -> bool {
    size.is_power_of_two() && size >= 2 << 10 && size <= 16 << 20
}

impl BarWindow {
    /// Returns the offset of `address` in the window if all `len` bytes from `address` lie in it.
    pub const fn offset_of(&self, address: u64, len: u64) -> Option<u64> {
        if address < self.address {
            return None;
        }
        let offset = address - self.address;
        if offset < self.size && len <= self.size - offset { Some(offset) } else { None }
    }
}
