// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One function of the engine: its registers and its two rings. Never sees those of another; they meet in the window alone.

use super::window::{Place, Window};
use super::{
    BAR, DESCRIPTOR_BYTES, Direction, INTERRUPT, Interrupts, MAX_RING_ENTRIES, READ_BYTES, Report,
    RingReport, Stream, register,
};
use crate::queue::Queue;
use device::Channel;
use device::io::{RegisterFile, Request, WriteRequest};
use device::{DmaError, Io};
use exec::{JoinHandle, SpawnError};
use plug::Shared;
use plug::transfers::{EndedTransfer, Phase, Transfers};
use std::cell::RefCell;
use std::rc::Rc;
use tlp::Payload;

/// Descriptors that one read fetches at most.
const FETCHED: u32 = 16;
/// Descriptors that are fetched ahead, of one ring, at most.
const FETCHED_AHEAD: usize = 32;
/// Reads and ends of descriptors that wait for those before them, of one ring, at most.
const MAX_WAITING: usize = 1024;

/// A descriptor.
#[derive(Clone, Copy)]
struct Descriptor {
    address: u64,
    bytes: u32,
    interrupts: bool,
}

impl Descriptor {
    /// `None` where there are not 16 B.
    fn parse(bytes: &[u8]) -> Option<Descriptor> {
        let (address, rest) = bytes.split_first_chunk()?;
        let (bytes, rest) = rest.split_first_chunk()?;
        let flags = u32::from_le_bytes(*rest.first_chunk()?);
        Some(Descriptor {
            address: u64::from_le_bytes(*address),
            bytes: u32::from_le_bytes(*bytes),
            interrupts: flags & INTERRUPT != 0,
        })
    }
}

/// A read of data.
type Reading = JoinHandle<Result<Payload, DmaError>>;

/// What the H2D ring checks, in the order of its data.
enum Step {
    /// Bytes of a descriptor, and the place of their read in the window.
    Piece { reading: Reading, len: u32, place: Place },
    /// A descriptor is over.
    End { bytes: u32, interrupts: bool, failed: bool },
}

/// A function from one reset to the next.
pub(super) struct Function {
    io: Io,
    number: u16,
    interrupts: Interrupts,
    window: Window,
    report: Shared<Report>,
    measured: Option<Shared<Transfers>>,
    registers: RefCell<RegisterFile>,
    /// A doorbell was rung, by ring.
    doorbells: [Queue<()>; 2],
    /// Descriptors that were fetched, by ring; `None` for one that was not.
    descriptors: [Channel<Option<Descriptor>>; 2],
    steps: Channel<Step>,
}

impl Function {
    pub(super) fn new(
        io: Io,
        number: u16,
        interrupts: Interrupts,
        window: Window,
        report: Shared<Report>,
        measured: Option<Shared<Transfers>>,
    ) -> Rc<Function> {
        Rc::new(Function {
            io,
            number,
            interrupts,
            window,
            report,
            measured,
            registers: RefCell::new(RegisterFile::new(register::BYTES)),
            doorbells: [Queue::new(1), Queue::new(1)],
            descriptors: [Channel::new(FETCHED_AHEAD), Channel::new(FETCHED_AHEAD)],
            steps: Channel::new(MAX_WAITING),
        })
    }

    /// Answers register reads and writes; the rings are tasks beside it.
    pub(super) async fn run(self: Rc<Function>) {
        for direction in Direction::ALL {
            self.io.spawn(self.clone().fetch(direction));
        }
        self.io.spawn(self.clone().read_data());
        self.io.spawn(self.clone().check_data());
        self.io.spawn(self.clone().write_data());
        while let Some(request) = self.io.next_request().await {
            match request {
                Request::Write(write) if write.offset() == register::INTX => self.clear_intx(&write).await,
                Request::Write(write) => self.write(&write),
                Request::Read(read) => {
                    let registers = self.registers.borrow();
                    let answer = registers.read(&read);
                    read.complete(answer);
                }
                _ => {}
            }
        }
    }

    /// What stands behind the seed of a ring is read-only.
    fn write(&self, write: &WriteRequest) {
        let (offset, end) = (write.offset(), write.offset() + write.len() as u64);
        let Some(direction) = Direction::ALL.get((offset / register::STRIDE) as usize) else { return };
        if write.bar() != BAR || end > direction.register(register::DONE) {
            return;
        }
        self.registers.borrow_mut().write(write);
        if offset <= direction.register(register::POSTED) && end > direction.register(register::POSTED) {
            if let Some(measured) = self.measured.as_ref().filter(|m| m.get().phase == Phase::Idle) {
                measured.change(|m| m.start(self.io.now()));
            }
            // A doorbell that still waits stands for this one too.
            let _ = self.doorbells[direction.index()].push(());
        }
    }

    /// Ones clear what asserts INTx.
    async fn clear_intx(&self, write: &WriteRequest) {
        let before = self.registers.borrow().u32(register::INTX);
        self.registers.borrow_mut().write(write);
        let left = before & !self.registers.borrow().u32(register::INTX);
        self.registers.borrow_mut().set_u32(register::INTX, left);
        if before != 0 && left == 0 {
            // While its function may not, nobody hears of it.
            let _ = self.io.intx(false).await;
        }
    }

    async fn interrupt(&self, direction: Direction) -> Result<(), DmaError> {
        if self.interrupts != Interrupts::Intx {
            return self.io.interrupt(direction.index() as u16).await;
        }
        let before = self.registers.borrow().u32(register::INTX);
        self.registers.borrow_mut().set_u32(register::INTX, before | 1 << direction.index());
        self.io.intx(true).await
    }

    fn u32(&self, direction: Direction, offset: u64) -> u32 {
        self.registers.borrow().u32(direction.register(offset))
    }

    fn u64(&self, direction: Direction, offset: u64) -> u64 {
        self.registers.borrow().u64(direction.register(offset))
    }

    fn note(&self, direction: Direction, note: impl FnOnce(&mut RingReport)) {
        self.report.change(|report| {
            if let Some(function) = report.functions.get_mut(usize::from(self.number)) {
                note(&mut function.rings[direction.index()]);
            }
        });
    }

    /// How many descriptors lie between `taken` and the doorbell; waits for some.
    async fn posted(&self, direction: Direction, taken: u32) -> u32 {
        loop {
            let posted = self.u32(direction, register::POSTED).wrapping_sub(taken);
            let entries = self.u32(direction, register::ENTRIES);
            let is_ring = entries.is_power_of_two() && entries <= MAX_RING_ENTRIES;
            if posted > 0 && is_ring && posted <= entries {
                return posted;
            }
            self.note(direction, |r| r.refused += u64::from(posted > 0));
            self.doorbells[direction.index()].pop().await;
        }
    }

    /// Fetches descriptors ahead of their use, as many as one read can and as were posted.
    async fn fetch(self: Rc<Function>, direction: Direction) {
        let mut taken = 0u32;
        loop {
            let posted = self.posted(direction, taken).await;
            let entries = self.u32(direction, register::ENTRIES);
            let index = taken & (entries - 1);
            let count = posted.min(FETCHED).min(entries - index);
            let at = self.u64(direction, register::RING) + DESCRIPTOR_BYTES * u64::from(index);
            let bytes = self.io.dma_read(at, count * DESCRIPTOR_BYTES as u32).await;
            let mut bytes = bytes.as_deref().unwrap_or_default().chunks(DESCRIPTOR_BYTES as usize);
            for _ in 0..count {
                let descriptor = bytes.next().and_then(Descriptor::parse);
                self.descriptors[direction.index()].send(descriptor).await;
            }
            taken = taken.wrapping_add(count);
        }
    }

    /// A descriptor is over: counts it, writes back, and interrupts where it is asked to.
    async fn end(
        &self,
        direction: Direction,
        bytes: u32,
        interrupts: bool,
        failed: bool,
    ) -> Result<(), DmaError> {
        let (done, failures) = (
            self.u32(direction, register::DONE).wrapping_add(1),
            self.u32(direction, register::FAILED).wrapping_add(failed.into()),
        );
        for (offset, value) in [(register::DONE, done), (register::FAILED, failures)] {
            self.registers.borrow_mut().set_u32(direction.register(offset), value);
        }
        self.note(direction, |r| {
            r.done += 1;
            r.failed += u64::from(failed);
        });
        if !failed {
            // One that has failed ends the driver, and the run with it.
            self.count(direction, bytes);
        }
        let at = self.u64(direction, register::DONE_AT);
        if at != 0 {
            self.io.dma_write(at, u64::from(failures) << 32 | u64::from(done)).await?;
        }
        if interrupts {
            self.interrupt(direction).await?;
        }
        Ok(())
    }

    /// Counts a transfer, where they are measured.
    fn count(&self, direction: Direction, bytes: u32) {
        let Some(measured) = &self.measured else { return };
        let now = self.io.now();
        let (bytes_read, bytes_written) = match direction {
            Direction::H2d => (bytes, 0),
            Direction::D2h => (0, bytes),
        };
        measured
            .change(|m| m.end(now, EndedTransfer { bytes_read, bytes_written, ..EndedTransfer::default() }));
    }

    // ---- H2D ----

    /// Reads the data of one descriptor behind the other, as the window allows.
    async fn read_data(self: Rc<Function>) {
        loop {
            match self.descriptors[Direction::H2d.index()].receive().await {
                Some(descriptor) => self.read_one(descriptor).await,
                None => self.steps.send(Step::End { bytes: 0, interrupts: true, failed: true }).await,
            }
        }
    }

    async fn read_one(&self, descriptor: Descriptor) {
        for (address, len) in pieces(descriptor.address, descriptor.bytes) {
            let place = self.window.place(self.number).await;
            let reading = self.io.spawn(self.io.dma_read(address, len));
            self.steps.send(Step::Piece { reading, len, place }).await;
        }
        self.steps
            .send(Step::End { bytes: descriptor.bytes, interrupts: descriptor.interrupts, failed: false })
            .await;
    }

    /// Takes the data in their order, whatever the order of completions was.
    async fn check_data(self: Rc<Function>) {
        let (mut stream, mut wrong) = (None, false);
        loop {
            match self.steps.receive().await {
                Step::Piece { reading, len, place } => {
                    let seed = || Stream::new(self.u64(Direction::H2d, register::SEED));
                    wrong |= !self.check(reading.await, len, stream.get_or_insert_with(seed));
                    drop(place);
                }
                Step::End { bytes, interrupts, failed } => {
                    let failed = std::mem::take(&mut wrong) || failed;
                    // Where the function may not write, nobody hears of it.
                    let _ = self.end(Direction::H2d, bytes, interrupts, failed).await;
                }
            }
        }
    }

    fn check(
        &self,
        read: Result<Result<Payload, DmaError>, SpawnError>,
        len: u32,
        stream: &mut Stream,
    ) -> bool {
        let Ok(Ok(bytes)) = read else {
            stream.skip(len.into());
            return false;
        };
        self.note(Direction::H2d, |r| r.bytes += u64::from(len));
        stream.check(&bytes)
    }

    // ---- D2H ----

    async fn write_data(self: Rc<Function>) {
        let mut stream = None;
        loop {
            let descriptor = self.descriptors[Direction::D2h.index()].receive().await;
            let stream = stream.get_or_insert_with(|| Stream::new(self.u64(Direction::D2h, register::SEED)));
            let (bytes, interrupts, failed) = match descriptor {
                Some(d) => (d.bytes, d.interrupts, self.write_one(d, stream).await.is_err()),
                None => (0, true, true),
            };
            let _ = self.end(Direction::D2h, bytes, interrupts, failed).await;
        }
    }

    async fn write_one(&self, descriptor: Descriptor, stream: &mut Stream) -> Result<(), DmaError> {
        for (address, len) in pieces(descriptor.address, descriptor.bytes) {
            let bytes = self.io.payloads().fill(len as usize, |bytes| stream.fill(bytes));
            self.io.dma_write(address, bytes).await?;
            self.note(Direction::D2h, |r| r.bytes += u64::from(len));
        }
        Ok(())
    }
}

/// A transfer of `bytes` at `address`, cut at multiples of [`READ_BYTES`]: address and bytes of each piece.
pub(super) fn pieces(address: u64, bytes: u32) -> impl Iterator<Item = (u64, u32)> {
    let (mut at, mut left) = (address, bytes);
    std::iter::from_fn(move || {
        let (start, len) = (at, left.min(READ_BYTES - at as u32 % READ_BYTES));
        (at, left) = (at.wrapping_add(len.into()), left - len);
        (len > 0).then_some((start, len))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_are_cut_at_512_bytes() {
        let pieces = |address, bytes| pieces(address, bytes).collect::<Vec<_>>();
        assert_eq!(pieces(0x1000, 512), [(0x1000, 512)]);
        assert_eq!(pieces(0x11f8, 1024), [(0x11f8, 8), (0x1200, 512), (0x1400, 504)]);
        assert_eq!(pieces(0x1000, 0), []);
    }
}
