// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions of a hierarchy that a virtual machine has one by one, each as an endpoint behind a port of the machine's own: all
//! that is above a function there, and the addresses of its BARs, are the machine's; its registers and its memory are the function's.
//!
//! | the machine | becomes |
//! |---|---|
//! | reads or writes configuration space | CfgRd, CfgWr of the function where it really is |
//! | reads or writes a BAR | MRd, MWr, or I/O requests, at the address that the function's BAR really has |
//! | sets MSI up | the CfgWr that it is; an interrupt is the vector that its data say |
//! | sets MSI-X up, which a client keeps to itself | MWr to the function's table, with data that are the vector's number |
//! | gets INTx | a wire of the root port above has changed: Interrupt Status, read then, says whose it is |
//!
//! Kept here, and never written to the function, is what would take it from its place: BARs, Max_Payload_Size, and the reset of the
//! function, which whoever drives this does, with what has to be put back after it ([`Facts::restore`]). A virtual function lacks IDs and
//! Memory Space Enable (`PCIe 5.0 §9.3.4.1`), which a machine has to find: these are kept here too.

use crate::accesses::{ALL_ONES, Accesses, Bytes};
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
/// Where BARs are, and the Expansion ROM's, in bytes (`PCIe 5.0 §7.5.1.2`).
const BARS: std::ops::Range<u64> = 0x10..0x28;
const ROM: std::ops::Range<u64> = 0x30..0x34;
/// Command, and Memory Space Enable in its low byte.
const COMMAND: u64 = header::COMMAND_STATUS as u64 * 4;
const MEMORY_SPACE: u8 = command::MEMORY_SPACE as u8;
/// Max_Payload_Size in the low byte of Device Control, Initiate Function Level Reset in the next one.
const MPS: u8 = device_control::MPS as u8;
const INITIATE_FLR: u8 = (device_control::INITIATE_FLR >> 8) as u8;
/// Vector Control: the entry is masked (`PCIe 5.0 §7.7.2.9`).
const MASKED: u32 = 1;

/// What is to be known of a function before it is handed over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Where it really is.
    pub function: Bdf,
    /// Vendor ID and Device ID (31:16), of a virtual function.
    pub virtual_id: Option<u32>,
    /// Its BARs.
    pub bars: [Option<BarFacts>; 6],
    /// The root port and the wire of it at which its INTx arrives.
    pub wire: Option<(Bdf, Wire)>,
    /// DW number of the PCI Express capability, and Max_Payload_Size as Device Control has it, in bits 7:5.
    pub pcie: Option<(u16, u8)>,
    /// DW number and vectors of MSI.
    pub msi: Option<(u16, u8)>,
    /// DW number, vectors, and the address of the table of MSI-X.
    pub msix: Option<(u16, u16, u64)>,
    /// The configuration writes that bring it to its place after a reset: register (DW), byte enables, value.
    pub restore: Vec<(u16, u8, u32)>,
}

/// A BAR as the function really has it.
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

    /// The next register is the upper half of its address.
    #[must_use]
    pub const fn is_64_bit(&self) -> bool {
        !self.is_io() && self.kind & 0b100 != 0
    }
}

/// Something that came of what was asked or heard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome<T> {
    /// An access has ended.
    Answer {
        /// The access.
        token: T,
        /// What was read; nothing of a write.
        bytes: Bytes,
    },
    /// An interrupt of a function is to be signalled.
    Signal {
        /// The function, by its place in the list.
        function: usize,
        /// Its type.
        irq: Irq,
        /// Which of them.
        n: u32,
    },
}

/// Functions of one virtual machine. `T` names an access of it.
pub struct Direct<T> {
    accesses: Accesses<Asked<T>>,
    functions: Vec<Function>,
}

/// Who wants to know.
enum Asked<T> {
    /// The machine: the function, and where in configuration space it reads.
    Machine {
        token: T,
        function: usize,
        config: Option<u64>,
    },
    /// Whether it is this function that asserts INTx.
    Status(usize),
    Nobody,
}

struct Function {
    facts: Facts,
    /// It is where the facts say; else all of it reads as ones.
    is_there: bool,
    /// The BARs as the machine has set them.
    bars: [u32; 6],
    /// Max_Payload_Size as the machine has set it, in place.
    mps: Option<u8>,
    /// Memory Space Enable as the machine has set it, in place.
    memory_space: u8,
    /// Vectors of MSI that the machine has granted.
    msi_vectors: u32,
    msix_is_enabled: bool,
    /// Entries of the MSI-X table that have been set up, and which of them are masked.
    entries: Vec<Option<bool>>,
    /// The wire is asserted, by this function or another.
    level: bool,
}

impl Function {
    fn new(facts: Facts) -> Function {
        let entries = vec![None; facts.msix.map_or(0, |(_, vectors, _)| vectors.into())];
        Function {
            facts,
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

    /// What a BAR's register reads as.
    fn bar(&self, n: usize) -> u32 {
        let (bar, upper) = self.bar_of(n);
        match bar {
            None => 0,
            Some(bar) if upper => self.bars[n] & ((!(bar.size - 1)) >> 32) as u32,
            Some(bar) => self.bars[n] & !(bar.size - 1) as u32 | bar.kind,
        }
    }

    /// The BAR that a register belongs to, and whether it is the upper half of it.
    fn bar_of(&self, n: usize) -> (Option<BarFacts>, bool) {
        let below = n.checked_sub(1).and_then(|n| self.facts.bars[n]);
        match below.filter(BarFacts::is_64_bit) {
            Some(bar) => (Some(bar), true),
            None => (self.facts.bars[n], false),
        }
    }

    /// Whether a byte of configuration space is another's than the function's.
    fn is_kept(at: u64) -> bool {
        BARS.contains(&at) || ROM.contains(&at)
    }

    fn device_control(&self) -> Option<u64> {
        self.facts.pcie.map(|(at, _)| u64::from(at + pcie::DEVICE_CONTROL) * 4)
    }

    /// What a byte of configuration space reads as, where the function itself has `byte`.
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

    /// Takes a byte that is written to configuration space. What the function gets of it, and whether that resets it.
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

    /// The vector of a message of this function.
    fn vector(&self, data: u32) -> (Irq, u32) {
        match self.msix_is_enabled {
            true => (Irq::Msix, data),
            false => (Irq::Msi, data & (self.msi_vectors - 1)),
        }
    }
}

impl<T> Direct<T> {
    /// Functions that are in their places.
    pub fn new(facts: Vec<Facts>, payloads: PayloadPool) -> Direct<T> {
        let functions = facts.into_iter().map(Function::new).collect();
        Direct { accesses: Accesses::new(payloads), functions }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// What is known of a function.
    pub fn facts(&self, n: usize) -> &Facts {
        &self.functions[n].facts
    }

    /// The device that the machine sees in place of a function.
    pub fn shape(&self, n: usize) -> Shape {
        let facts = &self.functions[n].facts;
        let mut shape = Shape::new();
        for (region, bar) in shape.regions.iter_mut().zip(facts.bars) {
            *region = bar.map_or(Region::default(), |bar| Region::of(bar.size));
        }
        shape.regions[region::CONFIG] = Region::of(CONFIG_BYTES);
        shape.irqs[Irq::Intx as usize] = facts.wire.is_some().into();
        shape.irqs[Irq::Msi as usize] = facts.msi.map_or(0, |(_, vectors)| vectors.into());
        shape.irqs[Irq::Msix as usize] = facts.msix.map_or(0, |(_, vectors, _)| vectors.into());
        shape
    }

    /// Whether all that was asked for has been issued; if not, take requests before more is asked for.
    pub fn has_room(&self) -> bool {
        self.accesses.has_room()
    }

    /// The next request to issue.
    pub fn poll_request(&mut self) -> Option<HostOutput> {
        self.accesses.poll_request()
    }

    /// A request has ended.
    pub fn handle(&mut self, id: HostReadId, result: &Result<Data, HostError>) {
        self.accesses.handle(id, result);
    }

    /// Reads `len` bytes at `offset` of a region of function `n`, which lie within it.
    pub fn read(&mut self, n: usize, token: T, region: usize, offset: u64, len: u32) {
        let Facts { function, bars, .. } = &self.functions[n].facts;
        let asked = |config| Asked::Machine { token, function: n, config };
        if !self.functions[n].is_there {
            return self.accesses.answer(asked(None), std::iter::repeat_n(ALL_ONES, len as usize));
        }
        match bars.get(region).copied().flatten() {
            Some(bar) if bar.is_io() => self.accesses.read_io(asked(None), bar.address + offset, len),
            Some(bar) => self.accesses.read_memory(asked(None), bar.address + offset, len),
            None => self.accesses.read_config(asked(Some(offset)), ecam(*function, offset), len),
        }
    }

    /// Writes bytes at `offset` of a region of function `n`, within it. `Some`: the function is to be reset
    /// ([`was_reset`](Self::was_reset)) and the access ended by the caller then.
    pub fn write(&mut self, n: usize, token: T, region: usize, offset: u64, bytes: &[u8]) -> Option<T> {
        let Facts { function, bars, .. } = &self.functions[n].facts;
        let bar = bars.get(region).copied().flatten();
        let Some(bar) = bar.filter(|_| self.functions[n].is_there) else {
            return self.write_config(n, *function, token, offset, bytes);
        };
        let asked = Asked::Machine { token, function: n, config: None };
        match bar.is_io() {
            true => self.accesses.write_io(asked, bar.address + offset, bytes),
            false => self.accesses.write_memory(asked, bar.address + offset, bytes),
        }
        None
    }

    fn write_config(&mut self, n: usize, at: Bdf, token: T, offset: u64, bytes: &[u8]) -> Option<T> {
        let function = &mut self.functions[n];
        if !function.is_there {
            self.accesses.answer(Asked::Machine { token, function: n, config: None }, []);
            return None;
        }
        let (mut given, mut resets, before) = (Bytes::new(), false, function.msix_is_enabled);
        for (at, byte) in (offset..).zip(bytes) {
            let (byte, reset) = function.take(at, *byte);
            given.push(byte);
            resets |= reset;
        }
        if resets {
            return Some(token);
        }
        let enables = function.msix_is_enabled && !before;
        let asked = Asked::Machine { token, function: n, config: None };
        let takes = |at: u64| !Function::is_kept(at % CONFIG_BYTES);
        self.accesses.write_config(asked, ecam(at, offset), &given, takes);
        if enables {
            // The table may have been lost by a reset of which its owner does not know.
            (0..self.functions[n].entries.len()).for_each(|vector| self.program(n, vector));
        }
        None
    }

    /// The client of function `n` has set up, masked or unmasked interrupts.
    pub fn irqs(&mut self, n: usize, event: IrqEvent) {
        let IrqEvent { irq, first, count, change } = event;
        let entries = first as usize..(first + count) as usize;
        match (irq, change) {
            (Irq::Intx, IrqChange::Assigned | IrqChange::Unmasked) => self.ask_status(n),
            (Irq::Msix, IrqChange::Triggered) => {}
            (Irq::Msix, _) => {
                let masked = matches!(change, IrqChange::Unassigned | IrqChange::Masked);
                for vector in entries {
                    let entry = &mut self.functions[n].entries[vector];
                    // What was never used is masked as it is.
                    if *entry != Some(masked) && (entry.is_some() || !masked) {
                        *entry = Some(masked);
                        self.program(n, vector);
                    }
                }
            }
            _ => {}
        }
    }

    /// Writes an entry of the MSI-X table that has been set up.
    fn program(&mut self, n: usize, vector: usize) {
        let Function { facts, is_there, entries, .. } = &self.functions[n];
        let (Some((.., table)), Some(masked), true) = (facts.msix, entries[vector], is_there) else { return };
        let control = if masked { MASKED } else { 0 };
        // The data say the vector.
        let words = [MSI_ADDRESS as u32, 0, vector as u32, control].map(u32::to_le_bytes);
        let at = table + vector as u64 * msix::ENTRY_BYTES;
        self.accesses.write_memory(Asked::Nobody, at, words.as_flattened());
    }

    /// An interrupt came up: which of whom it is, where that can be told at once. `None` of a message: of nobody here.
    pub fn interrupt(&mut self, interrupt: &HostInterrupt) -> Option<(usize, Irq, u32)> {
        match *interrupt {
            HostInterrupt::Message { requester, data, .. } => {
                let n = self.functions.iter().position(|f| f.is_there && f.facts.function == requester)?;
                let (irq, vector) = self.functions[n].vector(data);
                Some((n, irq, vector))
            }
            HostInterrupt::Wire { root_port, wire, asserted, .. } => {
                for n in 0..self.functions.len() {
                    if self.functions[n].facts.wire == Some((root_port, wire)) {
                        self.functions[n].level = asserted;
                        self.ask_status(n);
                    }
                }
                None
            }
            _ => None,
        }
    }

    /// Asks a function whether it asserts INTx, if its wire is.
    fn ask_status(&mut self, n: usize) {
        let Function { facts, level, .. } = &self.functions[n];
        if *level {
            let at = ecam(facts.function, u64::from(header::COMMAND_STATUS) * 4);
            self.accesses.read_config(Asked::Status(n), at, 4);
        }
    }

    /// What has come of it all.
    pub fn poll(&mut self) -> Option<Outcome<T>> {
        loop {
            let answer = self.accesses.poll_answer()?;
            match answer.token {
                Asked::Machine { token, function, config } => {
                    let mut bytes = answer.bytes;
                    // Where nobody answers, all is ones.
                    if let Some(offset) = config.filter(|_| answer.is_whole) {
                        let function = &self.functions[function];
                        (offset..).zip(&mut bytes).for_each(|(at, byte)| *byte = function.shown(at, *byte));
                    }
                    return Some(Outcome::Answer { token, bytes });
                }
                Asked::Status(function) => {
                    let register = answer.bytes.first_chunk().copied().map_or(0, u32::from_le_bytes);
                    let asserts = register & status::INTERRUPT_STATUS != 0
                        && register & command::INTERRUPT_DISABLE == 0;
                    if answer.is_whole && asserts && self.functions[function].level {
                        return Some(Outcome::Signal { function, irq: Irq::Intx, n: 0 });
                    }
                }
                Asked::Nobody => {}
            }
        }
    }

    /// Function `n` was reset, and is in its place again.
    pub fn was_reset(&mut self, n: usize) {
        let function = &mut self.functions[n];
        (function.bars, function.mps, function.memory_space, function.msi_vectors) = ([0; 6], None, 0, 1);
        function.msix_is_enabled = false;
    }

    /// Function `n` is somewhere else now; it has BARs of the same sizes.
    pub fn moved(&mut self, n: usize, facts: Facts) {
        let function = &mut self.functions[n];
        (function.facts, function.is_there) = (facts, true);
    }

    /// Function `n` is nowhere: all of it reads as ones, and what is written goes nowhere.
    pub fn lost(&mut self, n: usize) {
        self.functions[n].is_there = false;
    }

    /// Whether function `n` is where its facts say.
    pub fn is_there(&self, n: usize) -> bool {
        self.functions[n].is_there
    }

    /// The client of function `n` has gone: nobody gets its interrupts.
    pub fn leave(&mut self, n: usize) {
        self.was_reset(n);
        self.functions[n].entries.fill(None);
    }
}

/// Where a register of a function is in an ECAM window (`PCIe 5.0 §7.2.2`).
fn ecam(function: Bdf, offset: u64) -> u64 {
    u64::from(function.bits()) << 12 | offset
}
