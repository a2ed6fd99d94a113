// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The NICs of pcie-bench's Figure 1 (SIGCOMM'18, §3) as devices, each with its driver: a simple one, and one like
//! Intel's 82599 with a kernel driver or with DPDK's. Their work per frame is the work that the closed form counts
//! (`crates/model/nics`). Here it takes time on a link and a host.
//!
//! ```text
//! send:     driver writes descriptors, and the TX tail (per batch);
//!           device reads descriptors (a batch), reads each frame, sends it;
//!           device writes descriptors back (a batch), raises vector 0 (per batch), driver reads the TX head
//! receive:  driver writes descriptors, and the RX tail (per batch); device reads descriptors (a batch);
//!           a frame arrives: device writes it, writes descriptors (a batch), raises vector 1, driver reads the RX head
//! ```
//!
//! [`Batches`] defines which of these steps exist, and the size of each batch. Rings, heads and tails count descriptors from the start,
//! modulo 2^32; a ring has [`RING_ENTRIES`]. Registers, little-endian, in BAR 0, 64-bit and prefetchable:
//!
//! ```text
//! +0x00  u64  bus address of the TX ring
//! +0x08  u64  bus address of the RX ring
//! +0x10  u32  TX tail: descriptors that the driver has posted
//! +0x14  u32  TX head: frames sent; read only
//! +0x18  u32  RX tail: descriptors that the driver has posted
//! +0x1c  u32  RX head: frames received; read only
//! +0x20  u32  PIO bytes: a write sends the frame in the window
//! +0x4000     window for a frame, 9216 B
//! ```
//!
//! A descriptor has 16 B: `u64` address, `u32` bytes, `u32` done, 0 or 1, which the device sets when it writes the descriptor back.
//!
//! Frames are sent and received in the order of their descriptors. The device holds at most as many frames to send as it may have reads
//! outstanding. Sending pauses while there is no room for a frame that comes back. Frames are counted, not carried; descriptors are
//! carried. Vector 2 signals a failed transfer. The device never drops a frame.

mod driver;
mod report;
mod ring;
mod settings;

pub use driver::driver;
pub use report::{DirectionCounts, PacketNicReport, Trip};
pub use settings::{Batches, Kind, MAX_FRAME_BYTES, MAX_TRIPS, Mode, RING_ENTRIES, Send, Settings, Traffic};

use crate::queue::Queue;
use crate::{device_id, identity};
use config::{Bar, BarKind, Builder, MsiLayout, PcieLayout};
use device::io::{ReadRequest, Request, WriteRequest};
use device::{AsyncDevice, BarIndex, DmaError, Io};
use endpoint::FunctionConfig;
use exec::JoinHandle;
use plug::transfers::{EndedTransfer, Transfers};
use plug::{Fault, Model, Shared};
use ring::{Descriptor, Done, Ring};
use std::cell::Cell;
use std::rc::Rc;
use tlp::{Duration, PayloadPool, Time};

/// Size of BAR 0 in bytes.
pub const BAR_BYTES: u64 = 0x8000;
/// Size of a descriptor in bytes.
pub const DESCRIPTOR_BYTES: u64 = 16;
/// Maximum number of frames between MAC and receive path.
pub const MAX_FRAMES_RETURNING: usize = 64;

/// Ethernet controller (PCI Code and ID Assignment Specification, §1.3).
const CLASS: u32 = 0x02_0000;
const BAR: BarIndex = BarIndex(0);
const TX_VECTOR: u16 = 0;
const RX_VECTOR: u16 = 1;
/// Raised once, after a failed transfer.
const FAULT_VECTOR: u16 = 2;

registers! {
    Some(BAR.0);
    TX_RING   0x00 8, "TX ring";
    RX_RING   0x08 8, "RX ring";
    TX_TAIL   0x10 4, "TX tail (doorbell)";
    TX_HEAD   0x14 4, "TX head";
    RX_TAIL   0x18 4, "RX tail (doorbell)";
    RX_HEAD   0x1c 4, "RX head";
    PIO_BYTES 0x20 4, "PIO bytes";
    WINDOW    0x4000 9216, "PIO window";
}

/// Creates the NIC and its configuration space for the link `pcie`. Payloads come from `pool`; measurements go to `report`.
/// Without round trips, each stored frame is a transfer of `results`.
///
/// # Errors
/// The first invalid setting.
pub fn function(
    settings: Settings,
    pcie: PcieLayout,
    pool: &PayloadPool,
    report: &Shared<PacketNicReport>,
    results: &Shared<Transfers>,
) -> Result<FunctionConfig, Fault> {
    settings.check()?;
    let bar = Bar { kind: BarKind::Memory64, size: BAR_BYTES, prefetchable: true };
    let config = Builder::type0(identity(device_id::PACKET_NIC, CLASS))
        .bar(BAR, bar)
        .msi(MsiLayout { vectors: 4 })
        .pcie(pcie)
        .usual()
        .build()?;
    let (report, results) = (report.clone(), results.clone());
    let start = move |io: Io| Nic::new(io, settings, report.clone(), results.clone()).run();
    Ok(FunctionConfig { config, device: Box::new(AsyncDevice::with_pool(pool.clone(), start)) })
}

/// A frame that is being read, or that came by PIO.
struct Fetch {
    /// `None` for PIO: the frame has already arrived and has no descriptor.
    read: Option<(JoinHandle<Result<(), DmaError>>, Descriptor)>,
}

/// The NIC from one reset to the next.
struct Nic {
    io: Io,
    settings: Settings,
    batches: Batches,
    report: Shared<PacketNicReport>,
    results: Shared<Transfers>,
    tx: Ring,
    rx: Ring,
    /// Frames in transit from host memory to the cable.
    fetches: Queue<Fetch>,
    /// Sent frames whose descriptors are not done.
    sent: Queue<Descriptor>,
    /// Arrival times of frames that come back.
    returning: Queue<Time>,
    /// Buffers for frames.
    buffers: Queue<Descriptor>,
    /// Times at which the Ethernet is free for the next frame, by direction: sending, receiving.
    ethernet_free: [Cell<Time>; 2],
}

impl Nic {
    fn new(
        io: Io,
        settings: Settings,
        report: Shared<PacketNicReport>,
        results: Shared<Transfers>,
    ) -> Rc<Nic> {
        let frame_bytes = settings.frame_bytes;
        report.change(|r| *r = PacketNicReport { frame_bytes, ..PacketNicReport::default() });
        let (batches, reads) = (settings.batches(), usize::from(settings.reads));
        // Room for as many descriptors as frames, so that descriptors limit nothing.
        let descriptor_reads = reads.div_ceil(batches.fetch as usize).max(2);
        let ring = || Ring::new(batches.fetch, descriptor_reads);
        Rc::new(Nic {
            io,
            settings,
            batches,
            report,
            results,
            tx: ring(),
            rx: ring(),
            fetches: Queue::new(reads),
            sent: Queue::new(RING_ENTRIES as usize),
            returning: Queue::new(MAX_FRAMES_RETURNING),
            buffers: Queue::new(RING_ENTRIES as usize),
            ethernet_free: Default::default(),
        })
    }

    /// Serves register accesses. Other tasks do the work.
    async fn run(self: Rc<Nic>) {
        self.io.spawn(ring::fetch(self.io.clone(), self.clone(), |nic| &nic.tx));
        self.io.spawn(ring::fetch(self.io.clone(), self.clone(), |nic| &nic.rx));
        self.io.spawn(self.clone().reader());
        self.io.spawn(self.clone().sender());
        self.io.spawn(self.clone().sent_teller());
        self.io.spawn(self.clone().buffer_keeper());
        self.io.spawn(self.clone().receiver());
        while let Some(request) = self.io.next_request().await {
            match request {
                Request::Write(write) => self.write(&write).await,
                Request::Read(read) => self.read(read),
                _ => {}
            }
        }
    }

    async fn write(&self, write: &WriteRequest) {
        match (write.offset(), write.len()) {
            (register::TX_RING, 8) => self.tx.set_base(write.u64()),
            (register::RX_RING, 8) => self.rx.set_base(write.u64()),
            (register::TX_TAIL, 4) => {
                self.mark(|trip, now| trip.told = now);
                self.tx.set_tail(write.u32());
            }
            (register::RX_TAIL, 4) => self.rx.set_tail(write.u32()),
            (register::PIO_BYTES, 4) => {
                self.mark(|trip, now| (trip.told, trip.described) = (now, now));
                self.fetches.room().await;
                self.fetches.put(Fetch { read: None });
            }
            (offset, _) if offset >= register::WINDOW => {}
            _ => self.fail(),
        }
    }

    fn read(&self, read: ReadRequest) {
        match read.offset() {
            register::TX_HEAD => read.complete(self.tx.head()),
            register::RX_HEAD => read.complete(self.rx.head()),
            _ => read.complete(0u32),
        }
    }

    /// Starts the read of each frame whose descriptor has arrived.
    async fn reader(self: Rc<Nic>) {
        loop {
            for descriptor in self.descriptors(&self.tx).await {
                self.mark(|trip, now| trip.described = now);
                self.fetches.room().await;
                let read = self.io.dma_read_counted(descriptor.address, descriptor.bytes);
                self.fetches.put(Fetch { read: Some((self.io.spawn(read), descriptor)) });
            }
        }
    }

    /// Sends each frame that has been read.
    async fn sender(self: Rc<Nic>) {
        loop {
            let fetch = self.fetches.take().await;
            let descriptor = match fetch.read {
                None => None,
                Some((read, descriptor)) => {
                    if !matches!(read.await, Ok(Ok(()))) {
                        self.fail();
                    }
                    Some(descriptor)
                }
            };
            self.cross_interface().await;
            self.mark(|trip, now| trip.fetched = now);
            self.pass_ethernet(0).await;
            if self.settings.traffic == Traffic::Loop {
                self.returning.room().await;
                self.returning.put(self.io.now() + self.settings.loop_latency);
            }
            self.fetches.free();
            let Settings { warm_up, frames, .. } = self.settings;
            self.report.change(|r| r.tx.note(self.io.now(), warm_up, frames));
            if let Some(descriptor) = descriptor {
                self.sent.room().await;
                self.sent.put(descriptor);
            }
        }
    }

    /// Reports sent frames to the driver.
    async fn sent_teller(self: Rc<Nic>) {
        let mut done = Done::new(self.batches.tx_write_back, self.batches.interrupt);
        loop {
            let descriptor = self.sent.pop().await;
            self.tell(&self.tx, &mut done, descriptor, TX_VECTOR).await;
        }
    }

    /// Collects buffers for incoming frames.
    async fn buffer_keeper(self: Rc<Nic>) {
        loop {
            for descriptor in self.descriptors(&self.rx).await {
                self.buffers.room().await;
                self.buffers.put(descriptor);
            }
        }
    }

    /// Stores each incoming frame and reports it to the driver.
    async fn receiver(self: Rc<Nic>) {
        let mut done = Done::new(self.batches.rx_write_back, self.batches.interrupt);
        let Settings { warm_up, frames, frame_bytes, traffic, .. } = self.settings;
        loop {
            if traffic == Traffic::Loop {
                self.returned().await;
                self.cross_interface().await;
            }
            let buffer = self.buffers.pop().await;
            if traffic != Traffic::Loop {
                self.pass_ethernet(1).await;
            }
            if self.io.dma_write_counted(buffer.address, frame_bytes).await.is_err() {
                self.fail();
            }
            self.report.change(|r| r.rx.note(self.io.now(), warm_up, frames));
            self.count(frame_bytes);
            let stored = Descriptor { bytes: frame_bytes, ..buffer };
            self.tell(&self.rx, &mut done, stored, RX_VECTOR).await;
        }
    }

    /// Counts a frame that was read, sent and stored again. The driver counts round trips.
    fn count(&self, bytes: u32) {
        if self.settings.mode == Mode::Throughput {
            let ended = EndedTransfer { bytes_read: bytes, bytes_written: bytes, ..EndedTransfer::default() };
            self.results.change(|results| results.end(self.io.now(), ended));
        }
    }

    /// Waits for the next frame that comes back from the cable.
    async fn returned(&self) {
        let arrival = self.returning.take().await;
        if arrival > self.io.now() {
            self.io.sleep_until(arrival).await;
        }
        self.returning.free();
        self.mark(|trip, now| trip.returned = now);
    }

    /// Waits for the NIC's own logic. Frames of a throughput test overlap, and are not delayed.
    async fn cross_interface(&self) {
        if self.settings.mode == Mode::RoundTrip && self.settings.interface_latency > Duration::ZERO {
            self.io.sleep(self.settings.interface_latency).await;
        }
    }

    /// Waits for the end of a frame on the Ethernet; `way` is 0 for sending, 1 for receiving. The gap after the frame
    /// delays only the next one.
    async fn pass_ethernet(&self, way: usize) {
        let time = self.settings.frame_time();
        if time > Duration::ZERO {
            let start = self.ethernet_free[way].get().max(self.io.now());
            self.ethernet_free[way].set(start + self.settings.frame_and_gap_time());
            self.io.sleep_until(start + time).await;
        }
    }

    /// Counts a finished descriptor. If a batch is full, writes it back; if an interrupt is due, raises it.
    async fn tell(&self, ring: &Ring, done: &mut Done, descriptor: Descriptor, vector: u16) {
        ring.advance();
        if let Some((place, batch)) = done.add(descriptor) {
            let written = self.io.dma_write(ring.address(place), ring::image(&self.io, batch)).await;
            done.written();
            if written.is_err() {
                self.fail();
            }
        }
        if done.interrupts() {
            self.report.change(|r| r.interrupts += 1);
            if self.io.interrupt(vector).await.is_err() {
                self.fail();
            }
        }
    }

    /// Returns the next descriptors that were read; empty if the read failed.
    async fn descriptors(&self, ring: &Ring) -> Vec<Descriptor> {
        match ring.fetched().await {
            Ok(descriptors) => descriptors,
            Err(_) => {
                self.fail();
                Vec::new()
            }
        }
    }

    /// Counts a failed transfer, and reports the first one to the driver.
    fn fail(&self) {
        let failed = self.report.change(|r| {
            r.failed += 1;
            r.failed
        });
        if failed == 1 {
            self.io.spawn(self.io.interrupt(FAULT_VECTOR));
        }
    }

    /// Records the time of a stage of the current round trip.
    fn mark(&self, mark: impl FnOnce(&mut Trip, Time)) {
        if self.settings.mode == Mode::RoundTrip {
            self.report.change(|r| mark(&mut r.trip, self.io.now()));
        }
    }
}
