// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simple NIC of pcie-bench (SIGCOMM'18, §3) in NetTLP's implementation (NSDI'20, §6.2), and a driver that pings through it.
//!
//! Registers, little-endian, in one BAR (NetTLP's is BAR 4):
//!
//! ```text
//! +0   u64  bus address of the TX ring
//! +8   u64  bus address of the RX ring
//! +16  u32  TX index, a doorbell: number of the descriptor after the last one to send, or of the one to send ([`TxDoorbell`])
//! +20  u32  RX index, a doorbell: number of a descriptor with a free buffer
//! +24  u32  enabled: 0 or 1; 0 resets the rings and drops posted buffers
//! +28  u32  TX done: finished descriptors since then, read-only; an addition of riser, which upstream's NIC lacks
//! ```
//!
//! A ring has 256 descriptors of 16 B: `u64` address of the frame, `u64` its size in bytes. A receive buffer always has 2048 B; its length
//! field is ignored when it is posted.
//!
//! ```text
//! send:     host writes TX index; device reads descriptor, reads frame, raises vector 0
//! receive:  host writes RX index; device reads descriptor;
//!           when a frame arrives, device writes frame, writes descriptor with the length, raises vector 1
//! ```
//!
//! A frame without a buffer waits for a buffer, as in the FIFO of any NIC; up to [`MAX_FRAMES_ON_WIRE`] frames wait. A
//! disabled device accepts no frames, and drops the waiting ones.
//!
//! Each step is one transfer, without any batching, which is the purpose of the model. An invalid descriptor is skipped
//! and counted, and the ring continues.

mod driver;
mod rings;
mod settings;
mod station;

pub use driver::{PingReport, PingSettings, Pings, driver};
pub use settings::{CableEnd, Settings};
pub use station::{RX_BUFFERS, StationCounters, StationReport, StationSettings, station};

use crate::ethernet::{EthernetPort, Inbox, MAX_FRAMES_ON_WIRE, Modes, inbox};
use crate::queue::Queue;
use crate::{device_id, identity};
use config::{Bar, BuildError, Builder, MsiLayout, PcieLayout};
use device::io::{RegisterFile, Request, WriteRequest};
use device::{AsyncDevice, BarIndex, DmaError, Io};
use endpoint::FunctionConfig;
use plug::Shared;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use tlp::{Payload, PayloadPool};

/// Size of the BAR in bytes.
pub const BAR_BYTES: u64 = 4096;
/// Descriptors per ring: one page.
pub const RING_ENTRIES: u32 = 256;
/// Size of a descriptor in bytes.
pub const DESCRIPTOR_BYTES: u64 = 16;
/// Sizes in bytes from the shortest frame with a header to the longest with a tag (IEEE 802.3 §3.2.7, without FCS).
pub const FRAME_BYTES: std::ops::RangeInclusive<u64> = 14..=1518;
/// Size of a receive buffer in bytes.
pub const BUFFER_BYTES: u64 = 2048;

/// Ethernet controller (PCI Code and ID Assignment Specification, §1.3).
const CLASS: u32 = 0x02_0000;
/// Number of attempts of a read without completion. A requester may repeat such a read (`PCIe 5.0 §6.2.3.2.4.4`). If
/// the descriptor of a receive buffer were never read, the host would lose the buffer.
const READ_ATTEMPTS: u32 = 20;
const TX_VECTOR: u16 = 0;
const RX_VECTOR: u16 = 1;

/// Size of all registers in bytes.
const REGISTER_BYTES: usize = 32;

registers! {
    None;
    TX_RING  0 8, "TX ring";
    RX_RING  8 8, "RX ring";
    TX_INDEX 16 4, "TX index (doorbell)";
    RX_INDEX 20 4, "RX index (doorbell)";
    ENABLED  24 4, "enabled";
    TX_DONE  28 4, "TX done";
}

/// Meaning of a write to the TX index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TxDoorbell {
    /// Send all descriptors before this one.
    Behind,
    /// Send this descriptor, independent of earlier indices. A driver whose ring has one descriptor, such as NetTLP's, always writes the same index.
    Names,
}

/// Counters of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Frames sent.
    pub tx_frames: u64,
    /// Frames received into a buffer.
    pub rx_frames: u64,
    /// Rejected doorbells: an index outside the ring, a disabled device, or too many at once.
    pub refused_doorbells: u64,
    /// Rejected descriptors: a frame too short or too long to send, or a receive buffer at address zero.
    pub refused_descriptors: u64,
    /// Frames lost because the device was disabled when they arrived, or while they waited for a buffer.
    pub no_buffer: u64,
    /// Frames lost on the wire because too many waited for a buffer, or because they were longer than a buffer.
    pub lost: u64,
    /// Failed transfers.
    pub dma_errors: u64,
}

/// Creates the NIC and its configuration space for the link `pcie`, with its registers in BAR `bar`, 0 to 5. Payloads come from `pool`; `wire` is the other end
/// of its cable.
///
/// # Errors
/// If there is no such BAR.
pub fn function(
    bar: BarIndex,
    pcie: PcieLayout,
    pool: &PayloadPool,
    wire: impl EthernetPort + 'static,
    counters: &Shared<Counters>,
) -> Result<FunctionConfig, BuildError> {
    function_with_inbox(bar, pcie, pool, wire, inbox(), TxDoorbell::Behind, counters)
}

/// Creates the same NIC, which also receives unsolicited frames through `inbox`, in addition to the answers of `wire`. `doorbell` defines the meaning of the TX
/// index. A frame in the inbox wakes the device: its [`poll_timeout`](device::Device::poll_timeout) then returns now.
///
/// # Errors
/// As [`function`].
pub fn function_with_inbox(
    bar: BarIndex,
    pcie: PcieLayout,
    pool: &PayloadPool,
    wire: impl EthernetPort + 'static,
    inbox: Inbox,
    doorbell: TxDoorbell,
    counters: &Shared<Counters>,
) -> Result<FunctionConfig, BuildError> {
    let config = Builder::type0(identity(device_id::SIMPLE_NIC, CLASS))
        .bar(bar, Bar::memory32(BAR_BYTES))
        .msi(MsiLayout { vectors: 2 })
        .pcie(pcie)
        .usual()
        .build()?;
    let (wire, counters) = (Rc::new(RefCell::new(wire)), counters.clone());
    let start =
        move |io: Io| Nic::new(io, bar, wire.clone(), inbox.clone(), doorbell, counters.clone()).run();
    Ok(FunctionConfig { config, device: Box::new(AsyncDevice::with_pool(pool.clone(), start)) })
}

/// A descriptor that was read.
#[derive(Clone, Copy)]
struct Descriptor {
    /// Address of the descriptor itself.
    at: u64,
    address: u64,
    length: u64,
}

/// The NIC from one reset to the next.
struct Nic {
    io: Io,
    bar: BarIndex,
    registers: RefCell<RegisterFile>,
    wire: Rc<RefCell<dyn EthernetPort>>,
    doorbell: TxDoorbell,
    counters: Shared<Counters>,
    /// Written TX indices.
    tx_doorbells: Queue<u32>,
    /// Written RX indices.
    rx_doorbells: Queue<u32>,
    /// Buffers that wait for a frame.
    buffers: Queue<Descriptor>,
    /// Frames that wait for a buffer.
    arrived: Inbox,
    on_wire: Cell<usize>,
    /// The next descriptor to send.
    head: Cell<u32>,
    /// Number of descriptors that were sent or rejected.
    tx_done: Cell<u32>,
    /// Number of resets of the rings.
    rings: Cell<u32>,
}

impl Nic {
    fn new(
        io: Io,
        bar: BarIndex,
        wire: Rc<RefCell<dyn EthernetPort>>,
        arrived: Inbox,
        doorbell: TxDoorbell,
        counters: Shared<Counters>,
    ) -> Rc<Nic> {
        Rc::new(Nic {
            io,
            bar,
            registers: RefCell::new(RegisterFile::new(REGISTER_BYTES)),
            wire,
            doorbell,
            counters,
            tx_doorbells: Queue::new(RING_ENTRIES as usize),
            rx_doorbells: Queue::new(RING_ENTRIES as usize),
            buffers: Queue::new(RING_ENTRIES as usize),
            arrived,
            on_wire: Cell::new(0),
            head: Cell::new(0),
            tx_done: Cell::new(0),
            rings: Cell::new(0),
        })
    }

    /// Serves register accesses. Three other tasks do the work.
    async fn run(self: Rc<Nic>) {
        self.offer(false);
        self.io.spawn(self.clone().transmitter());
        self.io.spawn(self.clone().buffer_reader());
        self.io.spawn(self.clone().receiver());
        while let Some(request) = self.io.next_request().await {
            match request {
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

    fn write(&self, write: &WriteRequest) {
        self.registers.borrow_mut().write(write);
        self.registers.borrow_mut().set_u32(register::TX_DONE, self.tx_done.get());
        let enabled = self.is_enabled();
        self.offer(enabled);
        let doorbells = match write {
            w if w.at(self.bar, register::TX_INDEX) => &self.tx_doorbells,
            w if w.at(self.bar, register::RX_INDEX) => &self.rx_doorbells,
            w if w.at(self.bar, register::ENABLED) && !enabled => return self.forget(),
            _ => return,
        };
        if !enabled || write.u32() >= RING_ENTRIES || !doorbells.push(write.u32()) {
            self.counters.change(|c| c.refused_doorbells += 1);
        }
    }

    fn is_enabled(&self) -> bool {
        self.registers.borrow().u32(register::ENABLED) & 1 == 1
    }

    /// Offers the other end of the cable a carrier while the device is enabled.
    fn offer(&self, is_enabled: bool) {
        self.wire.borrow_mut().offer(if is_enabled { Modes::ALL } else { Modes::NONE });
    }

    /// Resets the rings after a disable.
    fn forget(&self) {
        self.head.set(0);
        self.set_tx_done(0);
        self.rings.set(self.rings.get().wrapping_add(1));
        while self.tx_doorbells.try_pop().is_some() || self.rx_doorbells.try_pop().is_some() {}
        while self.buffers.try_pop().is_some() {}
        while self.arrived.try_pop().is_some() {
            self.counters.change(|c| c.no_buffer += 1);
        }
    }

    /// Serves TX doorbells, one after another.
    async fn transmitter(self: Rc<Nic>) {
        loop {
            let index = self.tx_doorbells.pop().await;
            match self.doorbell {
                TxDoorbell::Behind => self.transmit_up_to(index).await,
                TxDoorbell::Names => self.transmit(index).await,
            }
        }
    }

    /// Sends the frames of all descriptors after the last sent one, up to the TX index.
    async fn transmit_up_to(self: &Rc<Nic>, tail: u32) {
        let rings = self.rings.get();
        while self.rings.get() == rings && self.head.get() != tail {
            self.transmit(self.head.get()).await;
            if self.rings.get() == rings {
                self.head.set((self.head.get() + 1) % RING_ENTRIES);
            }
        }
    }

    /// Sends the frame of a descriptor. Finishes the descriptor in any case, and raises the interrupt.
    async fn transmit(self: &Rc<Nic>, index: u32) {
        let rings = self.rings.get();
        let fetched = self.fetch(index).await;
        self.note(fetched);
        if self.rings.get() == rings {
            self.set_tx_done(self.tx_done.get().wrapping_add(1));
        }
        let told = self.io.interrupt(TX_VECTOR).await;
        self.note(told);
    }

    async fn fetch(self: &Rc<Nic>, index: u32) -> Result<(), DmaError> {
        let descriptor = self.descriptor(register::TX_RING, index).await?;
        if FRAME_BYTES.contains(&descriptor.length) {
            let frame = self.read(descriptor.address, descriptor.length as u32).await?;
            self.send(&frame);
        } else {
            self.counters.change(|c| c.refused_descriptors += 1);
        }
        Ok(())
    }

    fn set_tx_done(&self, count: u32) {
        self.tx_done.set(count);
        self.registers.borrow_mut().set_u32(register::TX_DONE, count);
    }

    /// Puts a frame on the wire. Passes an answer to the receiver when it arrives.
    fn send(self: &Rc<Nic>, frame: &[u8]) {
        self.counters.change(|c| c.tx_frames += 1);
        let Some(arrival) = self.wire.borrow_mut().transmit(frame) else { return };
        if self.on_wire.get() == MAX_FRAMES_ON_WIRE {
            return self.counters.change(|c| c.lost += 1);
        }
        self.on_wire.set(self.on_wire.get() + 1);
        let nic = self.clone();
        self.io.spawn(async move {
            nic.io.sleep(arrival.after).await;
            nic.on_wire.set(nic.on_wire.get() - 1);
            if !nic.arrived.push(arrival.frame) {
                nic.counters.change(|c| c.lost += 1);
            }
        });
    }

    /// Reads the descriptor of each posted buffer, in the order of posting.
    async fn buffer_reader(self: Rc<Nic>) {
        loop {
            let index = self.rx_doorbells.pop().await;
            let rings = self.rings.get();
            match self.descriptor(register::RX_RING, index).await {
                Ok(_) if self.rings.get() != rings => {}
                Ok(buffer) if buffer.address != 0 && self.buffers.push(buffer) => {}
                Ok(_) => self.counters.change(|c| c.refused_descriptors += 1),
                Err(error) => self.note(Err(error)),
            }
        }
    }

    async fn receiver(self: Rc<Nic>) {
        loop {
            let frame = self.next_frame().await;
            if frame.len() as u64 > BUFFER_BYTES {
                self.counters.change(|c| c.lost += 1);
            } else if let Some(buffer) = self.buffers.try_pop() {
                let received = self.receive(&frame, &buffer).await;
                self.note(received);
            } else {
                self.counters.change(|c| c.no_buffer += 1);
            }
        }
    }

    /// Waits for a frame and a buffer for it. If the device is disabled, and so has no buffers, returns the next frame
    /// immediately.
    async fn next_frame(&self) -> Vec<u8> {
        poll_fn(|cx| {
            // Wait for both: the device may be disabled and enabled again between two frames.
            let (_, has_buffer) = (self.arrived.poll_some(cx), self.buffers.poll_some(cx));
            let is_due = has_buffer || !self.is_enabled();
            match is_due.then(|| self.arrived.try_pop()).flatten() {
                Some(frame) => Poll::Ready(frame),
                None => Poll::Pending,
            }
        })
        .await
    }

    async fn receive(&self, frame: &[u8], buffer: &Descriptor) -> Result<(), DmaError> {
        self.io.dma_write(buffer.address, frame).await?;
        let mut descriptor = [0; DESCRIPTOR_BYTES as usize];
        descriptor[..8].copy_from_slice(&buffer.address.to_le_bytes());
        descriptor[8..].copy_from_slice(&(frame.len() as u64).to_le_bytes());
        self.io.dma_write(buffer.at, descriptor).await?;
        self.counters.change(|c| c.rx_frames += 1);
        self.io.interrupt(RX_VECTOR).await
    }

    async fn descriptor(&self, ring: u64, index: u32) -> Result<Descriptor, DmaError> {
        let base = self.registers.borrow().u64(ring);
        let at = base.wrapping_add(DESCRIPTOR_BYTES * u64::from(index));
        let bytes = self.read(at, DESCRIPTOR_BYTES as u32).await?;
        let field = |at: usize| bytes.get(at..).and_then(|b| b.first_chunk()).map(|b| u64::from_le_bytes(*b));
        let (address, length) = field(0).zip(field(8)).ok_or(DmaError::Malformed)?;
        Ok(Descriptor { at, address, length })
    }

    /// Reads host memory. Repeats a read without completion while the rings are not reset.
    async fn read(&self, address: u64, bytes: u32) -> Result<Payload, DmaError> {
        let rings = self.rings.get();
        for _ in 1..READ_ATTEMPTS {
            match self.io.dma_read(address, bytes).await {
                Err(DmaError::CompletionTimeout) if self.rings.get() == rings => {
                    self.note(Err(DmaError::CompletionTimeout));
                }
                done => return done,
            }
        }
        self.io.dma_read(address, bytes).await
    }

    fn note(&self, result: Result<(), DmaError>) {
        if result.is_err() {
            self.counters.change(|c| c.dma_errors += 1);
        }
    }
}
