// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The device. Its registers are little-endian, in BAR 0:
//!
//! ```text
//! +0x00  u64  source       host address to copy from
//! +0x08  u64  destination  host address to copy to
//! +0x10  u32  length       bytes to copy
//! +0x14  u32  doorbell     any write starts a copy
//! +0x18  u32  checksum     sum of the bytes of the last copy
//! +0x1c  u32  status       0 if the last copy succeeded, else 1
//! ```
//!
//! The device raises vector 0 at the end of each copy.

use crate::model::{Report, Settings};
use device::io::{RegisterFile, Request};
use device::{BarIndex, DmaError, Io};
use plug::registers::{DeviceRegister, named};
use plug::transfers::{EndedTransfer, Phase, Transfers};
use plug::{Shared, gbps};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// BAR of the registers.
pub(crate) const BAR: BarIndex = BarIndex(0);
pub(crate) const SOURCE: u64 = 0x00;
pub(crate) const DESTINATION: u64 = 0x08;
pub(crate) const LENGTH: u64 = 0x10;
pub(crate) const DOORBELL: u64 = 0x14;
pub(crate) const CHECKSUM: u64 = 0x18;
pub(crate) const STATUS: u64 = 0x1c;
/// Size of all registers.
const BYTES: usize = 0x20;

/// Interrupt vector that signals the end of a copy.
pub(crate) const DONE: u16 = 0;

/// Register names, for `riser trace` and `riser lspci`.
pub(crate) const REGISTERS: &[DeviceRegister] = &[
    named(Some(0), SOURCE, 8, "source"),
    named(Some(0), DESTINATION, 8, "destination"),
    named(Some(0), LENGTH, 4, "length"),
    named(Some(0), DOORBELL, 4, "doorbell"),
    named(Some(0), CHECKSUM, 4, "checksum"),
    named(Some(0), STATUS, 4, "status"),
];

/// One function of the device, from one reset to the next.
pub(crate) struct Copier {
    pub(crate) settings: Settings,
    pub(crate) report: Shared<Report>,
    /// Counters of `riser bench`, if it measures this device.
    pub(crate) measured: Option<Shared<Transfers>>,
}

type Registers = Rc<RefCell<RegisterFile>>;

impl Copier {
    /// Serves requests one after another until power is removed.
    pub(crate) async fn run(self, io: Io) {
        let copier = Rc::new(self);
        let registers: Registers = Rc::new(RefCell::new(RegisterFile::new(BYTES)));
        while let Some(request) = io.next_request().await {
            match request {
                Request::Write(write) if write.at(BAR, DOORBELL) => {
                    copier.report.change(|r| r.doorbells += 1);
                    if copier.report.get().doorbells != copier.settings.deaf_to {
                        io.spawn(copier.clone().serve(io.clone(), registers.clone()));
                    }
                }
                Request::Write(write) => {
                    registers.borrow_mut().write(&write);
                }
                Request::Read(read) => {
                    let registers = registers.borrow();
                    let answer = registers.read(&read);
                    read.complete(answer);
                }
                _ => {}
            }
        }
    }

    /// Performs one copy, from its doorbell to its interrupt.
    async fn serve(self: Rc<Copier>, io: Io, registers: Registers) {
        let job = Rc::new(Job::new(&registers.borrow(), self.settings.piece_bytes));
        if let Some(measured) = &self.measured {
            measured.change(|m| m.start(io.now()));
        }
        let work = |_| io.spawn(self.clone().work(io.clone(), job.clone()));
        let workers: Vec<_> = (0..self.settings.in_flight).map(work).collect();
        let mut went_well = true;
        for worker in workers {
            // The outer error means that the task never started, because too many were running.
            went_well &= worker.await == Ok(Ok(()));
        }
        registers.borrow_mut().set_u32(CHECKSUM, job.sum.get());
        registers.borrow_mut().set_u32(STATUS, u32::from(!went_well));
        self.report.change(|r| r.copies += 1);
        // A function without vectors raises no interrupt.
        let _ = io.interrupt(DONE).await;
    }

    /// Copies pieces until none is left. Each worker has one piece in flight.
    async fn work(self: Rc<Copier>, io: Io, job: Rc<Job>) -> Result<(), DmaError> {
        while let Some((at, len)) = job.next(self.is_measuring()) {
            let start = io.now();
            let bytes = io.dma_read(job.source + at, len).await?;
            self.count(EndedTransfer { bytes_read: len, ..EndedTransfer::default() }, &io);
            job.add(&bytes);
            io.dma_write(job.destination + at, bytes).await?;
            self.count(EndedTransfer { bytes_written: len, ..EndedTransfer::default() }, &io);
            self.report.change(|r| r.count(start, io.now(), len));
        }
        Ok(())
    }

    fn is_measuring(&self) -> bool {
        self.measured.as_ref().is_some_and(|m| m.get().phase < Phase::Done)
    }

    fn count(&self, ended: EndedTransfer, io: &Io) {
        if let Some(measured) = &self.measured {
            measured.change(|m| m.end(io.now(), ended));
        }
    }
}

/// A running copy.
struct Job {
    source: u64,
    destination: u64,
    length: u32,
    piece: u32,
    /// Offset of the next piece.
    next: Cell<u32>,
    /// Sum of the bytes so far.
    sum: Cell<u32>,
}

impl Job {
    fn new(registers: &RegisterFile, piece: u32) -> Job {
        Job {
            source: registers.u64(SOURCE),
            destination: registers.u64(DESTINATION),
            length: registers.u32(LENGTH),
            piece,
            next: Cell::new(0),
            sum: Cell::new(0),
        }
    }

    /// Returns offset and length of the next piece. With `around`, the first piece follows the last
    /// one.
    fn next(&self, around: bool) -> Option<(u64, u32)> {
        if around && self.next.get() >= self.length {
            self.next.set(0);
        }
        let at = self.next.get();
        let len = self.piece.min(self.length.checked_sub(at).filter(|left| *left > 0)?);
        self.next.set(at + len);
        Some((at.into(), len))
    }

    fn add(&self, bytes: &[u8]) {
        let sum: u32 = bytes.iter().map(|byte| u32::from(*byte)).sum();
        self.sum.set(self.sum.get().wrapping_add(sum));
    }
}

impl Report {
    /// Counts a piece of `bytes` that was copied from `start` to `now`.
    fn count(&mut self, start: tlp::Time, now: tlp::Time, bytes: u32) {
        self.first.get_or_insert(start);
        self.last = now;
        self.bytes += u64::from(bytes);
    }

    /// Returns the rate of all copies, from the first read to the last write, in Gb/s.
    pub(crate) fn gbps(&self) -> f64 {
        self.first.map_or(0.0, |first| gbps(self.bytes, self.last.since(first)))
    }
}
