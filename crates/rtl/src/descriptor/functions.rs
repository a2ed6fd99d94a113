// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions of a block: their numbers, and the register values shown to the design (PG023, PG156, PG213: "Configuration Status
//! Interface"). Never changes a register.

use crate::block::BlockKind;
use crate::block::descriptor::Driven;
use crate::registers::Registers;
use crate::signals::Outputs;
use crate::status::width as working_width;
use config::{ConfigSpace, SriovState};
use tlp::Bdf;

/// Credits that are shown to the design: many of every kind, because the link's real credits are not visible here.
const HEADERS: u32 = 0x7f;
const DATA: u32 = 0x3ff;

/// Index of a function: first the physical functions (as many as the block may have), then the virtual functions.
pub(super) type FunctionIndex = usize;

#[derive(Default)]
struct One {
    /// Its index in the front.
    index: Option<u16>,
    registers: Registers,
    is_enabled: bool,
    /// Base-2 logarithms of its BAR sizes in bytes.
    apertures: [u8; 6],
    sriov: Option<SriovState>,
}

/// See the [module](self).
pub(super) struct Functions {
    kind: BlockKind,
    /// Number of physical functions that the block may have.
    most: usize,
    /// First virtual function of each existing physical function.
    first: Vec<FunctionIndex>,
    all: Vec<One>,
    /// Slots by the front's function index.
    slots: Vec<Option<FunctionIndex>>,
}

impl Functions {
    /// Creates a physical function for each entry of `virtual_functions`, which is its number of virtual functions.
    pub(super) fn new(kind: BlockKind, virtual_functions: &[u16]) -> Functions {
        let most = usize::from(kind.functions()[0]);
        let first = virtual_functions.iter().scan(most, |next, count| {
            let at = *next;
            *next += usize::from(*count);
            Some(at)
        });
        let first: Vec<FunctionIndex> = first.collect();
        let virtuals: usize = virtual_functions.iter().map(|count| usize::from(*count)).sum();
        let mut all: Vec<One> = (0..most + virtuals).map(|_| One::default()).collect();
        for (n, one) in all.iter_mut().take(first.len()).enumerate() {
            (one.index, one.is_enabled) = (Some(n as u16), true);
        }
        let slots = (0..first.len()).map(Some).collect();
        Functions { kind, most, first, all, slots }
    }

    /// Returns the number of the first virtual function in descriptors.
    fn first_number(kind: BlockKind) -> u8 {
        match kind {
            BlockKind::UltraScalePlus => 4,
            _ => 64,
        }
    }

    /// Returns the number of the first virtual function at the interrupt ports.
    fn first_interrupt_number(kind: BlockKind) -> u8 {
        match kind {
            BlockKind::UltraScalePlus => 4,
            _ => 2,
        }
    }

    fn slot_of(&self, number: u32, first: u8) -> Option<FunctionIndex> {
        let virtual_one = (number as usize).checked_sub(first.into()).map(|n| n + self.most);
        let slot = virtual_one.unwrap_or(number as usize);
        let is_one = virtual_one.is_some() || slot < self.first.len();
        (is_one && self.is_enabled(slot)).then_some(slot)
    }

    /// Returns the function with this number in descriptors.
    pub(super) fn slot_of_number(&self, number: u8) -> Option<FunctionIndex> {
        self.slot_of(number.into(), Functions::first_number(self.kind))
    }

    /// Returns the function with this number in `cfg_interrupt_msi_function_number` and `cfg_vf_flr_func_num`.
    pub(super) fn slot_of_interrupt(&self, number: u32) -> Option<FunctionIndex> {
        self.slot_of(number, Functions::first_interrupt_number(self.kind))
    }

    pub(super) fn slot_of_index(&self, index: u16) -> Option<FunctionIndex> {
        self.slots.get(usize::from(index)).copied().flatten()
    }

    /// Returns the number of a function in descriptors.
    pub(super) fn number(&self, slot: FunctionIndex) -> u8 {
        match slot.checked_sub(self.most) {
            Some(n) => Functions::first_number(self.kind).wrapping_add(n as u8),
            None => slot as u8,
        }
    }

    pub(super) fn index(&self, slot: FunctionIndex) -> Option<u16> {
        self.all.get(slot).and_then(|one| one.index)
    }

    pub(super) fn is_enabled(&self, slot: FunctionIndex) -> bool {
        self.all.get(slot).is_some_and(|one| one.is_enabled)
    }

    /// Returns the physical function with this interrupt pin, from 1.
    pub(super) fn with_pin(&self, pin: u32) -> Option<FunctionIndex> {
        (0..self.first.len()).find(|slot| self.registers(*slot).get(15) >> 8 & 0xff == pin)
    }

    pub(super) fn registers(&self, slot: FunctionIndex) -> &Registers {
        &self.all[slot].registers
    }

    pub(super) fn aperture(&self, slot: FunctionIndex, bar: u8) -> u8 {
        self.all[slot].apertures.get(usize::from(bar)).copied().unwrap_or(0)
    }

    /// Returns the index of a virtual function in the vectors of virtual functions.
    pub(super) fn nth_virtual(&self, slot: FunctionIndex) -> Option<u16> {
        slot.checked_sub(self.most).map(|n| n as u16)
    }

    pub(super) fn slot_of_virtual(&self, n: u16) -> FunctionIndex {
        self.most + usize::from(n)
    }

    /// Returns the number of slots.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// Follows the registers of a function of the front.
    pub(super) fn follow(&mut self, index: u16, id: Bdf, config: &ConfigSpace) {
        if config.is_virtual() {
            self.follow_virtual(index, id, config)
        } else {
            self.follow_physical(index, id, config)
        }
    }

    fn follow_physical(&mut self, index: u16, id: Bdf, config: &ConfigSpace) {
        let Some(&first) = self.first.get(usize::from(index)) else { return };
        let sriov = config.sriov();
        let one = &mut self.all[usize::from(index)];
        one.registers.follow(id, config);
        one.sriov = sriov;
        let log = |bytes: Option<u64>| bytes.map_or(0, |bytes| bytes.ilog2() as u8);
        one.apertures = std::array::from_fn(|bar| log(config.bar(bar as u8).map(|bar| bar.size)));
        let Some(sriov) = sriov else { return };
        let apertures = std::array::from_fn(|bar| log(config.vf_bar(bar as u8).map(|bar| bar.size)));
        let virtuals = self.all.iter_mut().skip(first).take(sriov.total_vfs.into());
        for (n, one) in virtuals.enumerate() {
            (one.is_enabled, one.apertures) = (n < usize::from(sriov.vfs()), apertures);
        }
    }

    fn follow_virtual(&mut self, index: u16, id: Bdf, config: &ConfigSpace) {
        let mut physical = self.all.iter().zip(&self.first);
        let place = physical.find_map(|(one, first)| {
            let n = one.sriov?.index_of(Bdf::from_bits(one.registers.id), id)?;
            Some(first + usize::from(n))
        });
        if let Some(slot) = place {
            self.slots.resize(self.slots.len().max(usize::from(index) + 1), None);
            self.slots[usize::from(index)] = Some(slot);
            self.all[slot].index = Some(index);
        }
        if let Some(slot) = self.slot_of_index(index) {
            self.all[slot].registers.follow(id, config);
        }
    }

    /// Drives the status outputs from the registers.
    pub(super) fn drive(&self, outputs: &mut Outputs<'_>, lanes: u16) {
        for (slot, one) in self.all.iter().enumerate() {
            match self.nth_virtual(slot) {
                None => self.drive_physical(outputs, slot as u16, one),
                Some(n) => drive_virtual(outputs, n, one),
            }
        }
        let first = &self.all[0].registers;
        let [device, link] = [2, 4].map(|at| first.pcie(at));
        let speed = (link >> 16 & 0xf).saturating_sub(1);
        let log = working_width(link >> 16, lanes).trailing_zeros();
        // UltraScale+ uses numbers; the others use one bit per value.
        let (width, speed) = match self.kind {
            BlockKind::UltraScalePlus => (log, speed),
            _ => (1 << log, 1 << speed.min(2)),
        };
        for (port, value) in [
            (Driven::MaxPayload, device >> 5 & 0b111),
            (Driven::MaxReadRequest, device >> 12 & 0b111),
            (Driven::Width, width),
            (Driven::Speed, speed),
            (Driven::Bus, u32::from(first.id >> 8)),
            (Driven::PostedHeaders, HEADERS),
            (Driven::PostedData, DATA),
            (Driven::NonPostedHeaders, HEADERS),
            (Driven::NonPostedData, DATA),
            (Driven::CompletionHeaders, HEADERS),
            (Driven::CompletionData, DATA),
        ] {
            outputs.set(port, value);
        }
    }

    fn drive_physical(&self, outputs: &mut Outputs<'_>, n: u16, one: &One) {
        let registers = &one.registers;
        let command = registers.command();
        // I/O, memory, bus master, and INTx disabled.
        let status = command & 0b111 | (command >> 10 & 1) << 3;
        let (msi, msix) = (registers.msi_control(), registers.msix_control());
        for (port, bits, value) in [
            (Driven::FunctionStatus, 4, status),
            (Driven::FunctionPower, 3, registers.power() & 0b11),
            (Driven::Rcb, 1, registers.pcie(4) >> 3 & 1),
            (Driven::MsiEnable, 1, msi & 1),
            (Driven::MultipleMessages, 3, msi >> 4 & 0b111),
            (Driven::MsixEnable, 1, msix >> 15 & 1),
            (Driven::MsixMask, 1, msix >> 14 & 1),
        ] {
            outputs.set_field(port, bits * n, bits, value);
        }
    }
}

fn drive_virtual(outputs: &mut Outputs<'_>, n: u16, one: &One) {
    let registers = &one.registers;
    let (msi, msix) = (registers.msi_control(), registers.msix_control());
    let is = |value: u32| if one.is_enabled { value } else { 0 };
    for (port, bits, value) in [
        (Driven::VfStatus, 2, 1 | (registers.command() >> 2 & 1) << 1),
        (Driven::VfPower, 3, registers.power() & 0b11),
        (Driven::MsiVfEnable, 1, msi & 1),
        (Driven::MsixVfEnable, 1, msix >> 15 & 1),
        (Driven::MsixVfMask, 1, msix >> 14 & 1),
    ] {
        outputs.set_field(port, bits * n, bits, is(value));
    }
}
