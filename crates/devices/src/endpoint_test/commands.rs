// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The endpoint: its BARs and commands.

use super::register as r;
use super::{Settings, command, irq, status};
use device::io::{ReadRequest, RegisterFile, Request, WriteRequest};
use device::{CompletionError, DmaError, Io};
use plug::Shared;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256StarStar;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tlp::crc::crc32;
use tlp::split::request_pieces;

/// Maximum size of a piece of a transfer in bytes: a page, so that no piece crosses a page boundary.
const PIECE_BYTES: u32 = 4096;

/// Counters of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// READ commands.
    pub reads: u64,
    /// WRITE commands.
    pub writes: u64,
    /// COPY commands.
    pub copies: u64,
    /// Number of failed commands.
    pub failed: u64,
    /// Interrupts raised.
    pub interrupts: u64,
    /// Invalid commands, and interrupts of an unsupported kind or number.
    pub refused: u64,
}

/// Failure of a transfer: additional status bits.
type Failed = u32;

/// Serves requests.
pub(super) async fn serve(io: Io, settings: Settings, counters: Shared<Counters>) {
    let endpoint = Rc::new(Endpoint {
        bars: RefCell::new(settings.bar_bytes.map(|bytes| RegisterFile::new(bytes as usize))),
        is_busy: Cell::new(false),
        intx: Cell::new(false),
        settings,
        counters,
        io,
    });
    while let Some(request) = endpoint.io.next_request().await {
        match request {
            Request::Read(read) => endpoint.read(read),
            Request::Write(write) => endpoint.write(&write),
            // It has no other registers and supports no AtomicOps.
            _ => {}
        }
    }
}

struct Endpoint {
    io: Io,
    settings: Settings,
    bars: RefCell<[RegisterFile; 6]>,
    /// Whether a task executes commands.
    is_busy: Cell<bool>,
    /// Level of INTx.
    intx: Cell<bool>,
    counters: Shared<Counters>,
}

/// Returns whether a request to BAR 0 overlaps the 4-byte register at `register`.
fn touches(offset: u64, len: usize, register: u64) -> bool {
    offset < register + 4 && register < offset.saturating_add(len as u64)
}

impl Endpoint {
    fn u32(&self, register: u64) -> u32 {
        self.bars.borrow()[0].u32(register)
    }

    fn u64(&self, register: u64) -> u64 {
        self.bars.borrow()[0].u64(register)
    }

    fn set(&self, register: u64, value: u32) {
        self.bars.borrow_mut()[0].set_u32(register, value);
    }

    fn read(self: &Rc<Self>, read: ReadRequest) {
        let answer = match self.bars.borrow().get(usize::from(read.bar().0)) {
            Some(bar) => bar.read(&read).map(<[u8]>::to_vec),
            None => Err(CompletionError::UnsupportedRequest),
        };
        let ends_intx = read.bar().0 == 0
            && !read.is_zero_length()
            && touches(read.offset(), read.len(), r::STATUS)
            && self.intx.get();
        if !ends_intx {
            return read.complete(answer);
        }
        // The level is deasserted before the completion, so that the reader need not check again.
        let endpoint = Rc::clone(self);
        self.io.spawn(async move {
            endpoint.lower().await;
            read.complete(answer);
        });
    }

    fn write(self: &Rc<Self>, write: &WriteRequest) {
        if let Some(bar) = self.bars.borrow_mut().get_mut(usize::from(write.bar().0)) {
            bar.write(write);
        }
        let rings = write.bar().0 == 0 && touches(write.offset(), write.len(), r::COMMAND);
        if rings && self.u32(r::COMMAND) != 0 && !self.is_busy.replace(true) {
            self.io.spawn(Rc::clone(self).execute());
        }
    }

    /// Executes commands until no command is left.
    async fn execute(self: Rc<Self>) {
        loop {
            let command = self.u32(r::COMMAND);
            self.set(r::COMMAND, 0);
            if command == 0 {
                break self.is_busy.set(false);
            }
            self.carry_out(command).await;
        }
    }

    async fn carry_out(&self, command: u32) {
        self.lower().await;
        self.set(r::STATUS, 0);
        let (kind, number) = (self.u32(r::IRQ_TYPE), self.u32(r::IRQ_NUMBER));
        if kind > irq::MSIX {
            return self.refuse();
        }
        let (result, succeeded, failed) = match command {
            command::READ => (self.read_host().await, status::READ_SUCCESS, status::READ_FAIL),
            command::WRITE => (self.write_host().await, status::WRITE_SUCCESS, status::WRITE_FAIL),
            command::COPY => (self.copy().await, status::COPY_SUCCESS, status::COPY_FAIL),
            _ if command::RAISE.contains(&command) => (Ok(()), 0, 0),
            _ => return self.refuse(),
        };
        self.counters.change(|c| {
            c.reads += u64::from(command == command::READ);
            c.writes += u64::from(command == command::WRITE);
            c.copies += u64::from(command == command::COPY);
            c.failed += u64::from(result.is_err());
        });
        let status = result.map_or_else(|why| failed | why, |()| succeeded);
        self.raise(kind, number, status).await;
    }

    fn refuse(&self) {
        self.counters.change(|c| c.refused += 1);
    }

    /// Sets the status of a command, and raises its interrupt if the interrupt exists.
    async fn raise(&self, kind: u32, number: u32, status: u32) {
        let is_there = match kind {
            irq::INTX => self.settings.intx,
            irq::MSI => (1..=self.settings.msi.into()).contains(&number),
            _ => (1..=self.settings.msix.into()).contains(&number),
        };
        if !is_there {
            self.set(r::STATUS, status);
            return self.refuse();
        }
        self.set(r::STATUS, status | status::IRQ_RAISED);
        self.counters.change(|c| c.interrupts += 1);
        // Fails only if the function may not send interrupts.
        let _ = match kind {
            irq::INTX => {
                self.intx.set(true);
                self.io.intx(true).await
            }
            _ => self.io.interrupt((number - 1) as u16).await,
        };
    }

    async fn lower(&self) {
        if self.intx.replace(false) {
            let _ = self.io.intx(false).await;
        }
    }

    /// Returns the size of a transfer at these addresses, or the status bits of the invalid ones.
    fn size(&self, places: &[(u64, u32)]) -> Result<u32, Failed> {
        let size = self.u32(r::SIZE);
        if size == 0 {
            return Err(0);
        }
        let is_legal = |address: &u64| {
            size <= self.settings.transfer_bytes && address.checked_add(size.into()).is_some()
        };
        match places.iter().filter(|(address, _)| !is_legal(address)).fold(0, |bits, (_, bit)| bits | bit) {
            0 => Ok(size),
            invalid => Err(invalid),
        }
    }

    async fn read_host(&self) -> Result<(), Failed> {
        let source = self.u64(r::SOURCE);
        let size = self.size(&[(source, status::SOURCE_INVALID)])?;
        let expected = self.u32(r::CHECKSUM);
        let mut crc = u32::MAX;
        for (address, len) in request_pieces(source, size, PIECE_BYTES) {
            crc = crc32(crc, &self.load(address, len).await?);
        }
        if crc == expected { Ok(()) } else { Err(0) }
    }

    /// Writes pseudorandom bytes, with the number of the command as seed.
    async fn write_host(&self) -> Result<(), Failed> {
        let destination = self.u64(r::DESTINATION);
        let size = self.size(&[(destination, status::DESTINATION_INVALID)])?;
        let mut random = Xoshiro256StarStar::seed_from_u64(self.counters.get().writes);
        let mut crc = u32::MAX;
        for (address, len) in request_pieces(destination, size, PIECE_BYTES) {
            let mut bytes = vec![0; len as usize];
            random.fill_bytes(&mut bytes);
            crc = crc32(crc, &bytes);
            self.store(address, &bytes).await?;
        }
        self.set(r::CHECKSUM, crc);
        Ok(())
    }

    async fn copy(&self) -> Result<(), Failed> {
        let (source, destination) = (self.u64(r::SOURCE), self.u64(r::DESTINATION));
        let places = [(source, status::SOURCE_INVALID), (destination, status::DESTINATION_INVALID)];
        let size = self.size(&places)?;
        for (address, len) in request_pieces(source, size, PIECE_BYTES) {
            let bytes = self.load(address, len).await?;
            let to = destination + (address - source);
            for (address, len) in request_pieces(to, len, PIECE_BYTES) {
                let at = (address - to) as usize;
                self.store(address, &bytes[at..at + len as usize]).await?;
            }
        }
        Ok(())
    }

    async fn load(&self, address: u64, len: u32) -> Result<Vec<u8>, Failed> {
        let read = self.io.dma_read(address, len).await;
        read.map(|bytes| bytes.to_vec()).map_err(|error| failed(error, status::SOURCE_INVALID))
    }

    /// Writes bytes of one page and waits until they have arrived.
    async fn store(&self, address: u64, bytes: &[u8]) -> Result<(), Failed> {
        let stored = match self.io.dma_write(address, bytes).await {
            Ok(()) => self.io.dma_read_counted(address, 0).await,
            Err(error) => Err(error),
        };
        stored.map_err(|error| failed(error, status::DESTINATION_INVALID))
    }
}

/// Returns the status bits of an error: `invalid` if the address was rejected.
fn failed(error: DmaError, invalid: u32) -> Failed {
    match error {
        DmaError::UnsupportedRequest | DmaError::CompleterAbort => invalid,
        _ => 0,
    }
}
