// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host program of the DMA engine: one driver per function, all in parallel, each with its own rings and buffers. Every
//! byte is checked: the device checks data that it receives, this driver data that it sends.

use super::registers::{self as r, descriptor as d, engine as register};
use super::{
    BAR, Completion, DESCRIPTOR_BYTES, Direction, EngineReport, Interrupts, RingOf, Settings, Stream,
    UserLogic,
};
use crate::group::Group;
use config::register::{get, put};
use host::DriverError;
use host::cpu::Cpu;
use host::firmware::BarError;
use host::firmware::FoundFunction;
use plug::{Model, Shared};
use std::rc::Rc;
use tlp::Duration;

/// Polling interval with INTx, which the driver does not wait for.
const LOOK_FOR_INTX: Duration = Duration::from_us(1);
/// Polling interval of the write-back.
const LOOK: Duration = Duration::from_ns(100);

/// Runs the driver of each function, the physical one first. All start after the last has set up its rings.
///
/// # Errors
/// The operation that failed, and its function.
pub async fn driver(
    cpu: Cpu,
    functions: Vec<FoundFunction>,
    load: Settings,
    report: Shared<EngineReport>,
) -> Result<(), DriverError> {
    load.check().map_err(|e| e.to_string())?;
    let load = Rc::new(load);
    let mut open = Vec::with_capacity(functions.len());
    for (number, function) in functions.into_iter().enumerate() {
        if number == 0 {
            set_weights(&cpu, &function, &load).await?;
        }
        if !load.drive.has(number) {
            continue;
        }
        let opened = Function::open(&cpu, number, function, &load).await;
        open.push(opened.map_err(|e| e.at(function))?);
    }
    report.change(|r| r.start = Some(cpu.now()));
    let group = Group::default();
    let run = |f: Function| cpu.spawn(group.member(f.run(report.clone())));
    let running: Vec<_> = open.into_iter().map(run).collect();
    for task in running {
        task.await?.unwrap_or(Ok(()))?;
    }
    Ok(())
}

/// Runs only the driver of function `number`: 0 is the physical function, n + 1 virtual function n.
///
/// # Errors
/// As [`driver`].
pub async fn drive_one(
    cpu: Cpu,
    number: usize,
    function: FoundFunction,
    load: Settings,
    report: Shared<EngineReport>,
) -> Result<(), DriverError> {
    load.check().map_err(|e| e.to_string())?;
    let open = Function::open(&cpu, number, function, &Rc::new(load)).await;
    open.map_err(|e| e.at(function))?.run(report).await
}

/// Sets the weights of all functions, at the physical one.
async fn set_weights(cpu: &Cpu, physical: &FoundFunction, load: &Settings) -> Result<(), DriverError> {
    for (function, weight) in (0u64..).zip(&load.weights) {
        let at = function.checked_sub(1).map_or(r::WEIGHT, |vf| r::VF_WEIGHTS + 4 * vf);
        cpu.write_u32(physical.address(BAR, at)?, (*weight).into()).await?;
    }
    Ok(())
}

/// Returns the number of descriptors of each engine in the device's memory.
///
/// # Errors
/// They are fewer than the ring has.
async fn device_entries(cpu: &Cpu, function: &FoundFunction, load: &Settings) -> Result<u32, DriverError> {
    let engines = cpu.read_u32(function.address(BAR, r::ENGINES)?).await?;
    let there = get(engines, r::engines::DEVICE_ENTRIES);
    match load.ring_entries {
        wanted if wanted <= there => Ok(there),
        wanted => Err(format!("ring_entries {wanted}: the device has {there} descriptors per engine").into()),
    }
}

/// One function from its driver's view.
struct Function {
    number: usize,
    function: FoundFunction,
    engines: Vec<Engine>,
}

impl Function {
    async fn open(
        cpu: &Cpu,
        number: usize,
        function: FoundFunction,
        load: &Rc<Settings>,
    ) -> Result<Function, DriverError> {
        let id = cpu.read_u32(function.address(BAR, r::ID)?).await?;
        if id != r::ID_VALUE {
            return Err(format!("not a DMA engine: its ID register is {id:#010x}").into());
        }
        let device_entries = match load.ring {
            RingOf::Host => 0,
            RingOf::Device => device_entries(cpu, &function, load).await?,
        };
        let mut engines = Vec::new();
        for engine in 0..load.engines() {
            let engine = Engine { device_entries, ..Engine::new(cpu, number, engine, function, load)? };
            engine.set_up().await?;
            engines.push(engine);
        }
        Ok(Function { number, function, engines })
    }

    async fn run(self, report: Shared<EngineReport>) -> Result<(), DriverError> {
        let Function { number, function, engines } = self;
        let Some(cpu) = engines.first().map(|engine| engine.cpu.clone()) else { return Ok(()) };
        let group = Group::default();
        let run = |mut engine: Engine| cpu.spawn(group.member(async move { engine.run().await }));
        let running: Vec<_> = engines.into_iter().map(run).collect();
        for task in running {
            let ended = task.await?.unwrap_or(Ok(()));
            ended.map_err(|e| e.at(function))?;
        }
        report.change(|r| r.end(number, cpu.now()));
        Ok(())
    }
}

/// One engine from the host's view.
struct Engine {
    cpu: Cpu,
    function: FoundFunction,
    number: usize,
    direction: Direction,
    load: Rc<Settings>,
    /// Number of its transfers.
    transfers: u32,
    /// Address of the ring in host memory.
    ring: u64,
    /// Descriptors of each engine in the device's memory, for a ring there.
    device_entries: u32,
    buffers: u64,
    write_back: u64,
    stream: Stream,
    seed: u64,
    /// Numbers of posted and finished transfers.
    posted: u32,
    done: u32,
}

impl Engine {
    /// Creates an engine. `number` distinguishes the streams of functions.
    fn new(
        cpu: &Cpu,
        number: usize,
        engine: usize,
        function: FoundFunction,
        load: &Rc<Settings>,
    ) -> Result<Engine, DriverError> {
        let alloc = |bytes| cpu.memory().alloc(bytes, 4096);
        let direction = load.direction(engine);
        // In a loop-back, the data come from the engine with the same number in the other direction.
        let stream = match (load.logic, direction) {
            (UserLogic::LoopBack, Direction::D2h) => engine - usize::from(load.h2d_engines),
            _ => engine,
        };
        let seed = (number as u64) << 48 | (stream as u64) << 40;
        Ok(Engine {
            cpu: cpu.clone(),
            function,
            number: engine,
            direction,
            transfers: if load.directions.have(direction) { load.transfers } else { 0 },
            ring: match load.ring {
                RingOf::Host => alloc(u64::from(load.ring_entries) * DESCRIPTOR_BYTES)?,
                RingOf::Device => 0,
            },
            device_entries: 0,
            buffers: alloc(u64::from(load.buffers()) * load.buffer_bytes())?,
            write_back: alloc(8)?,
            stream: Stream::new(seed),
            seed,
            load: Rc::clone(load),
            posted: 0,
            done: 0,
        })
    }

    fn register(&self, offset: u64) -> Result<u64, BarError> {
        self.function.address(BAR, r::ENGINE + self.number as u64 * r::ENGINE_STRIDE + offset)
    }

    async fn write_u32(&self, offset: u64, value: u32) -> Result<(), DriverError> {
        Ok(self.cpu.write_u32(self.register(offset)?, value).await?)
    }

    async fn write_u64(&self, offset: u64, value: u64) -> Result<(), DriverError> {
        Ok(self.cpu.write_u64(self.register(offset)?, value).await?)
    }

    async fn set_up(&self) -> Result<(), DriverError> {
        let Settings { ring, ring_entries, coalesce_count, coalesce_us, logic, .. } = *self.load;
        self.cpu.memory().write(self.write_back, &[0; 8])?;
        let host_ring = if ring == RingOf::Host { register::control::HOST_RING } else { 0 };
        if ring == RingOf::Host {
            self.write_u64(register::RING, self.ring).await?;
        }
        self.write_u64(register::WRITE_BACK, self.write_back).await?;
        self.write_u64(register::SEED, self.seed).await?;
        self.write_u32(register::ENTRIES, ring_entries).await?;
        let coalescing = put(register::coalescing::COUNT, coalesce_count.into())
            | put(register::coalescing::TIME_US, coalesce_us.into());
        self.write_u32(register::COALESCING, coalescing).await?;
        let control = register::control::ENABLE | host_ring;
        self.write_u32(register::CONTROL, control | put(register::control::LOGIC, logic as u32)).await
    }

    /// Keeps the ring full until all transfers are done.
    async fn run(&mut self) -> Result<(), DriverError> {
        let pieces = self.load.pieces();
        while self.done < self.transfers {
            let before = self.posted;
            while self.posted < self.transfers && self.posted - self.done < self.load.buffers() {
                self.post().await?;
            }
            if self.posted != before {
                self.write_u32(register::POSTED, self.posted.wrapping_mul(pieces)).await?;
            }
            self.wait().await?;
            self.take_done()?;
        }
        Ok(())
    }

    /// Waits until there may be work.
    async fn wait(&self) -> Result<(), DriverError> {
        if self.load.completion == Completion::Poll {
            self.cpu.sleep(LOOK).await;
            return Ok(());
        }
        if self.load.interrupts != Interrupts::Intx {
            self.cpu.interrupt(self.function.vector(self.number as u16)).await;
            return Ok(());
        }
        self.cpu.sleep(LOOK_FOR_INTX).await;
        let register = self.function.address(BAR, r::INTERRUPTS)?;
        Ok(self.cpu.write_u32(register, 1 << self.number).await?)
    }

    /// Returns address and size of each piece of a transfer, in data order. The pieces are in descending order in memory.
    fn pieces(&self, transfer: u32) -> impl Iterator<Item = (u64, u32)> + use<> {
        let Settings { size_bytes, page_bytes, .. } = *self.load;
        let (page, count) = (if page_bytes == 0 { size_bytes } else { page_bytes }, self.load.pieces());
        let buffer = self.buffers + u64::from(transfer % self.load.buffers()) * self.load.buffer_bytes();
        (0..count).map(move |n| {
            let at = buffer + u64::from(count - 1 - n) * u64::from(page);
            (at, page.min(size_bytes - n * page))
        })
    }

    /// Returns whether this transfer interrupts. Without coalescing, these are the last transfer, and one in each half of the
    /// transfers that may be in flight, so that an interrupting one is always outstanding.
    fn interrupts(&self, transfer: u32) -> bool {
        let half = (self.load.buffers() / 2).max(1);
        let always = self.load.coalesce_count > 1;
        always || (transfer + 1).is_multiple_of(half) || transfer + 1 == self.transfers
    }

    async fn post(&mut self) -> Result<(), DriverError> {
        if self.load.set_up_ns > 0 {
            self.cpu.sleep(Duration::from_ns(self.load.set_up_ns.into())).await;
        }
        let (transfer, count) = (self.posted, self.load.pieces());
        for (n, (at, bytes)) in (0..).zip(self.pieces(transfer)) {
            if self.load.logic != UserLogic::Plain {
                // Clears the buffer, so that old data cannot be taken for new data.
                let mut data = vec![0; bytes as usize];
                if self.direction == Direction::H2d {
                    self.stream.fill(&mut data);
                }
                self.cpu.memory().write(at, &data)?;
            }
            let is_last = n + 1 == count;
            let interrupt = if is_last && self.interrupts(transfer) { d::flags::INTERRUPT } else { 0 };
            let flags = interrupt | if is_last { 0 } else { d::flags::MORE };
            self.write_descriptor(transfer.wrapping_mul(count).wrapping_add(n), at, bytes, flags).await?;
        }
        self.posted += 1;
        Ok(())
    }

    async fn write_descriptor(&self, index: u32, at: u64, bytes: u32, flags: u32) -> Result<(), DriverError> {
        let place = u64::from(index & (self.load.ring_entries - 1));
        let words = [at, bytes.into(), flags.into()];
        if self.load.ring == RingOf::Host {
            let at = self.ring + place * DESCRIPTOR_BYTES;
            return Ok(self.cpu.memory().write(at, words.map(u64::to_le_bytes).as_flattened())?);
        }
        let first = u64::from(self.device_entries) * self.number as u64;
        let at = self.function.address(BAR, r::DESCRIPTOR + (first + place) * r::DESCRIPTOR_STRIDE)?;
        for (n, word) in (0..).zip(words) {
            self.cpu.write_u64(at + 8 * n, word).await?;
        }
        Ok(())
    }

    /// Handles the write-back, and checks received data.
    fn take_done(&mut self) -> Result<(), DriverError> {
        let written = self.cpu.memory().read_u64(self.write_back)?;
        let (descriptors, failed) = (written as u32, (written >> 32) as u32);
        let (direction, done) = (self.direction, descriptors / self.load.pieces());
        if failed > 0 {
            return Err(format!("{direction:?}: {failed} of {descriptors} descriptors failed").into());
        }
        if done < self.done || done > self.posted {
            return Err(format!("{direction:?}: {done} of {} posted transfers done", self.posted).into());
        }
        for transfer in self.done..done {
            self.check(transfer)?;
        }
        self.done = done;
        Ok(())
    }

    fn check(&mut self, transfer: u32) -> Result<(), DriverError> {
        if self.direction == Direction::H2d || self.load.logic == UserLogic::Plain {
            return Ok(());
        }
        for (at, bytes) in self.pieces(transfer) {
            let mut data = vec![0; bytes as usize];
            self.cpu.memory().read(at, &mut data)?;
            if !self.stream.check(&data) {
                return Err(format!("D2h: transfer {transfer} delivered wrong data").into());
            }
        }
        Ok(())
    }
}
