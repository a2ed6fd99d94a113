// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The driver of the packet NICs. It posts descriptors as fast as the device finishes them, or sends one frame at a
//! time and waits for it. It never accesses frames: their processing and the CPU time of instructions are not modelled,
//! but register accesses are.

use super::settings::{Batches, Kind, Mode, RING_ENTRIES, Send, Settings};
use super::{BAR, DESCRIPTOR_BYTES, FAULT_VECTOR, PacketNicReport, RX_VECTOR, TX_VECTOR, Trip, register};
use crate::queue::Queue;
use host::DriverError;
use host::cpu::{Cpu, Either, select};
use host::firmware::FoundFunction;
use plug::Shared;
use plug::transfers::{EndedTransfer, Transfers};
use std::cell::Cell;
use std::rc::Rc;
use tlp::Duration;

/// Size of a write-combining buffer in bytes: a cache line.
const PIO_BYTES: u32 = 64;
/// Pause between two round trips, so that no work of the previous one is left.
const PAUSE: Duration = Duration::from_us(10);

/// Runs the workload of `settings`, which are those of the device. Each round trip is a transfer of `results`.
///
/// # Errors
/// The operation that failed.
pub async fn driver(
    cpu: Cpu,
    function: FoundFunction,
    settings: Settings,
    report: Shared<PacketNicReport>,
    results: Shared<Transfers>,
) -> Result<(), DriverError> {
    let at_function = |e: DriverError| e.at(function);
    results.change(|results| results.start(cpu.now()));
    let work = async {
        match settings.mode {
            Mode::Throughput => throughput(&cpu, &function, &settings).await,
            Mode::RoundTrip => round_trips(&cpu, &function, &settings, &report, &results).await,
        }
    };
    match select(work, cpu.interrupt(function.vector(FAULT_VECTOR))).await {
        Either::Left(result) => result.map_err(at_function),
        Either::Right(()) => Err(at_function("a transfer failed".into())),
    }
}

async fn throughput(cpu: &Cpu, function: &FoundFunction, settings: &Settings) -> Result<(), DriverError> {
    let (traffic, mut running) = (settings.traffic, Vec::new());
    // Posts buffers first, because sent frames may come back.
    if traffic.receives() {
        running.push(Side::open(cpu, function, settings, &RX).await?);
    }
    if traffic.sends() {
        running.push(Side::open(cpu, function, settings, &TX).await?);
    }
    let tasks: Vec<_> = running.into_iter().map(|side| cpu.spawn(side.run())).collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

/// Differences between the two directions.
struct Names {
    ring: u64,
    tail: u64,
    head: u64,
    vector: u16,
    write_back: fn(&Batches) -> u32,
}

const TX: Names = Names {
    ring: register::TX_RING,
    tail: register::TX_TAIL,
    head: register::TX_HEAD,
    vector: TX_VECTOR,
    write_back: |batches| batches.tx_write_back,
};

const RX: Names = Names {
    ring: register::RX_RING,
    tail: register::RX_TAIL,
    head: register::RX_HEAD,
    vector: RX_VECTOR,
    write_back: |batches| batches.rx_write_back,
};

/// The driver's side of one ring.
struct Side {
    cpu: Cpu,
    settings: Settings,
    batches: Batches,
    ring: u64,
    buffers: u64,
    tail_register: u64,
    head_register: u64,
    vector: u16,
    write_back: u32,
    total: u32,
    posted: Cell<u32>,
    done: Cell<u32>,
    /// Frames of the handled interrupts.
    heard: Cell<u32>,
    /// Gets an item when all frames are done and all interrupts handled.
    end: Queue<()>,
}

impl Side {
    async fn open(
        cpu: &Cpu,
        function: &FoundFunction,
        settings: &Settings,
        names: &Names,
    ) -> Result<Rc<Side>, DriverError> {
        let memory = cpu.memory();
        let alloc = |bytes: u64| settings.memory.alloc(memory, bytes, 4096);
        let ring = alloc(u64::from(RING_ENTRIES) * DESCRIPTOR_BYTES)?;
        let batches = settings.batches();
        let side = Side {
            cpu: cpu.clone(),
            settings: *settings,
            batches,
            ring,
            buffers: alloc(u64::from(RING_ENTRIES) * settings.buffer_bytes())?,
            tail_register: function.address(BAR, names.tail)?,
            head_register: function.address(BAR, names.head)?,
            vector: function.vector(names.vector),
            write_back: (names.write_back)(&batches),
            total: settings.total(),
            posted: Cell::new(0),
            done: Cell::new(0),
            heard: Cell::new(0),
            end: Queue::new(1),
        };
        cpu.write_u64(function.address(BAR, names.ring)?, ring).await?;
        Ok(Rc::new(side))
    }

    /// Posts descriptors and handles finished ones until all frames are done.
    async fn run(self: Rc<Side>) -> Result<(), DriverError> {
        self.post().await?;
        if self.batches.interrupt == 0 {
            return self.watch().await;
        }
        // Tasks that still wait for an interrupt at the end keep waiting until the program ends.
        for _ in 0..self.settings.workers {
            self.cpu.spawn(self.clone().work());
        }
        self.end.pop().await;
        Ok(())
    }

    /// Posts whole batches while there is room.
    async fn post(&self) -> Result<(), DriverError> {
        let batch = self.batches.post;
        while self.posted.get() < self.total && self.posted.get() - self.done.get() + batch <= RING_ENTRIES {
            let first = self.posted.get();
            (first..first + batch).try_for_each(|number| self.describe(number))?;
            self.posted.set(first + batch);
            self.cpu.write_u32(self.tail_register, first + batch).await?;
        }
        Ok(())
    }

    fn at(&self, number: u32) -> u64 {
        self.ring + DESCRIPTOR_BYTES * u64::from(number % RING_ENTRIES)
    }

    /// Writes descriptor `number`, marked not done.
    fn describe(&self, number: u32) -> Result<(), DriverError> {
        let place = u64::from(number % RING_ENTRIES);
        let memory = self.cpu.memory();
        memory.write_u64(self.at(number), self.buffers + place * self.settings.buffer_bytes())?;
        Ok(memory.write_u64(self.at(number) + 8, self.settings.frame_bytes.into())?)
    }

    /// Returns whether the device has written descriptor `number` back.
    fn is_done(&self, number: u32) -> Result<bool, DriverError> {
        Ok(self.cpu.memory().read_u32(self.at(number) + 12)? != 0)
    }

    /// For each interrupt: reads the head and posts free descriptors.
    async fn work(self: Rc<Side>) -> Result<(), DriverError> {
        loop {
            self.cpu.interrupt(self.vector).await;
            let head = self.cpu.read_u32(self.head_register).await?;
            // Another task may have read a later head.
            self.done.set(self.done.get().max(head));
            self.post().await?;
            self.heard.set(self.heard.get() + self.batches.interrupt);
            if self.heard.get() == self.total {
                self.end.put(());
            }
        }
    }

    /// Polls the last descriptor of each batch in memory.
    async fn watch(&self) -> Result<(), DriverError> {
        while self.done.get() < self.total {
            let next = self.done.get() + self.write_back;
            if self.is_done(next - 1)? {
                self.done.set(next);
                self.post().await?;
            } else {
                self.cpu.sleep(self.settings.poll).await;
            }
        }
        Ok(())
    }

    /// Waits until the program notices that frame `number` is done, by the method of this kind of driver. If it polls
    /// memory, it notices when the write of the descriptor is visible: after root complex and memory.
    async fn wait(&self, number: u32) -> Result<(), DriverError> {
        if self.batches.interrupt == 0 {
            while !self.is_done(number)? {
                self.cpu.sleep(self.settings.poll).await;
            }
            self.cpu.sleep_until(self.cpu.memory().visible_at()).await;
        } else {
            self.cpu.interrupt(self.vector).await;
            self.cpu.read_u32(self.head_register).await?;
        }
        self.done.set(number + 1);
        Ok(())
    }

    /// Posts one descriptor.
    async fn post_one(&self) -> Result<(), DriverError> {
        let number = self.posted.get();
        self.describe(number)?;
        self.posted.set(number + 1);
        Ok(self.cpu.write_u32(self.tail_register, number + 1).await?)
    }
}

/// Sends one frame after another. The interrupt for a sent frame is ignored: it overlaps with the frame.
async fn round_trips(
    cpu: &Cpu,
    function: &FoundFunction,
    settings: &Settings,
    report: &Shared<PacketNicReport>,
    results: &Shared<Transfers>,
) -> Result<(), DriverError> {
    let rx = Side::open(cpu, function, settings, &RX).await?;
    let tx = Side::open(cpu, function, settings, &TX).await?;
    for number in 0..settings.warm_up + settings.frames {
        rx.post_one().await?;
        cpu.sleep(PAUSE).await;
        report.change(|r| r.trip.begun = cpu.now());
        match settings.send {
            Send::Ring => tx.post_one().await?,
            Send::Pio => write_frame(cpu, function, settings.frame_bytes).await?,
        }
        rx.wait(number).await?;
        report.change(|r| {
            r.trip.noticed = cpu.now();
            if number >= settings.warm_up {
                let trip = r.trip;
                r.trips.push(trip);
            }
        });
        let trip = report.get().trip;
        results.change(|r| r.end(trip.noticed, ended(&trip, settings.frame_bytes)));
        if settings.kind == Kind::Simple {
            cpu.forget_interrupts(tx.vector);
        }
    }
    Ok(())
}

fn ended(trip: &Trip, bytes: u32) -> EndedTransfer {
    let (latency_ps, outside_ps) = (trip.total().as_ps(), trip.network().as_ps());
    EndedTransfer { latency_ps, outside_ps, bytes_read: bytes, bytes_written: bytes }
}

/// Writes a frame into the device line by line, then its length.
async fn write_frame(cpu: &Cpu, function: &FoundFunction, bytes: u32) -> Result<(), DriverError> {
    let window = function.address(BAR, register::WINDOW)?;
    for at in (0..bytes).step_by(PIO_BYTES as usize) {
        let piece = cpu.payloads().fill(PIO_BYTES.min(bytes - at) as usize, |line| line.fill(0));
        cpu.write(window + u64::from(at), piece).await?;
    }
    Ok(cpu.write_u32(function.address(BAR, register::PIO_BYTES)?, bytes).await?)
}
