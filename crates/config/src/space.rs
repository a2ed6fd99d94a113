// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The 4 KiB of configuration space of one function. A write returns as [`Effects`] what the owner must do.

use crate::bar::{Bar, BarKind, BarWindow};
use crate::bridge::{BridgeLayout, BridgeWindows};
use crate::cap::{msi, pcie, pm};
use crate::containment::DpcSignal;
use crate::errors::ErrorState;
use crate::ext::Layouts;
use crate::header::{self, status, type0, type1};
use crate::register::{Register, byte_mask};
use crate::{Effects, MsixLayout};

/// Number of 32-bit registers: 4 KiB.
pub const REGISTERS: usize = 1024;
/// First DW of extended configuration space: byte 100h.
pub(crate) const FIRST_EXTENDED: u16 = 0x100 / 4;

/// Kind of reset; it decides which bits are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResetScope {
    /// Fundamental reset: keeps no bits.
    Fundamental,
    /// Hot reset: keeps sticky bits.
    Hot,
    /// Function Level Reset, or the internal reset from D3hot to D0: keeps sticky bits and the bits of `PCIe 5.0
    /// §6.6.2`, such as Max_Payload_Size and Link Control.
    FunctionLevel,
}

/// Type of a function's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeaderKind {
    /// Type 0.
    Type0,
    /// Type 1: a bridge.
    Type1,
    /// Type 0, of a virtual function (`PCIe 5.0 §9.3.4.1`).
    Virtual,
}

impl HeaderKind {
    /// Number of Base Address Registers.
    pub(crate) const fn bars(self) -> u8 {
        match self {
            HeaderKind::Type0 => type0::BARS,
            HeaderKind::Type1 => type1::BARS,
            HeaderKind::Virtual => 0,
        }
    }

    /// DW of Expansion ROM Base Address.
    pub(crate) const fn rom(self) -> Option<u16> {
        match self {
            HeaderKind::Type0 => Some(type0::EXPANSION_ROM),
            HeaderKind::Type1 => Some(type1::EXPANSION_ROM),
            HeaderKind::Virtual => None,
        }
    }
}

/// Positions of the capabilities, as DW numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Capabilities {
    pub(crate) pm: Option<u16>,
    pub(crate) msi: Option<u16>,
    pub(crate) msix: Option<(u16, MsixLayout)>,
    pub(crate) pcie: Option<u16>,
    pub(crate) aer: Option<u16>,
    /// ID and DW of each, in the order of the chain.
    pub(crate) list: Vec<(u8, u16)>,
    /// ID and DW of each extended capability.
    pub(crate) extended: Vec<(u16, u16)>,
    /// Declarations of some capabilities.
    pub(crate) layouts: Layouts,
}

impl Capabilities {
    pub(crate) fn extended(&self, id: u16) -> Option<u16> {
        self.extended.iter().find(|e| e.0 == id).map(|e| e.1)
    }
}

/// Parts of a space that are not registers.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) kind: HeaderKind,
    pub(crate) bridge: BridgeLayout,
    pub(crate) bars: [Option<Bar>; 6],
    pub(crate) rom: Option<u32>,
    pub(crate) capabilities: Capabilities,
}

/// Configuration space of one function: up to 1024 registers, made by [`Builder`](crate::Builder).
#[derive(Clone, Debug)]
pub struct ConfigSpace {
    /// Registers up to the last existing one.
    pub(crate) registers: Box<[Register]>,
    pub(crate) bars: [Option<Bar>; 6],
    /// The BARs as built, whose sizes a reset restores.
    pub(crate) bars_at_reset: [Option<Bar>; 6],
    pub(crate) rom: Option<u32>,
    pub(crate) kind: HeaderKind,
    pub(crate) bridge: BridgeLayout,
    pub(crate) capabilities: Capabilities,
    /// Requester ID of a PME that waits until PME Status is cleared.
    pub(crate) pme_waiting: Option<u16>,
    pub(crate) errors: ErrorState,
    /// Signals that Downstream Port Containment wants sent.
    pub(crate) dpc_signal: Option<DpcSignal>,
}

impl ConfigSpace {
    pub(crate) fn from_parts(registers: Vec<Register>, parts: Parts) -> ConfigSpace {
        let Parts { kind, bridge, bars, rom, capabilities } = parts;
        ConfigSpace {
            registers: registers.into_boxed_slice(),
            bars,
            bars_at_reset: bars,
            rom,
            kind,
            bridge,
            errors: ErrorState::new(capabilities.layouts.aer),
            capabilities,
            pme_waiting: None,
            dpc_signal: None,
        }
    }

    /// Returns the register with this DW number, 0 to 1023. Registers that do not exist read zero.
    pub fn read(&self, register_dw: u16) -> u32 {
        self.registers.get(usize::from(register_dw)).map_or(0, |r| r.value)
    }

    /// Returns the register with its fields. A register that does not exist has no fields.
    pub fn register(&self, register_dw: u16) -> Register {
        self.registers.get(usize::from(register_dw)).copied().unwrap_or_default()
    }

    /// Writes the bytes enabled by `byte_enables` (bits 3:0). Bits that software may not change keep their values.
    pub fn write(&mut self, register_dw: u16, byte_enables: u8, value: u32) -> Effects {
        let Some(register) = self.registers.get_mut(usize::from(register_dw)) else {
            return Effects::empty();
        };
        let old = register.value;
        let changed = register.write(byte_enables, value);
        let effects = register.effects_of(changed) | self.commanded(register_dw, byte_enables);
        if changed != 0 && register_dw >= FIRST_EXTENDED {
            self.follow_extended(register_dw, changed);
        }
        if effects.is_empty() { effects } else { self.follow(register_dw, old, effects) }
    }

    /// Returns SLOT_CONTROL for a write to Slot Control: each write is a command, even without a change (`PCIe 5.0
    /// §6.7.3.2`).
    fn commanded(&self, dw: u16, byte_enables: u8) -> Effects {
        let slot = self.capabilities.pcie.is_some_and(|s| dw == s + pcie::SLOT_CONTROL);
        if slot && byte_mask(byte_enables) & 0xffff != 0 && self.has_slot() {
            Effects::SLOT_CONTROL
        } else {
            Effects::empty()
        }
    }

    /// Updates the space after a write with effects. Returns the effects that remain for the owner.
    fn follow(&mut self, dw: u16, old: u32, effects: Effects) -> Effects {
        if effects.contains(Effects::POWER) && pm::unsupported(self.read(dw)) {
            self.set_bits(dw, pm::POWER_STATE, old);
            return effects - Effects::POWER;
        }
        if effects.contains(Effects::PME) {
            self.next_pme();
        }
        effects
    }

    /// Sets the bits in `mask` to the bits of `value`, like hardware. No effect if the register does not exist.
    pub(crate) fn set_bits(&mut self, dw: u16, mask: u32, value: u32) {
        if let Some(register) = self.registers.get_mut(usize::from(dw)) {
            register.set(mask, value);
        }
    }

    /// Resets the registers.
    pub fn reset(&mut self, scope: ResetScope) {
        for register in &mut self.registers {
            let access = register.access;
            let kept = match scope {
                ResetScope::Fundamental => 0,
                ResetScope::Hot => access.sticky,
                ResetScope::FunctionLevel => access.sticky | access.kept_by_flr,
            };
            register.reset(kept | access.state);
        }
        self.pme_waiting = None;
        for (index, bar) in self.bars_at_reset.into_iter().enumerate() {
            if let Some(bar) = bar.filter(|_| bar != self.bars[index]) {
                self.place_bar(index as u8, bar);
            }
        }
        self.reset_extended(scope);
    }

    /// Returns the DW number of the first capability with this ID.
    pub fn capability(&self, id: u8) -> Option<u16> {
        self.capabilities.list.iter().find(|c| c.0 == id).map(|c| c.1)
    }

    /// Returns the DW number of the first extended capability with this ID.
    pub fn extended_capability(&self, id: u16) -> Option<u16> {
        self.capabilities.extended(id)
    }

    /// Returns a register of the first extended capability with this ID, by its DW in the capability.
    pub(crate) fn extended_word(&self, id: u16, dw: u16) -> Option<u32> {
        self.extended_capability(id).map(|start| self.read(start + dw))
    }

    /// Sets bits of a register of the first extended capability with this ID, as hardware does.
    pub(crate) fn set_extended_bits(&mut self, id: u16, dw: u16, mask: u32, value: u32) {
        if let Some(start) = self.extended_capability(id) {
            self.set_bits(start + dw, mask, value);
        }
    }

    /// Returns the forwarding state of this bridge; `None` for a type 0 header.
    pub fn bridge(&self) -> Option<BridgeWindows> {
        (self.kind == HeaderKind::Type1).then(|| BridgeWindows::read(self.bridge, |dw| self.read(dw)))
    }

    /// True for the space of a virtual function.
    pub fn is_virtual(&self) -> bool {
        self.kind == HeaderKind::Virtual
    }

    /// Interrupt Pin: 1 (INTA) to 4 (INTD); `None` without INTx.
    pub fn interrupt_pin(&self) -> Option<u8> {
        let pin = (self.read(header::INTERRUPT) >> 8) as u8;
        (pin != 0).then_some(pin)
    }

    /// Sets Interrupt Status: the function requests INTx, whether or not INTx is disabled.
    pub fn set_interrupt_status(&mut self, wanted: bool) {
        self.set_bits(header::COMMAND_STATUS, status::INTERRUPT_STATUS, if wanted { !0 } else { 0 });
    }

    /// Sets bits of the Status register (`header::status`).
    pub fn set_status(&mut self, bits: u32) {
        self.set_bits(header::COMMAND_STATUS, bits & status::RW1C, !0);
    }

    /// Window of BAR `index`, whether or not its space is enabled. `None` if there is no such BAR.
    pub fn bar(&self, index: u8) -> Option<BarWindow> {
        let bar = (*self.bars.get(usize::from(index))?)?;
        let at = type0::BAR0 + u16::from(index);
        let low = u64::from(self.read(at) & bar.address_bits().0);
        let high = if bar.kind == BarKind::Memory64 { u64::from(self.read(at + 1)) << 32 } else { 0 };
        Some(BarWindow {
            kind: bar.kind,
            address: low | high,
            size: bar.size,
            prefetchable: bar.prefetchable,
        })
    }

    /// Window of the Expansion ROM if it is enabled. Memory Space Enable is not checked here.
    pub fn expansion_rom(&self) -> Option<BarWindow> {
        let size = self.rom?;
        let value = self.read(self.kind.rom()?);
        (value & 1 != 0).then(|| BarWindow {
            kind: BarKind::Memory32,
            address: u64::from(value & !(size - 1)),
            size: u64::from(size),
            prefetchable: false,
        })
    }

    /// Changes the size of BAR `index`, like Resizable BAR Control (`PCIe 5.0 §7.8.6.3`): address bits below the size
    /// become zero. Returns false and has no effect if there is no such BAR or the size is illegal for it.
    pub fn set_bar_size(&mut self, index: u8, size: u64) -> bool {
        let Some(Some(bar)) = self.bars.get(usize::from(index)).copied() else { return false };
        let resized = Bar { size, ..bar };
        let legal = resized.size_is_legal();
        if legal {
            self.place_bar(index, resized);
        }
        legal
    }

    fn place_bar(&mut self, index: u8, bar: Bar) {
        let at = usize::from(type0::BAR0) + usize::from(index);
        let width = if bar.kind == BarKind::Memory64 { 2 } else { 1 };
        for (old, mut new) in self.registers[at..].iter_mut().zip(bar.registers()).take(width) {
            new.set(new.access.rw, old.value);
            *old = new;
        }
        self.bars[usize::from(index)] = Some(bar);
    }

    /// DW number of the PCI Express capability.
    pub fn pcie_capability(&self) -> Option<u16> {
        self.capabilities.pcie
    }

    /// DW number of the MSI capability.
    pub fn msi_capability(&self) -> Option<u16> {
        self.capabilities.msi
    }

    /// DW number of the MSI-X capability.
    pub fn msix_capability(&self) -> Option<u16> {
        self.capabilities.msix.map(|(at, _)| at)
    }

    /// DW number of the Advanced Error Reporting capability.
    pub fn aer_capability(&self) -> Option<u16> {
        self.capabilities.aer
    }

    /// Returns a register of the MSI capability; zero without it.
    pub(crate) fn msi_word(&self, dw: u16) -> u32 {
        self.capabilities.msi.map_or(0, |at| self.read(at + dw))
    }

    /// DW numbers of Mask Bits and Pending Bits of MSI, if it has them.
    pub(crate) fn msi_masking(&self) -> Option<(u16, u16)> {
        let at = self.capabilities.msi?;
        let control = self.read(at);
        let mask = at + msi::data_dw(control) + 1;
        (control & msi::PER_VECTOR_MASKING != 0).then_some((mask, mask + 1))
    }
}
