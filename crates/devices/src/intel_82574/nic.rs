// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An 82574L between two resets of its function: effects of register reads and writes.

use super::Counters;
use super::interrupts::Lines;
use super::phy::{self, Link, NVM_WORDS, Phy};
use super::receive::Buffers;
use super::registers::{self as r, cause, ctrl, rctl, statistics, status};
use crate::ethernet::{EthernetPort, Inbox, Mode, Modes};
use crate::queue::Queue;
use device::io::{Either, ReadRequest, RegisterFile, Request, WriteRequest, select};
use device::{BarIndex, CompletionError, Io};
use plug::Shared;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tlp::Duration;

pub(super) const REGISTERS: BarIndex = BarIndex(0);
/// IOADDR and IODATA (82574 datasheet, §10.2.1).
pub(super) const WINDOW: BarIndex = BarIndex(2);

/// State that survives a reset of the function.
#[derive(Clone)]
pub(super) struct Card {
    pub(super) nvm: Rc<RefCell<[u16; NVM_WORDS]>>,
    pub(super) wire: Rc<RefCell<dyn EthernetPort>>,
    pub(super) arrived: Inbox,
    pub(super) negotiation: Duration,
    pub(super) counters: Shared<Counters>,
}

pub(super) struct Nic {
    pub(super) io: Io,
    pub(super) card: Card,
    pub(super) counters: Shared<Counters>,
    registers: RefCell<RegisterFile>,
    writable: Vec<u32>,
    pub(super) lines: Lines,
    pub(super) interrupts: Queue<()>,
    pub(super) tx: [Queue<()>; 2],
    pub(super) rx: Queue<()>,
    pub(super) buffers: RefCell<Buffers>,
    /// Bytes that were passed to the wire but not yet sent.
    pub(super) wire_bytes: Cell<u64>,
    /// Number of frames that travel to the wire.
    pub(super) on_wire: Cell<usize>,
    phy: RefCell<Phy>,
    /// Modes that this end offers.
    offered: Cell<Modes>,
    /// The negotiated mode.
    mode: Cell<Option<Mode>>,
    negotiations: Queue<()>,
    /// Number of restarts of its rings.
    pub(super) lives: Cell<u32>,
    /// IOADDR.
    window: Cell<u32>,
}

impl Nic {
    pub(super) fn new(io: Io, card: Card) -> Rc<Nic> {
        let (registers, writable) = r::files();
        let nic = Nic {
            io,
            counters: card.counters.clone(),
            card,
            registers: RefCell::new(registers),
            writable,
            lines: Lines::default(),
            interrupts: Queue::new(1),
            tx: [Queue::new(1), Queue::new(1)],
            rx: Queue::new(1),
            buffers: RefCell::default(),
            wire_bytes: Cell::new(0),
            on_wire: Cell::new(0),
            phy: RefCell::default(),
            offered: Cell::default(),
            mode: Cell::default(),
            negotiations: Queue::new(1),
            lives: Cell::new(0),
            window: Cell::new(0),
        };
        nic.load_nvm();
        Rc::new(nic)
    }

    /// Serves register reads and writes. Further tasks do the work.
    pub(super) async fn run(self: Rc<Nic>) {
        self.io.spawn(self.clone().transmitter(0));
        self.io.spawn(self.clone().transmitter(1));
        self.io.spawn(self.clone().receiver());
        self.io.spawn(self.clone().interrupter());
        self.io.spawn(self.clone().negotiator());
        self.io.spawn(self.clone().partner_watcher());
        self.negotiate();
        while let Some(request) = self.io.next_request().await {
            match request {
                Request::Write(write) => self.write_bar(&write),
                Request::Read(read) => self.read_bar(read),
                _ => {}
            }
        }
    }

    pub(super) fn u32(&self, register: u64) -> u32 {
        self.registers.borrow().u32(register)
    }

    pub(super) fn set(&self, register: u64, value: u32) {
        self.registers.borrow_mut().set_u32(register, value);
    }

    /// Adds to a statistics register, which saturates.
    pub(super) fn count(&self, register: u64, more: u32) {
        self.set(register, self.u32(register).saturating_add(more));
    }

    /// Adds to a 64-bit counter, which saturates.
    pub(super) fn count_bytes(&self, register: u64, more: usize) {
        let mut registers = self.registers.borrow_mut();
        let value = registers.u64(register).saturating_add(more as u64);
        registers.set_u64(register, value);
    }

    // ---- reads ----

    /// Registers are read in words of 4 bytes. A partial read has the same effects as a full one.
    fn read_bar(&self, read: ReadRequest) {
        let (first, len) = (read.offset(), read.len() as u64);
        let is_there = match read.bar() {
            REGISTERS => first + len <= r::BAR_BYTES,
            WINDOW => first + len <= 8,
            _ => false,
        };
        if !is_there {
            return read.fail(CompletionError::UnsupportedRequest);
        }
        let words = first / 4..(first + len).div_ceil(4);
        let bytes: Vec<u8> =
            words.flat_map(|word| self.read_word(read.bar(), word * 4).to_le_bytes()).collect();
        let from = (first % 4) as usize;
        read.complete(&bytes[from..from + len as usize]);
    }

    fn read_word(&self, bar: BarIndex, at: u64) -> u32 {
        match (bar, at) {
            (REGISTERS, _) => self.read(at),
            (_, 0) => self.window.get(),
            _ => self.read(u64::from(self.window.get())),
        }
    }

    fn read(&self, register: u64) -> u32 {
        let value = self.u32(register);
        match register {
            r::STATUS => return self.status(),
            r::ICR => return self.read_icr(),
            r::IMS => return self.mask(),
            // SMBI: a reader that gets zero owns the semaphore (§10.2.10.1).
            r::SWSM => self.set(r::SWSM, value | 1),
            r::STATISTICS..statistics::END => self.set(register, 0),
            _ => {}
        }
        value
    }

    fn status(&self) -> u32 {
        let mode = self.link_mode();
        let link = mode.map_or(0, |mode| status::LU | u32::from(mode.is_full_duplex));
        let speed = u32::from(phy::speed(mode.unwrap_or(Mode::GIGABIT))) << status::SPEED_SHIFT;
        let master = if self.u32(r::CTRL) & ctrl::MASTER_DISABLE == 0 { status::MASTER_ENABLE } else { 0 };
        self.u32(r::STATUS) & !status::MASTER_ENABLE | link | speed | master
    }

    // ---- writes ----

    /// Only whole words are written. Other writes have no effect, and are counted.
    fn write_bar(&self, write: &WriteRequest) {
        let bytes = write.data().bytes().filter(|_| write.span().is_contiguous()).unwrap_or_default();
        let (words, rest) = bytes.as_chunks::<4>();
        if !write.offset().is_multiple_of(4) || !rest.is_empty() || words.is_empty() {
            return self.counters.change(|c| c.refused_writes += 1);
        }
        for (word, at) in words.iter().zip((write.offset()..).step_by(4)) {
            let value = u32::from_le_bytes(*word);
            match (write.bar(), at) {
                (REGISTERS, _) => self.write(at, value),
                (WINDOW, 0) => self.window.set(value & 0x1_fffc),
                (WINDOW, 4) => self.write(u64::from(self.window.get()), value),
                _ => {}
            }
        }
    }

    fn write(&self, register: u64, value: u32) {
        let writable = self.writable.get(register as usize / 4).copied().unwrap_or(0);
        let before = self.u32(register);
        self.set(register, before & !writable | value & writable);
        match register {
            r::CTRL => self.control(before, value),
            r::EERD => self.read_nvm(value),
            r::EEWR => self.write_nvm(value),
            r::MDIC => self.manage(value),
            r::ICR => self.clear_causes(value),
            r::ICS => self.raise(value),
            r::IMS => self.unmask(value, 0),
            r::IMC => self.unmask(0, value),
            r::PBA => self.set(r::PBA, value & 0x3f | (40 - (value & 0x3f).min(40)) << 16),
            // The prefetched descriptors have the previous type.
            r::RCTL if (before ^ value) & rctl::DTYP != 0 => self.buffers.borrow_mut().forget(),
            r::WUS => self.set(r::WUS, before & !value),
            r::SWSM => self.set(r::SWSM, value & 0xb),
            r::TCTL => self.tx.iter().for_each(|queue| _ = queue.push(())),
            _ => {}
        }
        self.doorbell(register);
    }

    /// Ring registers, 100h apart for each queue.
    fn doorbell(&self, register: u64) {
        let is = |first: u64, queue: u64| register == first + 0x100 * queue;
        for (queue, tx) in (0..).zip(&self.tx) {
            if is(r::TDT, queue) {
                tx.push(());
            }
        }
        if [r::RDBAL, r::RDBAH, r::RDLEN, r::RDH].contains(&register) {
            self.buffers.borrow_mut().forget();
        }
        if [r::RDT, r::RCTL].contains(&register) {
            self.rx.push(());
        }
    }

    fn control(&self, before: u32, value: u32) {
        if value & ctrl::RST != 0 {
            return self.reset();
        }
        if value & ctrl::PHY_RST != 0 {
            *self.phy.borrow_mut() = Phy::default();
        }
        if value & ctrl::PHY_RST != 0 || (value ^ before) & ctrl::SLU != 0 {
            self.negotiate();
        }
    }

    /// CTRL.RST: resets everything except the PHY's registers.
    fn reset(&self) {
        let (registers, _) = r::files();
        *self.registers.borrow_mut() = registers;
        self.lives.update(|n| n.wrapping_add(1));
        self.buffers.borrow_mut().forget();
        self.lines.reset();
        self.raise(0);
        self.load_nvm();
        // SLU is zero: the link is down, and no interrupt reports it.
        self.mode.set(None);
        self.negotiate();
    }

    /// Loads RAL and RAH of the first address.
    fn load_nvm(&self) {
        let nvm = self.card.nvm.borrow();
        self.set(r::RAL, u32::from(nvm[0]) | u32::from(nvm[1]) << 16);
        self.set(r::RAH, u32::from(nvm[2]) | 1 << 31);
    }

    fn read_nvm(&self, value: u32) {
        let word = self.card.nvm.borrow().get((value >> 2 & 0x3fff) as usize).copied().unwrap_or(0xffff);
        self.set(r::EERD, u32::from(word) << 16 | value & 0xfffc | 0b10);
    }

    fn write_nvm(&self, value: u32) {
        if let Some(word) = self.card.nvm.borrow_mut().get_mut((value >> 2 & 0x3fff) as usize) {
            *word = (value >> 16) as u16;
        }
        self.set(r::EEWR, value & 0xffff_fffc | 0b10);
    }

    /// MDIC: 10 reads a PHY register, 01 writes one (§10.2.2.7).
    fn manage(&self, value: u32) {
        const READY: u32 = 1 << 28;
        const ERROR: u32 = 1 << 30;
        let (register, op) = ((value >> 16 & 0x1f) as u8, value >> 26 & 0b11);
        let answer = match op {
            _ if value >> 21 & 0x1f != phy::ADDRESS => ERROR,
            0b10 => u32::from(self.phy.borrow().read(register, self.link())),
            0b01 => {
                if self.phy.borrow_mut().write(register, value as u16) {
                    self.negotiate();
                }
                value & 0xffff
            }
            _ => ERROR,
        };
        self.set(r::MDIC, value & 0x2fff_0000 | READY | answer);
        if value & 1 << 29 != 0 {
            self.raise(cause::MDAC);
        }
    }

    // ---- link ----

    /// Whether the link is up or looped back.
    pub(super) fn is_up(&self) -> bool {
        self.link_mode().is_some()
    }

    /// Returns the link's speed and duplex; `None` if it is down.
    pub(super) fn link_mode(&self) -> Option<Mode> {
        let is_set_up = self.u32(r::CTRL) & ctrl::SLU != 0;
        if self.is_loop() { Some(Mode::GIGABIT) } else { self.mode.get().filter(|_| is_set_up) }
    }

    fn link(&self) -> Link {
        Link { mode: self.link_mode(), partner: self.card.wire.borrow().partner() }
    }

    /// Whether the NIC receives only its own sent frames.
    pub(super) fn is_loop(&self) -> bool {
        self.phy.borrow().is_loop() || self.u32(r::RCTL) & 0b11 << 6 == rctl::LBM_MAC
    }

    /// Takes the link down, offers the modes of this end to the other, and starts a negotiation.
    fn negotiate(&self) {
        let is_set_up = self.u32(r::CTRL) & ctrl::SLU != 0;
        let offered = if is_set_up { self.phy.borrow().offered() } else { Modes::NONE };
        self.offered.set(offered);
        self.card.wire.borrow_mut().offer(offered);
        if self.mode.take().is_some() {
            self.raise(cause::LSC);
        }
        self.negotiations.push(());
    }

    async fn negotiator(self: Rc<Nic>) {
        loop {
            self.negotiations.pop().await;
            let again = || select(self.negotiations.pop(), self.io.sleep(self.card.negotiation));
            while matches!(again().await, Either::Left(())) {}
            let partner = self.card.wire.borrow().partner();
            if let Some(mode) = self.offered.get().common(partner).best() {
                self.mode.set(Some(mode));
                self.raise(cause::LSC);
                self.tx.iter().for_each(|queue| _ = queue.push(()));
            }
        }
    }

    /// Restarts the negotiation whenever the other end's modes change.
    async fn partner_watcher(self: Rc<Nic>) {
        let changes = self.card.wire.borrow().partner_changes();
        while let Some(changes) = &changes {
            changes.pop().await;
            self.negotiate();
        }
    }
}
