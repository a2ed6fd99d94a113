// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lays out a new configuration space: header, Base Address Registers, capabilities and their lists.

use crate::bar::{Bar, BarIndex, BarKind, rom_size_is_legal};
use crate::bridge::{BridgeLayout, IoWindow, PrefetchableWindow};
use crate::cap::vendor::Vendor;
use crate::cap::{msi, msix, pcie, pm, ssid, vendor};
use crate::cap::{msi::MsiOptions, pm::PmLayout};
use crate::ext::vc::{self, VcLayout};
use crate::ext::{Layouts, aer, virtual_function};
use crate::header::{self, status, type0, type1};
use crate::register::{Register, Structure};
use crate::space::{Capabilities, ConfigSpace, FIRST_EXTENDED, HeaderKind, Parts, REGISTERS};
use crate::{MsiLayout, MsixLayout, PcieLayout};
use thiserror::Error;

/// First DW that capabilities may take: byte 40h.
const FIRST_CAPABILITY: u16 = 0x40 / 4;

/// Identification registers of a function.
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

/// Reason why a configuration space cannot be laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum BuildError {
    /// Vendor ID and Device ID are reserved values.
    #[error(
        "vendor {0:#06x}, device {1:#06x}, expected other IDs: vendor 0xffff means an absent function, and vendor 0x0001 with \
         device 0xffff a function that is not ready"
    )]
    Identity(u16, u16),
    /// There is no such BAR, or a 64-bit BAR is in the last register.
    #[error(
        "BAR {0}, expected 0 to 5 (bridges: 0 and 1; virtual functions have no BARs), not the last for a 64-bit one"
    )]
    BarIndex(u8),
    /// The register belongs to another BAR.
    #[error("BAR {0} is taken by another BAR (a 64-bit one takes two)")]
    BarTaken(u8),
    /// The BAR's size is not a power of two, or is out of range.
    #[error("BAR {0} of {1} bytes, expected powers of two, 128 B to 2 GiB (64-bit: 2^63 B; I/O: 4 to 256 B)")]
    BarSize(u8, u64),
    /// The Expansion ROM's size is illegal.
    #[error("Expansion ROM of {0} bytes, expected powers of two, 2 KiB to 16 MiB")]
    RomSize(u32),
    /// The number of MSI vectors is illegal.
    #[error("{0} MSI vectors, expected 1, 2, 4, 8, 16, 32")]
    MsiVectors(u8),
    /// The number of MSI-X vectors is illegal.
    #[error("{0} MSI-X vectors, expected 1 to 2048")]
    MsixVectors(u16),
    /// An MSI-X structure does not fit its BAR.
    #[error("MSI-X structure at offset {1:#x} of BAR {0}: must be 8 B aligned and lie within a memory BAR")]
    MsixPlace(u8, u32),
    /// The MSI-X table and the Pending Bit Array share bytes.
    #[error("the MSI-X table and its Pending Bit Array overlap")]
    MsixOverlap,
    /// The Interrupt Pin is illegal.
    #[error("interrupt pin {0}, expected 1 (INTA) to 4 (INTD)")]
    InterruptPin(u8),
    /// The port type does not fit the header type.
    #[error(
        "port type {0:?}: bridges (root, upstream, downstream ports) need a type 1 header, others a type 0 one"
    )]
    PortType(pcie::PortType),
    /// The PCI Express capability has a feature that its port type cannot have.
    #[error("PCI Express capability of port type {0:?} has {1}")]
    Pcie(pcie::PortType, &'static str),
    /// A vendor-specific capability is too long.
    #[error("vendor-specific capability of {0} bytes, expected 0 to 252")]
    VendorBytes(usize),
    /// A capability does not fit below 100h.
    #[error("capability {id:#04x} of {bytes} bytes at {at:#x}: capabilities end at 100h")]
    NoRoom {
        /// Capability ID.
        id: u8,
        /// Offset at which it would begin, in bytes.
        at: u16,
        /// Length in bytes.
        bytes: u16,
    },
    /// An extended capability does not fit below 1000h.
    #[error("extended capability {id:#06x} of {bytes} bytes at {at:#x}: configuration space ends at 1000h")]
    NoRoomExtended {
        /// Extended Capability ID.
        id: u16,
        /// Offset at which it would begin, in bytes.
        at: u16,
        /// Length in bytes.
        bytes: u32,
    },
    /// An extended capability that may occur once is declared twice.
    #[error("extended capability {0:#06x} is declared twice")]
    Twice(u16),
    /// An extended capability has no registers, or its ID or version is out of range.
    #[error(
        "extended capability {0:#06x} version {1}: needs at least one register; legal versions are 1 to 15"
    )]
    Empty(u16, u8),
    /// An extended capability is declared with illegal values.
    #[error("extended capability {id:#06x}: {why}")]
    Extended {
        /// The illegal value, and the legal ones.
        id: u16,
        /// The illegal value, and the legal ones.
        why: &'static str,
    },
}

/// An extended capability as declared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Extended {
    pub(crate) id: u16,
    pub(crate) version: u8,
    pub(crate) registers: Vec<Register>,
}

/// Builds a [`ConfigSpace`]. Capabilities are chained in the order PM, MSI, PCI Express, MSI-X, Subsystem ID, then
/// vendor-specific ones. Extended capabilities keep the order in which they were added. A repeated declaration replaces the
/// earlier one unless a method says otherwise.
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    pub(crate) identity: Identity,
    pub(crate) kind: HeaderKind,
    bridge: BridgeLayout,
    pub(crate) bars: Vec<(u8, Bar)>,
    rom: Option<u32>,
    interrupt_pin: u8,
    multi_function: bool,
    power_management: Option<PmLayout>,
    msi: Option<MsiLayout>,
    msi_options: MsiOptions,
    msix: Option<MsixLayout>,
    pub(crate) pcie: Option<PcieLayout>,
    vendor: Vec<Vendor>,
    pub(crate) extended: Vec<Extended>,
    pub(crate) layouts: Layouts,
    /// The first illegal declaration, which [`Builder::build`] returns as an error.
    pub(crate) fault: Option<BuildError>,
    /// DW of the first capability.
    first_capability: u16,
}

impl Builder {
    /// Returns a builder for a function with a type 0 header, without BARs or capabilities.
    pub const fn type0(identity: Identity) -> Builder {
        Builder::new(identity, HeaderKind::Type0)
    }

    /// Returns a builder for a bridge: a type 1 header without BARs or capabilities, with a 32-bit I/O window and a 64-bit
    /// prefetchable window.
    pub const fn type1(identity: Identity) -> Builder {
        Builder::new(identity, HeaderKind::Type1)
    }

    pub(crate) const fn new(identity: Identity, kind: HeaderKind) -> Builder {
        Builder {
            identity,
            kind,
            bridge: BridgeLayout { io: IoWindow::Bits32, prefetchable: PrefetchableWindow::Bits64 },
            bars: Vec::new(),
            rom: None,
            interrupt_pin: 0,
            multi_function: false,
            power_management: None,
            msi: None,
            msi_options: MsiOptions { masking: false, address_32: false },
            msix: None,
            pcie: None,
            vendor: Vec::new(),
            extended: Vec::new(),
            layouts: Layouts::NONE,
            fault: None,
            first_capability: FIRST_CAPABILITY,
        }
    }

    /// Places the first capability at DW `register_dw`, 16 to 63, instead of 16. The header registers that a device
    /// register would replace read zero.
    pub fn capabilities_at(mut self, register_dw: u16) -> Builder {
        self.first_capability = register_dw.clamp(FIRST_CAPABILITY, FIRST_EXTENDED - 1);
        self
    }

    /// Sets the windows of a bridge. Has no effect on other functions.
    pub fn bridge(mut self, layout: BridgeLayout) -> Builder {
        self.bridge = layout;
        self
    }

    /// Adds a Base Address Register.
    pub fn bar(mut self, index: impl Into<BarIndex>, bar: Bar) -> Builder {
        self.bars.push((index.into().0, bar));
        self
    }

    /// Adds an Expansion ROM of `size` bytes, a power of two from 2 KiB to 16 MiB.
    pub fn expansion_rom(mut self, size: u32) -> Builder {
        self.rom = Some(size);
        self
    }

    /// Sets Interrupt Pin: 1 (INTA) to 4 (INTD).
    pub fn interrupt_pin(mut self, pin: u8) -> Builder {
        self.interrupt_pin = pin;
        self
    }

    /// Sets the Multi-Function Device bit of Header Type.
    pub fn multi_function(mut self) -> Builder {
        self.multi_function = true;
        self
    }

    /// Adds the Power Management capability with [`PmLayout::default`].
    pub fn power_management(self) -> Builder {
        self.power_management_with(PmLayout::default())
    }

    /// Adds the Power Management capability.
    pub fn power_management_with(mut self, layout: PmLayout) -> Builder {
        self.power_management = Some(layout);
        self
    }

    /// Adds the MSI capability.
    pub fn msi(mut self, layout: MsiLayout) -> Builder {
        self.msi = Some(layout);
        self
    }

    /// Sets the optional parts of the MSI capability.
    pub fn msi_options(mut self, options: MsiOptions) -> Builder {
        self.msi_options = options;
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

    /// Adds a read-only vendor-specific capability. A function may have several.
    pub fn vendor_specific(mut self, bytes: &[u8]) -> Builder {
        self.vendor.push(Vendor::Bytes(bytes.to_vec()));
        self
    }

    /// Adds a vendor-specific capability with `registers` device registers after its header, 1 to 62. Configuration requests
    /// to them reach the device.
    pub fn vendor_specific_registers(mut self, registers: u8) -> Builder {
        self.vendor.push(Vendor::Device(registers));
        self
    }

    /// Adds Power Management and Advanced Error Reporting, which nearly every function has, unless they are already
    /// declared.
    pub fn usual(self) -> Builder {
        let with_power = if self.power_management.is_none() { self.power_management() } else { self };
        let reports = with_power.extended.iter().any(|e| e.id == aer::ID);
        if reports { with_power } else { with_power.advanced_error_reporting() }
    }

    /// Adds an extended capability. `registers` includes the header, whose ID, version and next pointer are filled in. The
    /// other registers may be the device's own ([`Register::of_device`]), for example a mailbox. A second capability with
    /// the same ID is an error, except for vendor capabilities (000Bh, 0023h).
    pub fn add_extended(mut self, id: u16, version: u8, registers: Vec<Register>) -> Builder {
        const VSEC: u16 = 0x000b;
        const DVSEC: u16 = 0x0023;
        if self.extended.iter().any(|e| e.id == id) && id != VSEC && id != DVSEC {
            self.fault = self.fault.or(Some(BuildError::Twice(id)));
        }
        if registers.first().is_some_and(Register::is_device) {
            let why = "its first register is its header, which cannot be a device register";
            self.fault = self.fault.or(Some(BuildError::Extended { id, why }));
        }
        self.extended.push(Extended { id, version, registers });
        self
    }

    /// Adds an extended capability, or replaces the one with its ID.
    pub(crate) fn set_extended(mut self, table: &Structure, registers: Vec<Register>) -> Builder {
        let new = Extended { id: table.id, version: table.version, registers };
        match self.extended.iter_mut().find(|e| e.id == table.id) {
            Some(old) => *old = new,
            None => self.extended.push(new),
        }
        self
    }

    /// Returns the configuration space in its state after a fundamental reset.
    ///
    /// # Errors
    /// If a declaration is illegal, or the capabilities do not fit.
    pub fn build(self) -> Result<ConfigSpace, BuildError> {
        self.settle_extended()?.lay_out()
    }

    fn lay_out(self) -> Result<ConfigSpace, BuildError> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        self.check_identity()?;
        self.check_interrupts()?;
        self.check_pcie()?;
        let mut registers = self.header();
        let bars = self.place_bars(&mut registers)?;
        self.place_rom(&mut registers)?;
        let capabilities = self.place_capabilities(&mut registers)?;
        let parts = Parts { kind: self.kind, bridge: self.bridge, bars, rom: self.rom, capabilities };
        let mut space = ConfigSpace::from_parts(registers, parts);
        space.load_vc_table();
        Ok(space)
    }

    /// Rejects reserved IDs. Vendor ID FFFFh means that no function is present (`PCI Local Bus 3.0 §6.2.1`, `PCIe 5.0
    /// §2.3.2`). Vendor ID 0001h with all ones as Device ID means that the function is not ready. Virtual functions show
    /// neither ID (`§9.3.4.1.1`).
    fn check_identity(&self) -> Result<(), BuildError> {
        let Identity { vendor, device, .. } = self.identity;
        let taken = vendor == u16::MAX || self.id() == header::NOT_READY;
        if taken && self.kind != HeaderKind::Virtual {
            return Err(BuildError::Identity(vendor, device));
        }
        Ok(())
    }

    /// Vendor ID and Device ID as one DW.
    fn id(&self) -> u32 {
        u32::from(self.identity.vendor) | u32::from(self.identity.device) << 16
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
        if self.kind != HeaderKind::Virtual {
            self.check_place(msix.table, msix.table_bytes())?;
            self.check_place(msix.pending, msix.pending_bytes())?;
        }
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

    fn check_pcie(&self) -> Result<(), BuildError> {
        let Some(pcie) = self.pcie else { return Ok(()) };
        if pcie.port.is_bridge() != (self.kind == HeaderKind::Type1) {
            return Err(BuildError::PortType(pcie.port));
        }
        pcie.fault().map_or(Ok(()), |why| Err(BuildError::Pcie(pcie.port, why)))
    }

    /// The header's registers without BARs, 64 in all.
    fn header(&self) -> Vec<Register> {
        let id = &self.identity;
        let multi = if self.multi_function { header::MULTI_FUNCTION } else { 0 };
        let list = if self.has_capabilities() { status::CAPABILITIES_LIST } else { 0 };
        let mut values = vec![
            (header::ID, self.id()),
            (header::COMMAND_STATUS, list),
            (header::CLASS_REVISION, id.class << 8 | u32::from(id.revision)),
        ];
        let subsystem = (type0::SUBSYSTEM, u32::from(id.subsystem_vendor) | u32::from(id.subsystem) << 16);
        let pin = (header::INTERRUPT, u32::from(self.interrupt_pin) << 8);
        let table: &Structure = match self.kind {
            HeaderKind::Type0 => {
                values.extend([(header::MISC, multi), subsystem, pin]);
                &header::TYPE_0_HEADER
            }
            HeaderKind::Type1 => {
                values.extend([(header::MISC, multi | header::TYPE_1), pin]);
                &header::TYPE_1_HEADER
            }
            HeaderKind::Virtual => {
                values[0].1 = !0; // Vendor ID and Device ID read FFFFh (§9.3.4.1.1)
                values.push(subsystem);
                &header::VIRTUAL_FUNCTION_HEADER
            }
        };
        let mut all = table.registers(&values);
        all.resize(usize::from(FIRST_EXTENDED), Register::default());
        self.windows(&mut all);
        all
    }

    /// After reset, windows are closed: the base is above the limit.
    fn windows(&self, registers: &mut [Register]) {
        clear(registers, type0::BAR0..=type0::BAR0);
        if let Some(rom) = self.kind.rom() {
            clear(registers, rom..=rom);
        }
        if self.kind != HeaderKind::Type1 {
            return;
        }
        preset(registers, type1::MEMORY, 0xfff0);
        match self.bridge.io {
            IoWindow::None => {
                let at = &mut registers[usize::from(type1::IO_SECONDARY_STATUS)];
                *at = at.without(0xffff);
            }
            IoWindow::Bits16 => preset(registers, type1::IO_SECONDARY_STATUS, 0xf0),
            IoWindow::Bits32 => preset(registers, type1::IO_SECONDARY_STATUS, 0xf0 | type1::IO_32_BIT),
        }
        if self.bridge.io != IoWindow::Bits32 {
            clear(registers, type1::IO_UPPER..=type1::IO_UPPER);
        }
        match self.bridge.prefetchable {
            PrefetchableWindow::None => clear(registers, type1::PREFETCHABLE..=type1::PREFETCHABLE),
            PrefetchableWindow::Bits32 => preset(registers, type1::PREFETCHABLE, 0xfff0),
            PrefetchableWindow::Bits64 => {
                preset(registers, type1::PREFETCHABLE, 0xfff0 | type1::PREFETCHABLE_64_BIT);
            }
        }
        if self.bridge.prefetchable != PrefetchableWindow::Bits64 {
            clear(registers, type1::PREFETCHABLE_BASE_UPPER..=type1::PREFETCHABLE_LIMIT_UPPER);
        }
    }

    fn has_capabilities(&self) -> bool {
        let Builder { power_management, msi, msix, pcie, vendor, .. } = self;
        power_management.is_some()
            || msi.is_some()
            || msix.is_some()
            || pcie.is_some()
            || !vendor.is_empty()
            || self.names_subsystem()
    }

    /// True for bridges with a subsystem: they need a capability for it.
    fn names_subsystem(&self) -> bool {
        self.kind == HeaderKind::Type1 && self.identity.subsystem_vendor != 0
    }

    fn place_bars(&self, registers: &mut [Register]) -> Result<[Option<Bar>; 6], BuildError> {
        let mut bars = [None; 6];
        let mut taken = [false; 6];
        for &(index, bar) in &self.bars {
            let width = if bar.kind == BarKind::Memory64 { 2 } else { 1 };
            if u16::from(index) + width > u16::from(self.kind.bars()) {
                return Err(BuildError::BarIndex(index));
            }
            if !bar.size_is_legal() {
                return Err(BuildError::BarSize(index, bar.size));
            }
            for (i, word) in bar.registers().into_iter().take(usize::from(width)).enumerate() {
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

    fn place_rom(&self, registers: &mut [Register]) -> Result<(), BuildError> {
        let Some(size) = self.rom else { return Ok(()) };
        if !rom_size_is_legal(size) {
            return Err(BuildError::RomSize(size));
        }
        let at = self.kind.rom().ok_or(BuildError::RomSize(size))?;
        registers[usize::from(at)] =
            header::TYPE_0_HEADER.register(type0::EXPANSION_ROM, 0).fix((size - 1) & !1);
        Ok(())
    }

    fn place_capabilities(&self, registers: &mut Vec<Register>) -> Result<Capabilities, BuildError> {
        let mut chain = Chain { registers, next_free: self.first_capability, link: None, list: Vec::new() };
        let mut caps = Capabilities::default();
        if let Some(layout) = self.power_management {
            caps.pm = Some(chain.add(pm::ID, layout.registers())?);
        }
        if let Some(layout) = self.msi {
            caps.msi = Some(chain.add(msi::ID, layout.registers(self.msi_options))?);
        }
        if let Some(layout) = self.pcie {
            caps.pcie = Some(chain.add(pcie::ID, layout.registers())?);
        }
        if let Some(layout) = self.msix {
            caps.msix = Some((chain.add(msix::ID, layout.registers())?, layout));
        }
        if self.names_subsystem() {
            let words = ssid::registers(self.identity.subsystem_vendor, self.identity.subsystem);
            chain.add(ssid::ID, words)?;
        }
        for vendor in &self.vendor {
            if vendor.len() > vendor::MAX_BYTES {
                return Err(BuildError::VendorBytes(vendor.len()));
            }
            chain.add(vendor::ID, vendor.registers())?;
        }
        caps.list = chain.list;
        caps.extended = self.place_extended(registers)?;
        caps.aer = caps.extended(aer::ID);
        caps.layouts = self.layouts.clone();
        if self.kind == HeaderKind::Virtual {
            virtual_function::restrict(registers, &caps);
        }
        Ok(caps)
    }

    /// Places extended capabilities one after another, from 100h.
    fn place_extended(&self, registers: &mut Vec<Register>) -> Result<Vec<(u16, u16)>, BuildError> {
        let mut list: Vec<(u16, u16)> = Vec::new();
        self.extended.iter().try_for_each(|capability| append(capability, registers, &mut list))?;
        Ok(list)
    }
}

/// Places an extended capability after the registers so far, and after the capabilities of `list` in the chain.
fn append(
    capability: &Extended,
    registers: &mut Vec<Register>,
    list: &mut Vec<(u16, u16)>,
) -> Result<(), BuildError> {
    let Extended { id, version, registers: words } = capability;
    if words.is_empty() || *version == 0 || *version > 15 {
        return Err(BuildError::Empty(*id, *version));
    }
    let at = registers.len() as u16;
    if registers.len() + words.len() > REGISTERS {
        let bytes = words.len() as u32 * 4;
        return Err(BuildError::NoRoomExtended { id: *id, at: at * 4, bytes });
    }
    registers.extend_from_slice(words);
    preset(registers, at, u32::from(*id) | u32::from(*version) << 16);
    if let Some(&(_, last)) = list.last() {
        preset(registers, last, (u32::from(at) * 4) << 20);
    }
    list.push((*id, at));
    Ok(())
}

impl ConfigSpace {
    /// Adds Virtual Channel to a built space, after its last capability. No effect if the space has one.
    ///
    /// # Errors
    /// If the layout is illegal, or the capability does not fit.
    pub fn add_virtual_channels(&mut self, layout: VcLayout) -> Result<(), BuildError> {
        if self.extended_capability(vc::ID).is_some() {
            return Ok(());
        }
        if !layout.is_legal() {
            return Err(BuildError::Extended { id: vc::ID, why: VcLayout::LEGAL });
        }
        let mut registers = self.registers.to_vec();
        let capability = Extended { id: vc::ID, version: vc::TABLE.version, registers: layout.registers() };
        append(&capability, &mut registers, &mut self.capabilities.extended)?;
        self.registers = registers.into_boxed_slice();
        self.capabilities.layouts.vc = Some(layout);
        self.load_vc_table();
        Ok(())
    }
}

/// The list of capabilities below byte 100h, while it is being built.
struct Chain<'a> {
    registers: &'a mut [Register],
    next_free: u16,
    /// DW of the capability whose pointer gets the address of the next one; `None` for the Capabilities Pointer.
    link: Option<u16>,
    list: Vec<(u8, u16)>,
}

impl Chain<'_> {
    fn add(&mut self, id: u8, words: Vec<Register>) -> Result<u16, BuildError> {
        let at = self.next_free;
        let end = usize::from(at) + words.len();
        if end > usize::from(FIRST_EXTENDED) {
            let bytes = words.len() as u16 * 4;
            return Err(BuildError::NoRoom { id, at: at * 4, bytes });
        }
        self.registers[usize::from(at)..end].copy_from_slice(&words);
        preset(self.registers, at, u32::from(id));
        let pointer = u32::from(at) * 4;
        match self.link {
            None => preset(self.registers, header::CAPABILITIES_POINTER, pointer),
            Some(last) => preset(self.registers, last, pointer << 8),
        }
        self.link = Some(at);
        self.next_free = end as u16;
        self.list.push((id, at));
        Ok(at)
    }
}

/// Sets bits in the current value and in the reset value.
fn preset(registers: &mut [Register], at: u16, bits: u32) {
    registers[usize::from(at)].preset(bits);
}

/// Removes registers: they read zero.
fn clear(registers: &mut [Register], range: std::ops::RangeInclusive<u16>) {
    for at in range {
        registers[usize::from(at)] = Register::default();
    }
}
