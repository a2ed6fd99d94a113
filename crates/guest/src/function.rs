// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A function of the lab that is passed through to a virtual machine, as an endpoint below one of the machine's ports. The machine owns the
//! hierarchy above the function and the addresses of its BARs. The function owns its registers and memory.
//!
//! | the machine | riser sends |
//! |---|---|
//! | reads or writes configuration space | CfgRd or CfgWr to the function at its ID in the lab |
//! | reads or writes a BAR | MRd, MWr, or I/O requests, at the address of the BAR in the lab |
//! | sets up MSI | the same CfgWr; the data of an interrupt select its vector |
//! | sets up MSI-X, which the client emulates | MWr to the function's table, with the vector number as data |
//! | gets INTx | CfgRd of Interrupt Status, when a wire of the root port above changes: the wire may be shared |
//!
//! Some writes would move the function: BARs, Max_Payload_Size and resets. These are stored here, and do not reach the
//! function. The caller resets the function and then restores its settings ([`Facts::restore`]). A virtual function
//! lacks IDs and Memory Space Enable (`PCIe 5.0 §9.3.4.1`), but a machine needs them. So they are stored here too.

use crate::accesses::{ALL_ONES, Accesses, Answer, Bytes};
use crate::vfio_device::{self, Outcome, VfioDevice};
use crate::vfio_user::{Irq, IrqChange, IrqEvent, Region, Shape, region};
use config::cap::pcie::{self, device_control};
use config::cap::{msi, msix};
use config::header::{self, command, status};
use config::register::get;
use host::firmware::MSI_ADDRESS;
use host::{HostError, HostInterrupt, HostOutput, HostReadId, Wire};
use tlp::{Bdf, Data, PayloadPool};

/// Bytes of a configuration space.
pub const CONFIG_BYTES: u64 = 4096;
/// Offsets of the BARs, and of the Expansion ROM's, in bytes (`PCIe 5.0 §7.5.1.2`).
const BARS: std::ops::Range<u64> = 0x10..0x28;
const ROM: std::ops::Range<u64> = 0x30..0x34;
/// Command, and Memory Space Enable in its low byte.
const COMMAND: u64 = header::COMMAND_STATUS as u64 * 4;
const MEMORY_SPACE: u8 = command::MEMORY_SPACE as u8;
/// Max_Payload_Size is in the low byte of Device Control, Initiate Function Level Reset in the next byte.
const MPS: u8 = device_control::MPS as u8;
const INITIATE_FLR: u8 = (device_control::INITIATE_FLR >> 8) as u8;
/// Vector Control: the entry is masked (`PCIe 5.0 §7.7.2.9`).
const MASKED: u32 = 1;

/// Properties of a function, read before a machine gets it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Its ID in the lab.
    pub function: Bdf,
    /// Vendor ID and Device ID (31:16), for a virtual function.
    pub virtual_id: Option<u32>,
    /// Its BARs.
    pub bars: [Option<BarFacts>; 6],
    /// Root port and wire at which its INTx arrives.
    pub wire: Option<(Bdf, Wire)>,
    /// DW number of the PCI Express capability, and bits 7:5 of Device Control, Max_Payload_Size.
    pub pcie: Option<(u16, u8)>,
    /// DW number and number of vectors of MSI.
    pub msi: Option<(u16, u8)>,
    /// DW number, number of vectors, and address of the table of MSI-X.
    pub msix: Option<(u16, u16, u64)>,
    /// Configuration writes that restore the function after a reset: register (DW), byte enables, value.
    pub restore: Vec<(u16, u8, u32)>,
}

/// A BAR in the lab.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BarFacts {
    /// Its address.
    pub address: u64,
    /// Its size in bytes, a power of two.
    pub size: u64,
    /// Bits 3:0 of its register: I/O, 64 bits, prefetchable.
    pub kind: u32,
}

impl BarFacts {
    const fn is_io(&self) -> bool {
        self.kind & 1 != 0
    }

    /// Returns whether the next register is the upper half of its address.
    #[must_use]
    pub const fn is_64_bit(&self) -> bool {
        !self.is_io() && self.kind & 0b100 != 0
    }
}

/// A function passed through to a virtual machine. `T` identifies an access of the machine.
pub struct Function<T> {
    facts: Facts,
    accesses: Accesses<Purpose<T>>,
    /// Whether the function is where `facts` says. If not, the whole function reads as ones.
    is_there: bool,
    /// BARs as set by the machine.
    bars: [u32; 6],
    /// Max_Payload_Size as set by the machine, at its bit position.
    mps: Option<u8>,
    /// Memory Space Enable as set by the machine, at its bit position.
    memory_space: u8,
    /// Number of MSI vectors that the machine has granted.
    msi_vectors: u32,
    msix_is_enabled: bool,
    /// One element per entry of the MSI-X table: whether the entry is masked; `None` if it was never set up.
    entries: Vec<Option<bool>>,
    /// Whether the wire is asserted, by this function or another.
    level: bool,
}

/// Purpose of an access to the function.
enum Purpose<T> {
    /// An access by the machine. `config`: the offset of a read of configuration space.
    Access { token: T, config: Option<u64> },
    /// A read of Interrupt Status, to find out whether the function asserts INTx.
    Status,
    /// A write of an entry of its MSI-X table.
    Table,
}

impl<T> Function<T> {
    /// Creates a function that is in its place.
    pub fn new(facts: Facts, payloads: PayloadPool) -> Function<T> {
        let entries = vec![None; facts.msix.map_or(0, |(_, vectors, _)| vectors.into())];
        Function {
            facts,
            accesses: Accesses::new(payloads),
            is_there: true,
            bars: [0; 6],
            mps: None,
            memory_space: 0,
            msi_vectors: 1,
            msix_is_enabled: false,
            entries,
            level: false,
        }
    }

    /// Returns the known properties of the function.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Updates the function after a move. Its BARs must have the same sizes.
    pub fn moved(&mut self, facts: Facts) {
        (self.facts, self.is_there) = (facts, true);
    }

    /// Marks the function as lost: the whole function reads as ones, and writes have no effect.
    pub fn lost(&mut self) {
        self.is_there = false;
    }

    /// Returns whether the function is where its facts say.
    pub fn is_there(&self) -> bool {
        self.is_there
    }

    /// Returns the machine's value of a BAR's register.
    fn bar(&self, n: usize) -> u32 {
        let (bar, upper) = self.bar_of(n);
        match bar {
            None => 0,
            Some(bar) if upper => self.bars[n] & ((!(bar.size - 1)) >> 32) as u32,
            Some(bar) => self.bars[n] & !(bar.size - 1) as u32 | bar.kind,
        }
    }

    /// Returns the BAR that a register belongs to, and whether the register is its upper half.
    fn bar_of(&self, n: usize) -> (Option<BarFacts>, bool) {
        let below = n.checked_sub(1).and_then(|n| self.facts.bars[n]);
        match below.filter(BarFacts::is_64_bit) {
            Some(bar) => (Some(bar), true),
            None => (self.facts.bars[n], false),
        }
    }

    fn device_control(&self) -> Option<u64> {
        self.facts.pcie.map(|(at, _)| u64::from(at + pcie::DEVICE_CONTROL) * 4)
    }

    /// Returns the machine's value of a byte of configuration space; `byte` is the function's.
    fn shown(&self, at: u64, byte: u8) -> u8 {
        if BARS.contains(&at) {
            let at = at - BARS.start;
            return self.bar((at / 4) as usize).to_le_bytes()[(at % 4) as usize];
        }
        match (self.mps, self.facts.virtual_id) {
            _ if ROM.contains(&at) => 0,
            (_, Some(id)) if at < COMMAND => id.to_le_bytes()[at as usize],
            (_, Some(_)) if at == COMMAND => byte & !MEMORY_SPACE | self.memory_space,
            (Some(mps), _) if self.device_control() == Some(at) => byte & !MPS | mps,
            _ => byte,
        }
    }

    /// Handles a byte written to configuration space. Returns the byte for the function, and whether the write resets
    /// the function.
    fn take(&mut self, at: u64, byte: u8) -> (u8, bool) {
        if BARS.contains(&at) {
            let (n, lane) = (((at - BARS.start) / 4) as usize, (at % 4) as usize);
            let mut bytes = self.bars[n].to_le_bytes();
            bytes[lane] = byte;
            self.bars[n] = u32::from_le_bytes(bytes);
        }
        if at == COMMAND {
            self.memory_space = byte & MEMORY_SPACE;
        }
        if let Some((dw, _)) = self.facts.msi
            && at == u64::from(dw) * 4 + 2
        {
            let granted = get(u32::from(byte) << 16, msi::MULTIPLE_ENABLE);
            self.msi_vectors = 1 << granted.min(5);
        }
        if let Some((dw, ..)) = self.facts.msix
            && at == u64::from(dw) * 4 + 3
        {
            self.msix_is_enabled = u32::from(byte) << 24 & msix::ENABLE != 0;
        }
        match (self.device_control(), self.facts.pcie) {
            (Some(control), Some((_, mps))) if at == control => {
                self.mps = Some(byte & MPS);
                (byte & !MPS | mps, false)
            }
            (Some(control), _) if at == control + 1 => (byte & !INITIATE_FLR, byte & INITIATE_FLR != 0),
            _ => (byte, false),
        }
    }

    /// Returns the interrupt of a message with this data.
    fn vector(&self, data: u32) -> (Irq, u32) {
        match self.msix_is_enabled {
            true => (Irq::Msix, data),
            false => (Irq::Msi, data & (self.msi_vectors - 1)),
        }
    }
}

impl<T> Function<T> {
    fn write_config(&mut self, token: T, offset: u64, bytes: &[u8]) -> Option<Outcome<T>> {
        let (mut given, mut resets, before) = (Bytes::new(), false, self.msix_is_enabled);
        for (at, byte) in (offset..).zip(bytes) {
            let (byte, reset) = self.take(at, *byte);
            given.push(byte);
            resets |= reset;
        }
        if resets {
            return Some(Outcome::Reset { token });
        }
        let (purpose, at) = (Purpose::Access { token, config: None }, ecam(self.facts.function, offset));
        let answer = self.accesses.write_config(purpose, at, &given, |at| !is_kept(at % CONFIG_BYTES));
        if self.msix_is_enabled && !before {
            // A reset of the function without the machine's knowledge may have cleared the table.
            (0..self.entries.len()).for_each(|vector| self.program(vector));
        }
        answer.and_then(|answer| self.ended(answer))
    }

    /// Writes an entry of the MSI-X table if the entry was set up.
    fn program(&mut self, vector: usize) {
        let (Some((.., table)), Some(masked), true) = (self.facts.msix, self.entries[vector], self.is_there)
        else {
            return;
        };
        let control = if masked { MASKED } else { 0 };
        // The data are the vector number.
        let words = [MSI_ADDRESS as u32, 0, vector as u32, control].map(u32::to_le_bytes);
        let at = table + vector as u64 * msix::ENTRY_BYTES;
        self.accesses.write_memory(Purpose::Table, at, words.as_flattened());
    }

    /// Reads the function's Interrupt Status if its wire is asserted.
    fn ask_status(&mut self) {
        if self.level {
            let at = ecam(self.facts.function, u64::from(header::COMMAND_STATUS) * 4);
            self.accesses.read_config(Purpose::Status, at, 4);
        }
    }

    fn ended(&self, Answer { token, mut bytes, is_whole }: Answer<Purpose<T>>) -> Option<Outcome<T>> {
        match token {
            Purpose::Access { token, config } => {
                // A failed read stays all ones.
                if let Some(offset) = config.filter(|_| is_whole) {
                    (offset..).zip(&mut bytes).for_each(|(at, byte)| *byte = self.shown(at, *byte));
                }
                Some(Outcome::Answer(Answer { token, bytes, is_whole }))
            }
            Purpose::Status => {
                let register = bytes.first_chunk().copied().map_or(0, u32::from_le_bytes);
                let asserts =
                    register & status::INTERRUPT_STATUS != 0 && register & command::INTERRUPT_DISABLE == 0;
                (is_whole && asserts && self.level).then_some(Outcome::Intx)
            }
            Purpose::Table => None,
        }
    }
}

impl<T> VfioDevice<T> for Function<T> {
    fn shape(&self) -> Shape {
        let mut shape = vfio_device::shape();
        for (region, bar) in shape.regions.iter_mut().zip(self.facts.bars) {
            *region = bar.map_or(Region::default(), |bar| Region::of(bar.size));
        }
        shape.regions[region::CONFIG] = Region::of(CONFIG_BYTES);
        shape.irqs[Irq::Intx as usize] = self.facts.wire.is_some().into();
        shape.irqs[Irq::Msi as usize] = self.facts.msi.map_or(0, |(_, vectors)| vectors.into());
        shape.irqs[Irq::Msix as usize] = self.facts.msix.map_or(0, |(_, vectors, _)| vectors.into());
        shape
    }

    fn has_room(&self) -> bool {
        self.accesses.has_room()
    }

    fn poll_request(&mut self) -> Option<HostOutput> {
        self.accesses.poll_request()
    }

    fn handle(&mut self, id: HostReadId, result: &Result<Data, HostError>) -> Option<Outcome<T>> {
        let answer = self.accesses.handle(id, result)?;
        self.ended(answer)
    }

    fn read(&mut self, token: T, region: usize, offset: u64, len: u32) -> Option<Outcome<T>> {
        let purpose = |config| Purpose::Access { token, config };
        if !self.is_there {
            let ones = std::iter::repeat_n(ALL_ONES, len as usize);
            return self.ended(Answer::at_once(purpose(None), ones));
        }
        let answer = match self.facts.bars.get(region).copied().flatten() {
            Some(bar) if bar.is_io() => self.accesses.read_io(purpose(None), bar.address + offset, len),
            Some(bar) => self.accesses.read_memory(purpose(None), bar.address + offset, len),
            None => {
                let at = ecam(self.facts.function, offset);
                self.accesses.read_config(purpose(Some(offset)), at, len)
            }
        };
        answer.and_then(|answer| self.ended(answer))
    }

    fn write(&mut self, token: T, region: usize, offset: u64, bytes: &[u8]) -> Option<Outcome<T>> {
        let purpose = |token| Purpose::Access { token, config: None };
        let answer = match self.facts.bars.get(region).copied().flatten() {
            _ if !self.is_there => Some(Answer::at_once(purpose(token), [])),
            Some(bar) if bar.is_io() => self.accesses.write_io(purpose(token), bar.address + offset, bytes),
            Some(bar) => self.accesses.write_memory(purpose(token), bar.address + offset, bytes),
            None => return self.write_config(token, offset, bytes),
        };
        answer.and_then(|answer| self.ended(answer))
    }

    fn irqs(&mut self, event: IrqEvent) {
        let IrqEvent { irq, first, count, change } = event;
        let entries = first as usize..(first + count) as usize;
        match (irq, change) {
            (Irq::Intx, IrqChange::Assigned | IrqChange::Unmasked) => self.ask_status(),
            (Irq::Msix, IrqChange::Triggered) => {}
            (Irq::Msix, _) => {
                let masked = matches!(change, IrqChange::Unassigned | IrqChange::Masked);
                for vector in entries {
                    let entry = &mut self.entries[vector];
                    // An entry that was never used is masked.
                    if *entry != Some(masked) && (entry.is_some() || !masked) {
                        *entry = Some(masked);
                        self.program(vector);
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the interrupt if `interrupt` is a message of this function. Several functions may share a wire, so Interrupt Status is read if
    /// the wire changes.
    fn interrupt(&mut self, interrupt: &HostInterrupt) -> Option<(Irq, u32)> {
        match *interrupt {
            HostInterrupt::Message { requester, data, .. } => {
                (self.is_there && self.facts.function == requester).then(|| self.vector(data))
            }
            HostInterrupt::Wire { root_port, wire, asserted, .. } => {
                if self.facts.wire == Some((root_port, wire)) {
                    self.level = asserted;
                    self.ask_status();
                }
                None
            }
            _ => None,
        }
    }

    fn reset(&mut self) {
        (self.bars, self.mps, self.memory_space, self.msi_vectors) = ([0; 6], None, 0, 1);
        self.msix_is_enabled = false;
    }

    fn leave(&mut self) {
        self.reset();
        self.entries.fill(None);
    }

    fn function(&self) -> Option<&Function<T>> {
        Some(self)
    }

    fn function_mut(&mut self) -> Option<&mut Function<T>> {
        Some(self)
    }
}

/// Returns whether a byte of configuration space is stored here and not in the function.
fn is_kept(at: u64) -> bool {
    BARS.contains(&at) || ROM.contains(&at)
}

/// Returns the offset of a register of a function in an ECAM window (`PCIe 5.0 §7.2.2`).
fn ecam(function: Bdf, offset: u64) -> u64 {
    u64::from(function.bits()) << 12 | offset
}
