// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A NIC like IceNIC in the Chipyard study (2022, §6.2): it gets every address by a register write, and reports every
//! completion by a register read. Its cable is looped back. A bare-metal program drives it. It also has what the study
//! names as future work (§6.2, end): requests and completions in batches, and more outstanding reads.
//!
//! Registers, little-endian, in BAR 0. A request is a QW: address in bits 47:0, bytes in 63:48.
//!
//! ```text
//! +0x000  u64  send request      write: a frame to send
//! +0x008  u64  receive request   write: a buffer for a frame; its byte count is ignored
//! +0x010  u32  send completion   read: takes one, if there is one
//! +0x014  u32  receive completion  read: takes one and returns its bytes; 0 if there is none
//! +0x018  u64  counts            read: pending send completions in bits 31:0, receive completions in 63:32
//! +0x020  u64  take all          read: as counts, and takes all of them
//! +0x100  16 x u64  send requests      write: several requests; 0 is none
//! +0x180  16 x u64  receive requests   likewise
//! ```
//!
//! The device measures the time in which its send path has reads outstanding, the time in which its receive path
//! writes, and the time in which it does neither because it waits for control. It raises no interrupts. Frames are
//! counted, not carried.

mod driver;
mod meter;

pub use driver::driver;
pub use meter::IceNicReport;

use crate::queue::Queue;
use crate::{device_id, identity, registers_of};
use config::{Bar, Builder, PcieLayout};
use device::io::{ReadRequest, Request, WriteRequest};
use device::{AsyncDevice, BarIndex, DmaError, Io};
use endpoint::FunctionConfig;
use meter::{Meter, Path};
use plug::{Fault, FunctionRegisters, Model, Plugged, Shared, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::rc::Rc;
use tlp::{Duration, PayloadPool};

/// Maximum number of waiting requests, and of waiting completions. Further requests are rejected and counted.
pub const QUEUE_ENTRIES: usize = 64;
/// Maximum number of requests in one write.
pub const MAX_BATCH: u32 = 16;
/// Maximum frame size in bytes.
pub const MAX_FRAME_BYTES: u32 = 9216;
const BAR_BYTES: u64 = 4096;
/// Ethernet controller (PCI Code and ID Assignment Specification, §1.3).
const CLASS: u32 = 0x02_0000;
const BAR: BarIndex = BarIndex(0);

registers! {
    Some(BAR.0);
    SEND_REQUEST       0x000 8, "send request";
    RECEIVE_REQUEST    0x008 8, "receive request";
    SEND_COMPLETION    0x010 4, "send completion";
    RECEIVE_COMPLETION 0x014 4, "receive completion";
    COUNTS             0x018 8, "counts";
    TAKE_ALL           0x020 8, "take all";
    SEND_REQUESTS      0x100 8 * MAX_BATCH as u64, "send requests";
    RECEIVE_REQUESTS   0x180 8 * MAX_BATCH as u64, "receive requests";
}

/// How a program controls a NIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Control {
    /// A register write per request, and register reads per completion.
    #[default]
    Each,
    /// One write for all requests of a batch, and one read for all pending completions.
    Batched,
}

/// The NIC of the Chipyard study (2022) with its cable looped back, and its bare-metal program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Frames that the program sends and receives back.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub frames: u32,
    /// Size of each frame in host memory in bytes, without FCS.
    #[schemars(range(min = 1, max = 9216))]
    pub frame_bytes: u32,
    /// How the program passes requests and gets completions.
    pub control: Control,
    /// Frames posted together. The next batch follows when all completions have arrived.
    #[schemars(range(min = 1, max = 16))]
    pub batch: u32,
    /// Size of each read and write of host memory in bytes: a power of two.
    #[schemars(range(min = 8, max = 4096), extend("powerOfTwo" = true))]
    pub access_bytes: u32,
    /// Maximum number of outstanding reads.
    #[schemars(range(min = 1, max = 64))]
    pub outstanding: u16,
    /// Nanoseconds that a frame spends on the cable.
    #[serde(rename = "loopback_latency_ns", with = "plug::values::ns")]
    #[schemars(with = "u32", range(min = 0, max = 4_294_967_295_u32))]
    pub loopback_latency: Duration,
}

impl Default for Settings {
    /// Lines of 64 B, as in TileLink transfers.
    fn default() -> Settings {
        Settings {
            frames: 100,
            frame_bytes: 1500,
            control: Control::Each,
            batch: 1,
            access_bytes: 64,
            outstanding: 1,
            loopback_latency: Duration::ZERO,
        }
    }
}

impl Model for Settings {
    const NAME: &'static str = "ice-nic";
    const REGISTERS: &'static [FunctionRegisters] = &[registers_of(device_id::ICE_NIC, REGISTERS)];

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let (settings, report) = (*self, Shared::default());
        let function = function(settings, site.pcie, site.payloads, &report)?;
        Ok(Plugged::new(function, move |cpu, found| driver(cpu, found, settings)).reporting(&report))
    }
}

/// Creates the device and its configuration space for the link `pcie`.
///
/// # Errors
/// If a setting is invalid.
pub fn function(
    settings: Settings,
    pcie: PcieLayout,
    pool: &PayloadPool,
    report: &Shared<IceNicReport>,
) -> Result<FunctionConfig, Fault> {
    settings.check()?;
    let config = Builder::type0(identity(device_id::ICE_NIC, CLASS))
        .bar(BAR, Bar::memory32(BAR_BYTES))
        .pcie(pcie)
        .usual()
        .build()?;
    let report = report.clone();
    let start = move |io: Io| Nic::new(io, settings, report.clone()).run();
    Ok(FunctionConfig { config, device: Box::new(AsyncDevice::with_pool(pool.clone(), start)) })
}

/// Address and size of a frame in host memory.
#[derive(Clone, Copy)]
struct Frame {
    address: u64,
    bytes: u32,
}

impl Frame {
    /// Decodes a request register.
    fn of(request: u64) -> Frame {
        Frame { address: request & 0xffff_ffff_ffff, bytes: (request >> 48) as u32 }
    }

    fn request(self) -> u64 {
        self.address | u64::from(self.bytes) << 48
    }
}

struct Nic {
    io: Io,
    settings: Settings,
    meter: Meter,
    to_send: Queue<Frame>,
    buffers: Queue<Frame>,
    /// Sizes of frames that have come back, in bytes.
    arrived: Queue<u32>,
    sent: Queue<()>,
    received: Queue<u32>,
}

impl Nic {
    fn new(io: Io, settings: Settings, report: Shared<IceNicReport>) -> Rc<Nic> {
        Rc::new(Nic {
            io,
            settings,
            meter: Meter::new(report),
            to_send: Queue::new(QUEUE_ENTRIES),
            buffers: Queue::new(QUEUE_ENTRIES),
            arrived: Queue::new(QUEUE_ENTRIES),
            sent: Queue::new(QUEUE_ENTRIES),
            received: Queue::new(QUEUE_ENTRIES),
        })
    }

    async fn run(self: Rc<Nic>) {
        self.io.spawn(self.clone().sender());
        self.io.spawn(self.clone().receiver());
        while let Some(request) = self.io.next_request().await {
            match request {
                Request::Write(write) => self.write(&write),
                Request::Read(read) => self.read(read),
                _ => {}
            }
        }
    }

    fn write(&self, write: &WriteRequest) {
        let to = match write.offset() {
            register::SEND_REQUEST | register::SEND_REQUESTS => &self.to_send,
            register::RECEIVE_REQUEST | register::RECEIVE_REQUESTS => &self.buffers,
            _ => return self.meter.refuse(),
        };
        for qw in write.data().bytes().unwrap_or_default().chunks_exact(8) {
            let request = qw.first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
            let frame = Frame::of(request);
            let legal = frame.bytes <= MAX_FRAME_BYTES;
            if request != 0 && !(legal && to.push(frame)) {
                self.meter.refuse();
            }
        }
        self.meter.control(self.io.now());
    }

    fn read(&self, read: ReadRequest) {
        let counts = || self.sent.len() as u64 | (self.received.len() as u64) << 32;
        match read.offset() {
            register::SEND_COMPLETION => read.complete(u32::from(self.sent.try_pop().is_some())),
            register::RECEIVE_COMPLETION => read.complete(self.received.try_pop().unwrap_or(0)),
            register::COUNTS => read.complete(counts()),
            register::TAKE_ALL => {
                let counts = counts();
                while self.sent.try_pop().is_some() || self.received.try_pop().is_some() {}
                read.complete(counts);
            }
            _ => read.complete(0u64),
        }
        self.meter.control(self.io.now());
    }

    async fn sender(self: Rc<Nic>) {
        loop {
            let frame = self.to_send.pop().await;
            self.meter.begin(Path::Send, self.io.now());
            let fetched = self.clone().fetch(frame).await;
            self.meter.end(Path::Send, self.io.now());
            match fetched {
                Ok(()) => {
                    let kept = self.sent.push(());
                    self.meter.sent(kept);
                    self.io.spawn(self.clone().fly(frame.bytes));
                }
                Err(_) => self.meter.fail(),
            }
        }
    }

    /// Reads a frame with up to the maximum number of outstanding reads.
    async fn fetch(self: Rc<Nic>, frame: Frame) -> Result<(), DmaError> {
        let step = self.settings.access_bytes;
        let next = Rc::new(Cell::new(0));
        let workers = u32::from(self.settings.outstanding).min(frame.bytes.div_ceil(step));
        let worker = |_| self.io.spawn(self.clone().fetch_parts(frame, next.clone()));
        let workers: Vec<_> = (0..workers).map(worker).collect();
        for worker in workers {
            // A worker that could not start, because too many tasks run, leaves its work to the others.
            if let Ok(result) = worker.await {
                result?;
            }
        }
        if next.get() >= frame.bytes { Ok(()) } else { self.fetch_parts(frame, next).await }
    }

    async fn fetch_parts(self: Rc<Nic>, frame: Frame, next: Rc<Cell<u32>>) -> Result<(), DmaError> {
        while next.get() < frame.bytes {
            let at = next.get();
            let len = self.settings.access_bytes.min(frame.bytes - at);
            next.set(at + len);
            self.io.dma_read_counted(frame.address + u64::from(at), len).await?;
        }
        Ok(())
    }

    /// Moves a frame along the cable to the receive path.
    async fn fly(self: Rc<Nic>, bytes: u32) {
        self.io.sleep(self.settings.loopback_latency).await;
        if !self.arrived.push(bytes) {
            self.meter.fail();
        }
    }

    async fn receiver(self: Rc<Nic>) {
        loop {
            let bytes = self.arrived.pop().await;
            let buffer = self.buffers.pop().await;
            self.meter.begin(Path::Receive, self.io.now());
            let stored = self.store(buffer.address, bytes).await;
            self.meter.end(Path::Receive, self.io.now());
            match stored {
                Ok(()) => {
                    let kept = self.received.push(bytes);
                    self.meter.received(kept, bytes);
                }
                Err(_) => self.meter.fail(),
            }
        }
    }

    /// Writes a frame. A read of no bytes after the last access completes when all writes are done. TileLink
    /// acknowledges writes, and IceNIC waits for the acknowledgement.
    async fn store(&self, address: u64, bytes: u32) -> Result<(), DmaError> {
        let step = self.settings.access_bytes;
        for at in (0..bytes).step_by(step as usize) {
            self.io.dma_write_counted(address + u64::from(at), step.min(bytes - at)).await?;
        }
        self.io.dma_read_counted(address, 0).await
    }
}
