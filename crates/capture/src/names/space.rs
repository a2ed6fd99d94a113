// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The known contents of one function's configuration space. A bit is known only if it was read or written.

use super::meaning::Action;
use super::msix::Table;
use super::place::{self, ConfigRegister, Header};
use super::windows::Window;
use crate::settings::DeviceControl;
use config::header::{self, command, type0};
use config::register::{Access, byte_mask, get};
use config::{BarKind, VfNumbering, cap, ext};
use std::collections::BTreeMap;
use tlp::{Bdf, Mps, Mrrs};

/// First DW of the capabilities, and first DW of the extended capabilities.
const CAPABILITIES: u16 = 16;
const EXTENDED: u16 = 64;
/// The bits that are not part of the address: in a memory BAR, and in an Expansion ROM BAR.
const MEMORY_FLAGS: u32 = 0xf;
const ROM_FLAGS: u32 = !type0::ROM_ADDRESS;
/// Values that a read returns if the function does not exist or is not ready (`PCIe 5.0 §2.3.2`).
const ABSENT: [u32; 2] = [0xffff_ffff, header::NOT_READY];

/// A DW and a mask of its known bits.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    value: u32,
    bits: u32,
}

/// A Base Address Register.
#[derive(Clone, Copy, Debug, Default)]
struct Sized {
    /// The last write was all ones, so the next read returns the bits that determine the size.
    is_sizing: bool,
    /// The value read after ones were written.
    size_bits: Option<u32>,
    /// The value written to set the address.
    value: Option<u32>,
}

/// The virtual functions of a physical function.
struct VirtualFunctions {
    count: u16,
    numbering: VfNumbering,
    /// System Page Size in bytes, the minimum size of a window of a virtual function.
    page_size: u64,
}

/// One function's configuration space.
#[derive(Clone, Debug, Default)]
pub(super) struct Space {
    words: BTreeMap<u16, Known>,
    bars: [Sized; type0::BARS as usize],
    vf_bars: [Sized; type0::BARS as usize],
    rom: Sized,
}

impl Space {
    /// Returns true if a read of Vendor and Device ID returned another device than the known one.
    pub(super) fn is_of_another(&self, dw: u16, value: u32) -> bool {
        let known = self.words.get(&header::ID).filter(|known| known.bits == !0);
        dw == header::ID && known.is_some_and(|known| known.value != value && !ABSENT.contains(&value))
    }

    /// Stores the value that a read returned, and returns its meaning.
    pub(super) fn learn(&mut self, dw: u16, value: u32) -> Action {
        if dw == header::ID && value == ABSENT[1] {
            return Action::Answer(value);
        }
        self.words.insert(dw, Known { value, bits: !0 });
        let Some(place) = self.place(dw) else { return Action::Answer(value) };
        if let Some(sized) = self.sized_mut(place).filter(|sized| sized.is_sizing) {
            (sized.is_sizing, sized.size_bits) = (false, Some(value));
            return self.size(place).map_or(Action::Answer(value), Action::Size);
        }
        Action::Answer(value)
    }

    /// Stores a written value, and returns its meaning.
    pub(super) fn write(
        &mut self,
        place: Option<ConfigRegister>,
        dw: u16,
        enables: u8,
        value: u32,
    ) -> Action {
        let named = byte_mask(enables);
        let flags = if place == Some(ConfigRegister::Rom) { ROM_FLAGS } else { MEMORY_FLAGS };
        if let Some(sized) = place.and_then(|place| self.sized_mut(place)) {
            sized.is_sizing = named == !0 && value | flags == !0;
            sized.value = (named == !0 && !sized.is_sizing).then_some(value);
            return if sized.is_sizing { Action::Sizing } else { Action::Write(value) };
        }
        if let Some(ConfigRegister::Line { word, .. }) = place {
            let kept = Access::of(word.fields).rw & named;
            let known = self.words.entry(dw).or_default();
            *known = Known { value: known.value & !kept | value & kept, bits: known.bits | kept };
        }
        // A write to Resizable BAR changes the size of BARs, which the next sizing shows.
        if place.is_some_and(|place| place.is_of(&ext::resizable::TABLE)) {
            self.bars = [Sized::default(); type0::BARS as usize];
        }
        Action::Write(value)
    }

    /// The register at `dw`, if its name is known.
    pub(super) fn place(&self, dw: u16) -> Option<ConfigRegister> {
        let found = match dw {
            0..CAPABILITIES => place::in_header(self.header(), dw),
            CAPABILITIES..EXTENDED => {
                let (id, at) = self.capability_at(dw)?;
                place::in_capability(id, self.words.get(&at)?.value, dw - at)
            }
            _ => {
                let (id, at) = self.extended_at(dw)?;
                place::in_extended(id, dw - at)
            }
        };
        Some(match found? {
            ConfigRegister::Bar { index, .. } => {
                ConfigRegister::Bar { index, is_upper: is_upper(&self.bars, index) }
            }
            ConfigRegister::VfBar { index, .. } => {
                ConfigRegister::VfBar { index, is_upper: is_upper(&self.vf_bars, index) }
            }
            other => other,
        })
    }

    /// Vendor and Device ID.
    pub(super) fn ids(&self) -> Option<(u16, u16)> {
        let id = self.known(header::ID, !0)?;
        Some((id as u16, (id >> 16) as u16))
    }

    /// Vendor and Device ID of the virtual functions.
    pub(super) fn vf_ids(&self) -> Option<(u16, u16)> {
        let at = self.extended(ext::sriov::ID)?;
        let device = self.known(at + ext::sriov::VF_DEVICE_ID, ext::sriov::vf_device_id::DEVICE_ID)?;
        Some((self.ids()?.0, (device >> 16) as u16))
    }

    /// The settings that limit the TLPs of a function with a type 0 or type 1 header.
    pub(super) fn device_control(&self) -> Option<DeviceControl> {
        use cap::pcie::{DEVICE_CONTROL, DEVICE_CONTROL_2, ID, device_control, device_control_2};
        if self.header()? == Header::Virtual {
            return None;
        }
        let at = self.capability(ID)?;
        let control = |bits| self.known(at + DEVICE_CONTROL, bits).map(|word| get(word, bits));
        // Unknown bits are clear, as after reset (`PCIe 5.0 §7.5.3.16`).
        let ten_bit = self.known(at + DEVICE_CONTROL_2, device_control_2::TEN_BIT_TAG).unwrap_or(0) != 0;
        let tags = control(device_control::EXTENDED_TAG).map(|extended| match (ten_bit, extended) {
            (true, _) => 1024,
            (false, 0) => 32,
            (false, _) => 256,
        });
        Some(DeviceControl {
            mps: control(device_control::MPS).and_then(|code| Mps::from_encoding(code as u8)),
            mrrs: control(device_control::MRRS).and_then(|code| Mrrs::from_encoding(code as u8)),
            tags,
        })
    }

    /// The MSI vector that a write with this address and data raises.
    pub(super) fn msi_vector(&self, address: u64, data: &[u8]) -> Option<u16> {
        let at = self.capability(cap::msi::ID)?;
        let control = self.known(at, !0)?;
        let needed = |dw| match dw {
            1 => cap::msi::ADDRESS,
            dw if dw == cap::msi::data_dw(control) => cap::msi::DATA,
            _ => !0,
        };
        // Without all needed DWs, the vector is unknown.
        let last = cap::msi::data_dw(control);
        (1..=last).try_for_each(|dw| self.known(at + dw, needed(dw)).map(|_| ()))?;
        let config = cap::msi::config(|dw| self.words.get(&(at + dw)).map_or(0, |known| known.value))?;
        let written = u32::from_le_bytes(*data.first_chunk().filter(|_| data.len() == 4)?);
        let vector = written as u16 & u16::from(config.vectors - 1);
        let base = config.data & !u16::from(config.vectors - 1);
        (address == config.address && written == u32::from(base | vector)).then_some(vector)
    }

    /// Returns true if MSI-X is known to be enabled.
    pub(super) fn msix_is_enabled(&self) -> bool {
        let control = self.capability(cap::msix::ID).and_then(|at| self.known(at, cap::msix::ENABLE));
        control.is_some_and(|control| control & cap::msix::ENABLE != 0)
    }

    /// Position and size of the MSI-X table.
    pub(super) fn msix_table(&self) -> Option<Table> {
        use cap::msix::{CONTROL, ID, TABLE_BIR, TABLE_OFFSET, TABLE_PLACE, TABLE_SIZE};
        let at = self.capability(ID)?;
        let (control, place) = (self.known(at + CONTROL, TABLE_SIZE)?, self.known(at + TABLE_PLACE, !0)?);
        let vectors = get(control, TABLE_SIZE) as u16 + 1;
        Some(Table { bar: get(place, TABLE_BIR) as u8, offset: u64::from(place & TABLE_OFFSET), vectors })
    }

    /// The memory windows that the function and its virtual functions claim.
    pub(super) fn windows(&self, function: Bdf) -> Vec<Window> {
        let mut all = Vec::new();
        let enabled = self.known(header::COMMAND_STATUS, command::MEMORY_SPACE);
        if enabled.is_some_and(|word| word & command::MEMORY_SPACE != 0) {
            all.extend((0..type0::BARS).filter_map(|bar| {
                let (address, size) = window(&self.bars, bar)?;
                Some(Window { address, size, count: 1, bar, function, stride: 0, physical: function })
            }));
        }
        if let Some(VirtualFunctions { count, numbering, page_size }) = self.virtual_functions() {
            let VfNumbering { first_offset, stride } = numbering;
            let first = Bdf::from_bits(function.bits().wrapping_add(first_offset));
            all.extend((0..type0::BARS).filter_map(|bar| {
                let (address, size) = window(&self.vf_bars, bar)?;
                let size = size.max(page_size);
                Some(Window { address, size, count, bar, function: first, stride, physical: function })
            }));
        }
        all
    }

    /// The virtual functions, if they are enabled and claim memory.
    fn virtual_functions(&self) -> Option<VirtualFunctions> {
        use ext::sriov::{CONTROL, NUM_VFS, NUMBERING, SYSTEM_PAGE_SIZE, control, num_vfs};
        let at = self.extended(ext::sriov::ID)?;
        let both = control::VF_ENABLE | control::VF_MEMORY_ENABLE;
        if self.known(at + CONTROL, both)? & both != both {
            return None;
        }
        let (numbers, pages) = (self.known(at + NUMBERING, !0)?, self.known(at + SYSTEM_PAGE_SIZE, !0)?);
        let count = self.known(at + NUM_VFS, num_vfs::NUMBER)? as u16;
        Some(VirtualFunctions {
            count,
            numbering: VfNumbering { first_offset: numbers as u16, stride: (numbers >> 16) as u16 },
            page_size: 4096 << pages.trailing_zeros().min(31),
        })
    }

    /// The bits `bits` of a DW; `None` unless all of them are known.
    fn known(&self, dw: u16, bits: u32) -> Option<u32> {
        let known = self.words.get(&dw).filter(|known| bits & !known.bits == 0)?;
        Some(known.value & bits)
    }

    fn header(&self) -> Option<Header> {
        let layout = self.known(header::MISC, type0::HEADER_LAYOUT)?;
        match (layout & header::TYPE_1 != 0, self.known(header::ID, !0)) {
            (true, _) => Some(Header::Type1),
            // The Vendor ID of a virtual function reads as all ones (`PCIe 5.0 §9.3.4.1.1`).
            (false, Some(ABSENT_ID)) => Some(Header::Virtual),
            (false, _) => Some(Header::Type0),
        }
    }

    /// ID and DW of each capability, up to the end of the known part of the chain.
    fn capabilities(&self) -> impl Iterator<Item = (u8, u16)> {
        let pointer = self.known(header::CAPABILITIES_POINTER, type0::FIRST_CAPABILITY).unwrap_or(0);
        let mut at = (pointer / 4) as u16;
        // Stops after as many as there is room for, because the chain may be a ring.
        (CAPABILITIES..EXTENDED).map_while(move |_| {
            let head = self.known(at, 0xffff).filter(|_| (CAPABILITIES..EXTENDED).contains(&at))?;
            let found = (head as u8, at);
            at = (head >> 8 & 0xff) as u16 / 4;
            Some(found)
        })
    }

    /// ID and DW of each extended capability, up to the end of the known part of the chain.
    fn extended_capabilities(&self) -> impl Iterator<Item = (u16, u16)> {
        let mut at = EXTENDED;
        (EXTENDED..1024).map_while(move |_| {
            let head = self.known(at, !0).filter(|head| at >= EXTENDED && *head != 0 && *head != !0)?;
            let found = (head as u16, at);
            at = (head >> 20) as u16 / 4;
            Some(found)
        })
    }

    fn capability(&self, id: u8) -> Option<u16> {
        self.capabilities().find(|(found, _)| *found == id).map(|(_, at)| at)
    }

    fn extended(&self, id: u16) -> Option<u16> {
        self.extended_capabilities().find(|(found, _)| *found == id).map(|(_, at)| at)
    }

    fn capability_at(&self, dw: u16) -> Option<(u8, u16)> {
        self.capabilities().filter(|(_, at)| *at <= dw).max_by_key(|(_, at)| *at)
    }

    fn extended_at(&self, dw: u16) -> Option<(u16, u16)> {
        self.extended_capabilities().filter(|(_, at)| *at <= dw).max_by_key(|(_, at)| *at)
    }

    fn sized_mut(&mut self, place: ConfigRegister) -> Option<&mut Sized> {
        match place {
            ConfigRegister::Bar { index, .. } => self.bars.get_mut(usize::from(index)),
            ConfigRegister::VfBar { index, .. } => self.vf_bars.get_mut(usize::from(index)),
            ConfigRegister::Rom => Some(&mut self.rom),
            ConfigRegister::Line { .. } => None,
        }
    }

    /// The size in bytes of a BAR that was just sized; `None` as long as one half of a 64-bit BAR is unknown.
    fn size(&self, place: ConfigRegister) -> Option<u64> {
        match place {
            ConfigRegister::Bar { index, is_upper } => size(&self.bars, index - u8::from(is_upper)),
            ConfigRegister::VfBar { index, is_upper } => size(&self.vf_bars, index - u8::from(is_upper)),
            ConfigRegister::Rom => {
                self.rom.size_bits.filter(|bits| *bits != 0).map(|bits| u64::from(!(bits & !ROM_FLAGS)) + 1)
            }
            ConfigRegister::Line { .. } => None,
        }
    }
}

/// Vendor and Device ID that a virtual function returns.
const ABSENT_ID: u32 = ABSENT[0];

/// The kind of a BAR, from its low bits; `None` if it is not implemented or was not sized yet.
fn kind(bars: &[Sized; 6], index: u8) -> Option<BarKind> {
    let bits = bars.get(usize::from(index))?.size_bits.filter(|bits| *bits != 0)?;
    Some(match bits & 0b111 {
        bits if bits & 1 == 1 => BarKind::Io,
        0b100 => BarKind::Memory64,
        _ => BarKind::Memory32,
    })
}

/// Returns true if the BAR is the upper half of a 64-bit BAR.
fn is_upper(bars: &[Sized; 6], index: u8) -> bool {
    let Some(before) = index.checked_sub(1) else { return false };
    kind(bars, before) == Some(BarKind::Memory64) && !is_upper(bars, before)
}

/// Size of a BAR in bytes.
fn size(bars: &[Sized; 6], index: u8) -> Option<u64> {
    let low = bars[usize::from(index)].size_bits?;
    Some(match kind(bars, index)? {
        BarKind::Io => u64::from(!(low & !0b11 | 0xffff_0000)) + 1,
        BarKind::Memory32 => u64::from(!(low & !MEMORY_FLAGS)) + 1,
        BarKind::Memory64 => {
            let high = bars.get(usize::from(index) + 1)?.size_bits?;
            let bits = u64::from(high) << 32 | u64::from(low & !MEMORY_FLAGS);
            (!bits).checked_add(1)?
        }
    })
}

/// Address and size in bytes of a memory BAR; `None` for other BARs.
fn window(bars: &[Sized; 6], index: u8) -> Option<(u64, u64)> {
    if is_upper(bars, index) {
        return None;
    }
    let size = size(bars, index)?;
    let low = u64::from(bars[usize::from(index)].value? & !MEMORY_FLAGS);
    let high = match kind(bars, index)? {
        BarKind::Memory64 => u64::from(bars.get(usize::from(index) + 1)?.value?),
        BarKind::Memory32 => 0,
        BarKind::Io => return None,
    };
    Some((high << 32 | low, size))
}
