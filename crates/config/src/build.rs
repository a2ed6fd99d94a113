// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lays a configuration space out: header, Base Address Registers, capabilities and their chains. Never changes one that
//! exists.

use crate::bar::{Bar, BarKind};
use crate::cap::{aer, msi, msix, pcie, pm, ro, rw};
use crate::header::{self, command, status, type0};
use crate::register::{Access, Register};
use crate::space::{Capabilities, ConfigSpace, REGISTERS};
use crate::{MsiLayout, MsixLayout, PcieLayout};
use thiserror::Error;

/// First DW that capabilities may take: byte 40h.
const FIRST_CAPABILITY: u16 = 0x40 / 4;
/// First DW of extended configuration space: byte 100h.
const FIRST_EXTENDED: u16 = 0x100 / 4;

/// Who a function says it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    /// Vendor ID.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
    /// Revision ID.
    pub revision: u8,
    /// Class Code: base class in bits 23:16, sub-class in 15:8, programming interface in 7:0.
    pub class: u32,
    /// Subsystem Vendor ID.
    pub subsystem_vendor: u16,
    /// Subsystem ID.
    pub subsystem: u16,
}

/// Why a configuration space cannot be laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum BuildError {
    /// No such BAR, or a 64-bit one in the last register.
    #[error("BAR {0}: legal are 0 to 5, 0 to 4 for a 64-bit one")]
    BarIndex(u8),
    /// The register belongs to another BAR.
    #[error("BAR {0} is taken by another BAR (a 64-bit one takes two)")]
    BarTaken(u8),
    /// The size is no power of two, or out of range.
    #[error(
        "BAR {0} of {1} bytes: legal are powers of two, 128 B to 2 GiB (64-bit: 2^63 B; I/O: 4 to 256 B)"
    )]
    BarSize(u8, u64),
    /// MSI vectors.
    #[error("{0} MSI vectors: legal are 1, 2, 4, 8, 16, 32")]
    MsiVectors(u8),
    /// MSI-X vectors.
    #[error("{0} MSI-X vectors: legal are 1 to 2048")]
    MsixVectors(u16),
    /// An MSI-X structure does not fit its BAR.
    #[error("MSI-X structure at offset {1:#x} of BAR {0}: must be 8 B aligned and lie within a memory BAR")]
    MsixPlace(u8, u32),
    /// The MSI-X table and the Pending Bit Array share bytes.
    #[error("the MSI-X table and its Pending Bit Array overlap")]
    MsixOverlap,
    /// Interrupt Pin.
    #[error("interrupt pin {0}: legal are 1 (INTA) to 4 (INTD)")]
    InterruptPin(u8),
}

/// Builds a [`ConfigSpace`]. Capabilities are chained in the order PM, MSI, PCI Express, MSI-X.
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    identity: Identity,
    bars: Vec<(u8, Bar)>,
    interrupt_pin: u8,
    multi_function: bool,
    power_management: bool,
    msi: Option<MsiLayout>,
    msix: Option<MsixLayout>,
    pcie: Option<PcieLayout>,
    aer: bool,
}

impl Builder {
    /// A function with a type 0 header, without BARs and capabilities.
    pub const fn type0(identity: Identity) -> Builder {
        Builder {
            identity,
            bars: Vec::new(),
            interrupt_pin: 0,
            multi_function: false,
            power_management: false,
            msi: None,
            msix: None,
            pcie: None,
            aer: false,
        }
    }

    /// Adds a Base Address Register.
    pub fn bar(mut self, index: u8, bar: Bar) -> Builder {
        self.bars.push((index, bar));
        self
    }

    /// Sets Interrupt Pin: 1 (INTA) to 4 (INTD).
    pub fn interrupt_pin(mut self, pin: u8) -> Builder {
        self.interrupt_pin = pin;
        self
    }

    /// Says in Header Type that the device has several functions.
    pub fn multi_function(mut self) -> Builder {
        self.multi_function = true;
        self
    }

    /// Adds the Power Management capability.
    pub fn power_management(mut self) -> Builder {
        self.power_management = true;
        self
    }

    /// Adds the MSI capability.
    pub fn msi(mut self, layout: MsiLayout) -> Builder {
        self.msi = Some(layout);
        self
    }

    /// Adds the MSI-X capability.
    pub fn msix(mut self, layout: MsixLayout) -> Builder {
        self.msix = Some(layout);
        self
    }

    /// Adds the PCI Express capability.
    pub fn pcie(mut self, layout: PcieLayout) -> Builder {
        self.pcie = Some(layout);
        self
    }

    /// Adds the Advanced Error Reporting extended capability.
    pub fn advanced_error_reporting(mut self) -> Builder {
        self.aer = true;
        self
    }

    /// The configuration space, as it is after a fundamental reset.
    ///
    /// # Errors
    /// Where a BAR, an MSI or MSI-X layout or the interrupt pin is not legal.
    pub fn build(self) -> Result<ConfigSpace, BuildError> {
        self.check_interrupts()?;
        let mut registers = vec![ro(0); REGISTERS].into_boxed_slice();
        self.header(&mut registers);
        let bars = self.place_bars(&mut registers)?;
        let capabilities = self.place_capabilities(&mut registers);
        Ok(ConfigSpace::from_parts(registers, bars, capabilities))
    }

    fn check_interrupts(&self) -> Result<(), BuildError> {
        if self.interrupt_pin > 4 {
            return Err(BuildError::InterruptPin(self.interrupt_pin));
        }
        if let Some(msi) = self.msi.filter(|m| !m.is_legal()) {
            return Err(BuildError::MsiVectors(msi.vectors));
        }
        self.msix.map_or(Ok(()), |msix| self.check_msix(msix))
    }

    fn check_msix(&self, msix: MsixLayout) -> Result<(), BuildError> {
        if msix.vectors == 0 || msix.vectors > 2048 {
            return Err(BuildError::MsixVectors(msix.vectors));
        }
        self.check_place(msix.table, msix.table_bytes())?;
        self.check_place(msix.pending, msix.pending_bytes())?;
        let (table, pending) = (u64::from(msix.table.1), u64::from(msix.pending.1));
        let apart = table + msix.table_bytes() <= pending || pending + msix.pending_bytes() <= table;
        if msix.table.0 == msix.pending.0 && !apart { Err(BuildError::MsixOverlap) } else { Ok(()) }
    }

    fn check_place(&self, (index, offset): (u8, u32), len: u64) -> Result<(), BuildError> {
        let fits = |bar: &Bar| bar.kind != BarKind::Io && u64::from(offset) + len <= bar.size;
        let bar = self.bars.iter().find(|(i, _)| *i == index);
        if offset.is_multiple_of(8) && bar.is_some_and(|(_, bar)| fits(bar)) {
            return Ok(());
        }
        Err(BuildError::MsixPlace(index, offset))
    }

    fn header(&self, registers: &mut [Register]) {
        let id = &self.identity;
        let mut set = |dw: u16, register| registers[usize::from(dw)] = register;
        set(header::ID, ro(u32::from(id.vendor) | u32::from(id.device) << 16));
        let access = Access { rw: command::WRITABLE, rw1c: status::RW1C, ..Access::default() };
        let list = if self.has_capabilities() { status::CAPABILITIES_LIST } else { 0 };
        set(header::COMMAND_STATUS, Register::new(list, access));
        set(header::CLASS_REVISION, ro(id.class << 8 | u32::from(id.revision)));
        let multi = if self.multi_function { header::MULTI_FUNCTION } else { 0 };
        set(header::MISC, rw(multi, 0xff)); // Cache Line Size is RW and without effect
        set(type0::SUBSYSTEM, ro(u32::from(id.subsystem_vendor) | u32::from(id.subsystem) << 16));
        set(header::INTERRUPT, rw(u32::from(self.interrupt_pin) << 8, 0xff));
    }

    fn has_capabilities(&self) -> bool {
        self.power_management || self.msi.is_some() || self.msix.is_some() || self.pcie.is_some()
    }

    fn place_bars(&self, registers: &mut [Register]) -> Result<[Option<Bar>; 6], BuildError> {
        let mut bars = [None; 6];
        let mut taken = [false; 6];
        for &(index, bar) in &self.bars {
            let width = if bar.kind == BarKind::Memory64 { 2 } else { 1 };
            if index > type0::BARS - width {
                return Err(BuildError::BarIndex(index));
            }
            if !bar.size_is_legal() {
                return Err(BuildError::BarSize(index, bar.size));
            }
            let (low, high) = bar.address_bits();
            let words = [rw(bar.type_bits(), low), rw(0, high)];
            for (i, word) in words.into_iter().take(usize::from(width)).enumerate() {
                let at = usize::from(index) + i;
                if std::mem::replace(&mut taken[at], true) {
                    return Err(BuildError::BarTaken(at as u8));
                }
                registers[usize::from(type0::BAR0) + at] = word;
            }
            bars[usize::from(index)] = Some(bar);
        }
        Ok(bars)
    }

    fn place_capabilities(&self, registers: &mut [Register]) -> Capabilities {
        let mut chain = Chain { registers, next_free: FIRST_CAPABILITY, link: None };
        let mut caps = Capabilities::default();
        if self.power_management {
            chain.add(pm::ID, &pm::registers());
        }
        caps.msi = self.msi.map(|layout| chain.add(msi::ID, &layout.registers()));
        caps.pcie = self.pcie.map(|layout| chain.add(pcie::ID, &layout.registers()));
        caps.msix = self.msix.map(|layout| (chain.add(msix::ID, &layout.registers()), layout));
        if self.aer {
            caps.aer = Some(FIRST_EXTENDED);
            place(registers, FIRST_EXTENDED, &aer::registers());
            preset(registers, FIRST_EXTENDED, u32::from(aer::ID) | u32::from(aer::VERSION) << 16);
        }
        caps
    }
}

/// The list of capabilities while it grows; all that there are fit below byte 100h.
struct Chain<'a> {
    registers: &'a mut [Register],
    next_free: u16,
    /// DW of the capability to link the next one to; none: the Capabilities Pointer.
    link: Option<u16>,
}

impl Chain<'_> {
    fn add(&mut self, id: u8, words: &[Register]) -> u16 {
        let at = self.next_free;
        place(self.registers, at, words);
        preset(self.registers, at, u32::from(id));
        let pointer = u32::from(at) * 4;
        match self.link {
            None => preset(self.registers, header::CAPABILITIES_POINTER, pointer),
            Some(last) => preset(self.registers, last, pointer << 8),
        }
        self.link = Some(at);
        self.next_free = at + words.len() as u16;
        at
    }
}

fn place(registers: &mut [Register], at: u16, words: &[Register]) {
    registers[usize::from(at)..][..words.len()].copy_from_slice(words);
}

/// Sets bits, now and for every reset.
fn preset(registers: &mut [Register], at: u16, bits: u32) {
    let register = &mut registers[usize::from(at)];
    register.value |= bits;
    register.reset |= bits;
}
