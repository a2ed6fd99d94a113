// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One controller: its registers, and the operations that they start and stop (NVMe 1.4 §3.1, §7.6).
//! Independent of commands.

use super::identify::VERSION;
use super::media::{MediaPath, Namespace};
use super::run::ControllerRun;
use super::settings::Settings;
use super::spec::{cc, csts};
use super::{BAR, BAR_BYTES, MAX_ENTRIES, MAX_PAGE_SHIFT, NvmeReport, log, register};
use config::register::get;
use device::io::{RegisterFile, Request, WriteRequest};
use device::{Io, ResetKind};
use plug::Shared;
use std::cell::RefCell;
use std::rc::Rc;

/// Address of the doorbells: for each pair from the admin queues on, a tail and a head of 4 B.
const DOORBELLS: u64 = register::SQ0TDBL;
/// Maximum time that the host has to wait for the controller, in units of 500 ms (CAP.TO).
const TIMEOUT: u64 = 20;

/// State that all controllers share.
pub(super) struct Subsystem {
    pub(super) settings: Settings,
    pub(super) serial: u32,
    pub(super) namespaces: Vec<Namespace>,
    pub(super) way: MediaPath,
    pub(super) report: Shared<NvmeReport>,
}

impl Subsystem {
    /// Writes all caches to the media.
    pub(super) fn flush(&self) -> std::io::Result<()> {
        self.namespaces.iter().try_for_each(Namespace::flush)
    }
}

/// A controller between two resets of its function.
pub(super) struct Controller {
    pub(super) io: Io,
    pub(super) number: u16,
    pub(super) subsystem: Rc<Subsystem>,
    pub(super) counts: Rc<RefCell<log::Counts>>,
    registers: RefCell<RegisterFile>,
    run: RefCell<Option<Rc<ControllerRun>>>,
}

/// Bits of the registers that software may write.
fn writable() -> Vec<u8> {
    let mut bits = vec![0; DOORBELLS as usize];
    bits[register::CC as usize..][..4].fill(0xff);
    bits[register::AQA as usize..][..4].copy_from_slice(&0x0fff_0fff_u32.to_le_bytes());
    for at in [register::ASQ, register::ACQ] {
        bits[at as usize..][..8].copy_from_slice(&(!0xfff_u64).to_le_bytes());
    }
    bits
}

/// Serves the host until the function is reset.
pub(super) async fn serve(io: Io, number: u16, subsystem: Rc<Subsystem>, counts: Rc<RefCell<log::Counts>>) {
    if io.begun_by() == ResetKind::Fundamental {
        lose_power(number, &subsystem, &counts);
    }
    let registers = RefCell::new(RegisterFile::new(DOORBELLS as usize));
    let controller =
        Rc::new(Controller { io, number, subsystem, counts, registers, run: RefCell::default() });
    controller.reset();
    let (writable, _end) = (writable(), End(Rc::clone(&controller)));
    while let Some(request) = controller.io.next_request().await {
        match request {
            Request::Write(write) if write.bar() == BAR => controller.write(&write, &writable).await,
            Request::Read(read) => {
                let registers = controller.registers.borrow();
                // Doorbells and unimplemented registers read as zero (NVMe 1.4 §3.1.24).
                let is_beyond = read.offset() + read.len() as u64 > DOORBELLS;
                let zeros = [0; 4096];
                let answer = if is_beyond { Ok(&zeros[..]) } else { registers.read(&read) };
                read.complete(answer);
            }
            _ => {}
        }
    }
}

/// Accounts for a past loss of power, which has cleared the cache.
fn lose_power(number: u16, subsystem: &Subsystem, counts: &RefCell<log::Counts>) {
    counts.borrow_mut().lose_power();
    if number == 0 {
        subsystem.namespaces.iter().for_each(Namespace::lose_power);
    }
}

/// Ends the run. Otherwise it would not be freed, because the run and its tasks own each other.
struct End(Rc<Controller>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.finish();
    }
}

impl Controller {
    /// Resets all registers except the registers of the admin queues.
    fn reset(&self) {
        self.finish();
        self.counts.borrow_mut().reset();
        let mut registers = self.registers.borrow_mut();
        let capabilities = u64::from(MAX_ENTRIES - 1) // MQES
            | 1 << 16 // CQR: queues are contiguous
            | TIMEOUT << 24
            | 1 << 37 // CSS: the NVM command set
            | u64::from(MAX_PAGE_SHIFT - 12) << 52; // MPSMAX
        registers.set_u64(register::CAP, capabilities);
        registers.set_u32(register::VS, VERSION);
        for at in [register::CC, register::CSTS, register::INTMS, register::INTMC] {
            registers.set_u32(at, 0);
        }
    }

    fn finish(&self) {
        if let Some(run) = self.run.take() {
            run.finish();
        }
    }

    fn u32(&self, register: u64) -> u32 {
        self.registers.borrow().u32(register)
    }

    pub(super) fn set_status(&self, bits: u32) {
        let before = self.u32(register::CSTS);
        self.registers.borrow_mut().set_u32(register::CSTS, before | bits);
    }

    /// Reports a fatal error.
    pub(super) fn fail(&self) {
        self.set_status(csts::CFS);
        self.subsystem.report.change(|report| report.fatal += 1);
    }

    async fn write(self: &Rc<Controller>, write: &WriteRequest, writable: &[u8]) {
        if write.offset() >= DOORBELLS {
            return self.ring(write).await;
        }
        let before = self.u32(register::CC);
        self.mask(write);
        self.registers.borrow_mut().write_bits(write, writable);
        let after = self.u32(register::CC);
        match (before & cc::EN != 0, after & cc::EN != 0) {
            (false, true) => self.enable(after),
            (true, false) => self.reset(),
            _ => {}
        }
        if get(before, cc::SHN) == 0 && get(after, cc::SHN) != 0 {
            if self.subsystem.flush().is_err() {
                return self.fail();
            }
            self.counts.borrow_mut().is_in_use = false;
            self.set_status(csts::SHST_COMPLETE);
        }
    }

    /// Interrupt masks, which MSI-X ignores (NVMe 1.4 §3.1.3). Both registers read as the mask.
    fn mask(&self, write: &WriteRequest) {
        let before = self.u32(register::INTMS);
        let after = if write.at(BAR, register::INTMS) {
            before | write.u32()
        } else if write.at(BAR, register::INTMC) {
            before & !write.u32()
        } else {
            return;
        };
        let mut registers = self.registers.borrow_mut();
        registers.set_u32(register::INTMS, after);
        registers.set_u32(register::INTMC, after);
    }

    fn enable(self: &Rc<Controller>, control: u32) {
        let page = 1 << (12 + get(control, cc::MPS).min(16));
        let sizes = self.u32(register::AQA);
        let [submissions, completions] = [sizes & 0xfff, sizes >> 16 & 0xfff].map(|last| last + 1);
        let [asq, acq] = [register::ASQ, register::ACQ].map(|at| self.registers.borrow().u64(at));
        let is_legal = get(control, cc::CSS) == 0
            && get(control, cc::AMS) == 0
            && page <= 1 << MAX_PAGE_SHIFT
            && submissions.min(completions) >= 2
            && [asq, acq].iter().all(|base| base.is_multiple_of(u64::from(page)));
        if !is_legal {
            return self.fail();
        }
        let run = ControllerRun::start(Rc::clone(self), page, (asq, submissions), (acq, completions));
        *self.run.borrow_mut() = Some(run);
        self.counts.borrow_mut().begin();
        self.set_status(csts::RDY);
    }

    /// Whether the configured sizes of I/O queue entries are supported.
    pub(super) fn has_entry_sizes(&self) -> bool {
        let control = self.u32(register::CC);
        (get(control, cc::IOSQES), get(control, cc::IOCQES)) == (6, 4)
    }

    /// Handles a doorbell, which is a write of 4 B. Other writes are undefined (NVMe 1.4 §3.1).
    async fn ring(&self, write: &WriteRequest) {
        let (at, value) = (write.offset() - DOORBELLS, write.u32());
        let run = self.run.borrow().clone();
        let (Some(run), true) = (run, at.is_multiple_of(4) && write.len() == 4) else {
            return self.subsystem.report.change(|report| report.refused_doorbells += 1);
        };
        if !run.ring((at / 8) as usize, at % 8 == 0, value & 0xffff).await {
            self.subsystem.report.change(|report| report.refused_doorbells += 1);
        }
    }
}

const _: () = assert!(BAR_BYTES >= DOORBELLS + 8 * (super::settings::MAX_QUEUE_PAIRS as u64 + 1));
