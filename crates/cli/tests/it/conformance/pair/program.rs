// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host program: one driver per function, all in parallel, which do the random operations and record the results.

use super::engine::{Engine, Memory, status_codes};
use super::plan::{HELD_US, Kill, Kind, Lot, Round, Work};
use super::watch::{self, Seen};
use devices::dma_engine::registers as r;
use host::Cpu;
use host::firmware::FoundFunction;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use tlp::Duration;

/// Initiate Function Level Reset, in Device Control (`PCIe 5.0 §7.5.3.4`).
const FLR: u32 = 0x8000;
/// Bus Master Enable and Memory Space Enable.
const MASTER: u32 = 0b110;
/// DW of the MSI-X capability in which the engine's table is.
const MSIX: u32 = 0x11;
/// Time after the last end in which late requests may come, after requests of other engines.
const QUIET: Duration = Duration::from_us(6);

/// Results of one round of one engine.
pub(crate) struct Noted {
    pub(crate) kind: Kind,
    pub(crate) work: Work,
    /// Requests of the engine.
    pub(crate) seen: Vec<Seen>,
    /// Registers, descriptors and memory after the round.
    pub(crate) said: Vec<String>,
    /// Data of descriptors that failed.
    pub(crate) failed: Vec<Range<u64>>,
    /// Time from the first doorbell until software has seen the last end.
    pub(crate) took: Duration,
}

/// Rounds by engine, engines of the physical function first.
pub(crate) type Notes = Vec<Vec<Noted>>;

thread_local! {
    pub(crate) static NOTES: RefCell<Notes> = RefCell::default();
    /// Number of descriptors, doorbells, and other operations.
    pub(crate) static DONE: RefCell<u64> = RefCell::default();
}

/// Counts operations.
pub(crate) fn count(operations: u64) {
    DONE.with_borrow_mut(|done| *done += operations);
}

/// Runs the sequence of this seed on all functions for this many rounds.
pub(crate) async fn run(cpu: Cpu, found: Vec<FoundFunction>, seed: u64, rounds: u32) -> Result<(), String> {
    watch::forget();
    DONE.set(0);
    NOTES.with_borrow_mut(|notes| {
        notes.clear();
        notes.resize_with(2 * found.len(), Vec::new);
    });
    let mut running = Vec::new();
    for (number, function) in found.into_iter().enumerate() {
        let function = Function::new(&cpu, number, function).await?;
        let lot = Lot::new(seed << 16 | number as u64);
        running.push(cpu.spawn(async move { function.run(lot, rounds).await }));
    }
    for task in running {
        task.await.map_err(|e| e.to_string())?.map_err(|e| format!("seed {seed}: {e}"))?;
    }
    Ok(())
}

struct Function {
    cpu: Cpu,
    number: usize,
    found: FoundFunction,
    msix: u16,
    memories: [Memory; 2],
    device_entries: u32,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Function {
    async fn new(cpu: &Cpu, number: usize, found: FoundFunction) -> Result<Function, String> {
        let mut memories = Vec::new();
        for engine in 0..2 {
            let memory = Memory::new(cpu, 2 * number + engine)?;
            watch::vector(2 * number + engine, found.vector(engine as u16));
            memories.push(memory);
        }
        let engines = cpu.read_u32(found.address(0, r::ENGINES)?).await.map_err(text)?;
        let mut msix = cpu.config_read(found.bdf, 13).await.map_err(text)? as u16 & 0xfc;
        // This capability, if present, is the last of the list.
        while cpu.config_read(found.bdf, msix / 4).await.map_err(text)? & 0xff != MSIX {
            msix = (cpu.config_read(found.bdf, msix / 4).await.map_err(text)? >> 8) as u16 & 0xfc;
        }
        let memories = memories.try_into().map_err(|_| "two engines".to_owned())?;
        let device_entries = engines >> 16;
        Ok(Function { cpu: cpu.clone(), number, found, msix: msix / 4, memories, device_entries })
    }

    async fn run(self, mut lot: Lot, rounds: u32) -> Result<(), String> {
        let this = Rc::new(self);
        for n in 0..rounds {
            // The model's device has more entries.
            let round = Round::draw(&mut lot, this.number > 0, 8);
            let ended = this.round(&mut lot, &round).await;
            ended.map_err(|e| format!("function {}, round {n}: {e}\n{round:?}", this.number))?;
        }
        Ok(())
    }

    async fn round(self: &Rc<Self>, lot: &mut Lot, round: &Round) -> Result<(), String> {
        for memory in &self.memories {
            memory.clear(lot)?;
            watch::take(memory.who);
            self.cpu.forget_interrupts(self.found.vector(memory.who as u16 & 1));
        }
        if round.masked {
            self.mask(1).await?;
        }
        if round.kind == Kind::NoMaster {
            self.command(0b010).await?;
        }
        let mut engines = Vec::new();
        // In a loop-back, the reading engine starts before the writing one.
        for number in [1, 0] {
            let Some(work) = &round.work[number] else { continue };
            let mut engine = self.engine(number, work);
            engine.set_up(round.kind).await?;
            engines.push(engine);
        }
        let (patient, since) = (!matches!(round.kind, Kind::Killed(_)), self.cpu.now());
        let run = |mut engine: Engine| {
            let kind = round.kind;
            self.cpu.spawn(async move {
                engine.run(kind, patient).await?;
                Ok::<_, String>(engine)
            })
        };
        let running: Vec<_> = engines.into_iter().map(run).collect();
        let mut engines = Vec::new();
        for task in running {
            engines.push(task.await.map_err(text)??);
        }
        if let Kind::Killed(kill) = round.kind {
            self.cpu.sleep_until(since + Duration::from_ns(round.kill_after)).await;
            self.kill(kill, &mut engines).await?;
        }
        let held = engines.iter().any(|engine| engine.work.coalesce.1 > 0);
        self.cpu.sleep(if held { Duration::from_us(u64::from(HELD_US) + 2) } else { QUIET }).await;
        let pending = self.pending().await?;
        if round.masked {
            self.mask(0).await?;
            self.cpu.sleep(QUIET).await;
        }
        if round.kind == Kind::NoMaster {
            self.command(MASTER).await?;
        }
        for engine in engines {
            self.note(round, engine, pending).await?;
        }
        Ok(())
    }

    fn engine(&self, number: usize, work: &Work) -> Engine {
        Engine {
            cpu: self.cpu.clone(),
            found: self.found,
            number: number as u64,
            memory: self.memories[number].clone(),
            device_entries: self.device_entries,
            work: work.clone(),
            posted: 0,
            took: Duration::from_ps(0),
        }
    }

    async fn note(&self, round: &Round, engine: Engine, pending: u32) -> Result<(), String> {
        let mut said = Vec::new();
        let failed = engine.failed();
        let killed = matches!(round.kind, Kind::Killed(_));
        let forgotten = matches!(round.kind, Kind::Killed(Kill::Reset | Kill::FunctionLevelReset));
        if !killed {
            // The progress at an interruption depends on timing.
            said.push(format!("pending {pending:x}"));
        }
        if !killed || forgotten {
            said.extend(engine.registers().await?);
        }
        if !forgotten {
            let statuses = engine.statuses().await?;
            said.push(match killed {
                true => status_codes(&statuses)?,
                false => format!("{statuses:?}, memory {:016x}", engine.memory.sum()?),
            });
        }
        let seen = watch::take(engine.memory.who);
        let (kind, took, who) = (round.kind, engine.took, engine.memory.who);
        let noted = Noted { kind, work: engine.work, seen, said, failed, took };
        NOTES.with_borrow_mut(|notes| notes[who].push(noted));
        Ok(())
    }

    async fn command(&self, bits: u32) -> Result<(), String> {
        count(1);
        self.cpu.config_write(self.found.bdf, 1, 0b0011, bits).await.map_err(text)
    }

    /// Masks or unmasks both vectors.
    async fn mask(&self, bit: u32) -> Result<(), String> {
        count(2);
        for vector in 0..2 {
            let at = self.found.address(0, r::MSIX_TABLE + 16 * vector + 12)?;
            self.cpu.write_u32(at, bit).await.map_err(text)?;
        }
        Ok(())
    }

    async fn pending(&self) -> Result<u32, String> {
        self.cpu.read_u32(self.found.address(0, r::MSIX_PENDING)?).await.map_err(text)
    }

    // ---- interruptions ----

    async fn kill(&self, kill: Kill, engines: &mut [Engine]) -> Result<(), String> {
        count(1);
        match kill {
            Kill::Abort | Kill::Disable => {
                for engine in &mut *engines {
                    engine.stop(kill == Kill::Abort).await?;
                }
                for engine in engines {
                    engine.wait(Kind::Apart, engine.posted).await?;
                }
            }
            Kill::Reset => {
                let control = self.found.address(0, r::CONTROL)?;
                self.cpu.write_u32(control, r::control::RESET).await.map_err(text)?;
                self.cpu.sleep(Duration::from_us(5)).await;
            }
            Kill::FunctionLevelReset => self.reset().await?,
        }
        Ok(())
    }

    async fn reset(&self) -> Result<(), String> {
        let mut table = Vec::new();
        for n in 0..8 {
            let at = self.found.address(0, r::MSIX_TABLE + 4 * n)?;
            table.push((at, self.cpu.read_u32(at).await.map_err(text)?));
        }
        let control = self.found.pcie.ok_or("no PCI Express capability")? + 2;
        let id = self.found.bdf;
        let before = self.cpu.config_read(id, control).await.map_err(text)?;
        self.cpu.config_write(id, control, 0b0011, before & 0xffff | FLR).await.map_err(text)?;
        // By then, outstanding requests have been answered.
        self.cpu.sleep(Duration::from_us(10)).await;
        self.cpu.config_write(id, control, 0b0011, before & 0x7fff).await.map_err(text)?;
        self.cpu.config_write(id, 1, 0b0011, MASTER).await.map_err(text)?;
        for (at, dw) in table {
            self.cpu.write_u32(at, dw).await.map_err(text)?;
        }
        self.cpu.config_write(id, self.msix, 0b1100, 1 << 31).await.map_err(text)
    }
}
