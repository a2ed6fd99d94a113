// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host program of the DMA engine: one driver for each function, all side by side, each with rings and buffers of its own.
//! Every byte is checked: those to the device there, those from it here.

use super::{BAR, DESCRIPTOR_BYTES, Direction, INTERRUPT, Interrupts, Report, Settings, Stream, register};
use crate::text;
use host::cpu::{Cpu, Either, join, select};
use host::firmware::FoundFunction;
use plug::{Model, Shared};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use tlp::Duration;

/// How often it looks where it waits for no interrupt.
const LOOK: Duration = Duration::from_us(1);

/// Runs the driver of each function, the physical one first; all begin when the last has set its rings up.
///
/// # Errors
/// A line that says what failed, and of which function.
pub async fn driver(
    cpu: Cpu,
    functions: Vec<FoundFunction>,
    load: Settings,
    report: Shared<Report>,
) -> Result<(), String> {
    load.check().map_err(|e| e.to_string())?;
    let mut open = Vec::with_capacity(functions.len());
    for (number, function) in functions.into_iter().enumerate() {
        let opened = Function::open(&cpu, number, function, load).await;
        open.push(opened.map_err(|e| format!("{function}: {e}"))?);
    }
    report.change(|r| r.start = Some(cpu.now()));
    let group = Group::default();
    let run = |f: Function| cpu.spawn(group.member(f.run(report.clone())));
    let running: Vec<_> = open.into_iter().map(run).collect();
    for task in running {
        task.await.map_err(|e| e.to_string())??;
    }
    Ok(())
}

/// Runs the driver of function `number` alone: 0 is the physical one, n + 1 virtual function n.
///
/// # Errors
/// As [`driver`].
pub async fn drive_one(
    cpu: Cpu,
    number: usize,
    function: FoundFunction,
    load: Settings,
    report: Shared<Report>,
) -> Result<(), String> {
    load.check().map_err(|e| e.to_string())?;
    let open = Function::open(&cpu, number, function, load).await.map_err(|e| format!("{function}: {e}"))?;
    open.run(report).await
}

/// Tasks that end when the group is dropped: a driver that is stopped leaves none behind.
#[derive(Default)]
struct Group {
    ended: Rc<Ended>,
}

#[derive(Default)]
struct Ended {
    is_over: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

impl Group {
    /// The result of `task`, or an error if the group has ended before it.
    fn member<T, F>(&self, task: F) -> impl Future<Output = F::Output> + use<T, F>
    where
        F: Future<Output = Result<T, String>>,
    {
        let ended = Rc::clone(&self.ended);
        async move {
            let mut waits = false;
            let over = poll_fn(|cx| {
                if ended.is_over.get() {
                    return Poll::Ready(());
                }
                // A task keeps its waker.
                if !std::mem::replace(&mut waits, true) {
                    ended.waiting.borrow_mut().push(cx.waker().clone());
                }
                Poll::Pending
            });
            match select(task, over).await {
                Either::Left(result) => result,
                Either::Right(()) => Err("stopped".to_owned()),
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.ended.is_over.set(true);
        self.ended.waiting.take().into_iter().for_each(Waker::wake);
    }
}

/// One function as its driver knows it.
struct Function {
    number: usize,
    function: FoundFunction,
    rings: [Ring; 2],
}

impl Function {
    async fn open(
        cpu: &Cpu,
        number: usize,
        function: FoundFunction,
        load: Settings,
    ) -> Result<Function, String> {
        let ring = |direction| {
            let transfers = if load.directions.have(direction) { load.transfers } else { 0 };
            Ring::new(cpu, number, function, direction, Settings { transfers, ..load })
        };
        let [h2d, d2h] = Direction::ALL.map(ring);
        let rings = [h2d?, d2h?];
        for ring in &rings {
            ring.set_up().await?;
        }
        Ok(Function { number, function, rings })
    }

    async fn run(self, report: Shared<Report>) -> Result<(), String> {
        let Function { number, function, rings: [mut h2d, mut d2h] } = self;
        let cpu = h2d.cpu.clone();
        let (sent, received) = join(h2d.run(), d2h.run()).await;
        sent.and(received).map_err(|e| format!("{function}: {e}"))?;
        report.change(|r| r.end(number, cpu.now()));
        Ok(())
    }
}

/// One ring, seen from the host.
struct Ring {
    cpu: Cpu,
    function: FoundFunction,
    direction: Direction,
    load: Settings,
    descriptors: u64,
    buffers: u64,
    done_at: u64,
    stream: Stream,
    seed: u64,
    posted: u32,
    done: u32,
}

impl Ring {
    /// `number` tells the streams of functions apart.
    fn new(
        cpu: &Cpu,
        number: usize,
        function: FoundFunction,
        direction: Direction,
        load: Settings,
    ) -> Result<Ring, String> {
        let alloc = |bytes| cpu.memory().alloc(bytes, 4096).map_err(text);
        let seed = (number as u64) << 48 | (direction.index() as u64) << 40;
        Ok(Ring {
            cpu: cpu.clone(),
            function,
            direction,
            load,
            descriptors: alloc(u64::from(load.ring_entries) * DESCRIPTOR_BYTES)?,
            buffers: alloc(u64::from(load.ring_entries) * u64::from(load.size_bytes))?,
            done_at: alloc(8)?,
            stream: Stream::new(seed),
            seed,
            posted: 0,
            done: 0,
        })
    }

    fn register(&self, offset: u64) -> Result<u64, String> {
        self.function.address(BAR, self.direction.register(offset))
    }

    async fn set_up(&self) -> Result<(), String> {
        self.cpu.memory().write(self.done_at, &[0; 8]).map_err(text)?;
        self.cpu.write_u64(self.register(register::RING)?, self.descriptors).await.map_err(text)?;
        self.cpu.write_u64(self.register(register::DONE_AT)?, self.done_at).await.map_err(text)?;
        self.cpu.write_u64(self.register(register::SEED)?, self.seed).await.map_err(text)?;
        let entries = self.register(register::ENTRIES)?;
        self.cpu.write_u32(entries, self.load.ring_entries).await.map_err(text)
    }

    /// Keeps the ring full until all transfers are done.
    async fn run(&mut self) -> Result<(), String> {
        while self.done < self.load.transfers {
            let before = self.posted;
            while self.posted < self.load.transfers && self.posted - self.done < self.load.ring_entries {
                self.post()?;
            }
            if self.posted != before {
                self.cpu.write_u32(self.register(register::POSTED)?, self.posted).await.map_err(text)?;
            }
            self.wait().await?;
            self.take_done()?;
        }
        Ok(())
    }

    /// Waits until something may be done.
    async fn wait(&self) -> Result<(), String> {
        if self.load.interrupts != Interrupts::Intx {
            self.cpu.interrupt(self.function.vector(self.direction.index() as u16)).await;
            return Ok(());
        }
        self.cpu.sleep(LOOK).await;
        let register = self.function.address(BAR, register::INTX)?;
        self.cpu.write_u32(register, 1 << self.direction.index()).await.map_err(text)
    }

    fn buffer(&self, transfer: u32) -> u64 {
        self.buffers + u64::from(transfer % self.load.ring_entries) * u64::from(self.load.size_bytes)
    }

    /// True if this transfer interrupts: the last one, and one in each half ring, so that one of them is always outstanding.
    fn interrupts(&self, transfer: u32) -> bool {
        let half = (self.load.ring_entries / 2).max(1);
        (transfer + 1).is_multiple_of(half) || transfer + 1 == self.load.transfers
    }

    fn post(&mut self) -> Result<(), String> {
        let (buffer, transfer) = (self.buffer(self.posted), self.posted);
        let memory = self.cpu.memory();
        // From the device comes what was not there before.
        let mut bytes = vec![0; self.load.size_bytes as usize];
        if self.direction == Direction::H2d {
            self.stream.fill(&mut bytes);
        }
        memory.write(buffer, &bytes).map_err(text)?;
        let flags = if self.interrupts(transfer) { INTERRUPT } else { 0 };
        let mut descriptor = [0; DESCRIPTOR_BYTES as usize];
        descriptor[..8].copy_from_slice(&buffer.to_le_bytes());
        descriptor[8..12].copy_from_slice(&self.load.size_bytes.to_le_bytes());
        descriptor[12..].copy_from_slice(&flags.to_le_bytes());
        let at = self.descriptors + u64::from(transfer % self.load.ring_entries) * DESCRIPTOR_BYTES;
        memory.write(at, &descriptor).map_err(text)?;
        self.posted += 1;
        Ok(())
    }

    /// Takes note of what the device has written back, and looks at the data that have come.
    fn take_done(&mut self) -> Result<(), String> {
        let written = self.cpu.memory().read_u64(self.done_at).map_err(text)?;
        let (done, failed) = (written as u32, (written >> 32) as u32);
        if failed > 0 {
            return Err(format!("{:?}: {failed} of {done} transfers failed", self.direction));
        }
        if done < self.done || done > self.posted {
            return Err(format!("{:?}: {done} of {} posted transfers done", self.direction, self.posted));
        }
        for transfer in self.done..done {
            self.check(transfer)?;
        }
        self.done = done;
        Ok(())
    }

    fn check(&mut self, transfer: u32) -> Result<(), String> {
        if self.direction == Direction::H2d {
            return Ok(());
        }
        let mut bytes = vec![0; self.load.size_bytes as usize];
        self.cpu.memory().read(self.buffer(transfer), &mut bytes).map_err(text)?;
        if self.stream.check(&bytes) {
            Ok(())
        } else {
            Err(format!("D2h: transfer {transfer} did not bring what was sent"))
        }
    }
}
