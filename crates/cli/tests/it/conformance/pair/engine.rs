// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One engine of a function, as the host program controls it, and its memory.

use super::plan::{ARENA, Descriptor, Kind, Lot, MARGIN, MOST_ENTRIES, RingFault, Work};
use super::program::count;
use super::watch::{self, Place};
use devices::dma_engine::registers::{self as r, ErrorCode as E, LogicKind, descriptor as d, engine};
use devices::dma_engine::{DESCRIPTOR_BYTES, Stream};
use host::Cpu;
use host::firmware::FoundFunction;
use std::ops::Range;
use tlp::Duration;

/// Address beyond the memory of all labs. Each engine has its own offset to it.
const NOWHERE: u64 = 1 << 40;
/// Intervals between two reads of memory, and of registers.
const LOOK: Duration = Duration::from_ns(100);
const LOOK_AT_REGISTERS: Duration = Duration::from_ns(500);
/// Number of reads before a wait fails.
const LOOKS: u32 = 20_000;
/// Time in which an engine with an invalid ring must do nothing.
const STANDS_STILL: Duration = Duration::from_us(10);

/// Host memory of an engine.
#[derive(Clone)]
pub(crate) struct Memory {
    cpu: Cpu,
    pub(crate) who: usize,
    arena: u64,
    ring: u64,
    write_back: u64,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Memory {
    pub(crate) fn new(cpu: &Cpu, who: usize) -> Result<Memory, String> {
        let alloc = |bytes| cpu.memory().alloc(bytes, 4096).map_err(text);
        let size = ARENA + MARGIN;
        let (arena, ring, write_back) =
            (alloc(size)?, alloc(u64::from(MOST_ENTRIES) * DESCRIPTOR_BYTES)?, alloc(4096)?);
        watch::place(who, Place::Data, arena, size);
        watch::place(who, Place::Data, NOWHERE + ((who as u64) << 32), size);
        watch::place(who, Place::Ring, ring, u64::from(MOST_ENTRIES) * DESCRIPTOR_BYTES);
        watch::place(who, Place::WriteBack, write_back, 8);
        Ok(Memory { cpu: cpu.clone(), who, arena, ring, write_back })
    }

    /// Fills all memory with random bytes, and clears the descriptors.
    pub(crate) fn clear(&self, lot: &mut Lot) -> Result<(), String> {
        let mut state = lot.below(u64::MAX);
        let mut bytes = vec![0; (ARENA + MARGIN) as usize];
        for word in bytes.as_chunks_mut::<8>().0 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *word = (state ^ state >> 29).to_le_bytes();
        }
        self.cpu.memory().write(self.arena, &bytes).map_err(text)?;
        let ring = vec![0; (u64::from(MOST_ENTRIES) * DESCRIPTOR_BYTES) as usize];
        self.cpu.memory().write(self.ring, &ring).map_err(text)?;
        self.cpu.memory().write(self.write_back, &[0; 8]).map_err(text)
    }

    /// Hash of all memory that data can be in.
    pub(crate) fn sum(&self) -> Result<u64, String> {
        let mut bytes = vec![0; (ARENA + MARGIN) as usize];
        self.cpu.memory().read(self.arena, &mut bytes).map_err(text)?;
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        Ok(words.fold(0, |sum: u64, word| (sum ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(23)))
    }

    fn address(&self, descriptor: &Descriptor) -> u64 {
        match descriptor {
            // The address of a descriptor that crosses 2^64 is absolute.
            Descriptor { at, .. } if *at > u64::MAX / 2 => *at,
            Descriptor { at, nowhere: true, .. } => NOWHERE + ((self.who as u64) << 32) + at,
            Descriptor { at, .. } => self.arena + at,
        }
    }
}

pub(crate) struct Engine {
    pub(crate) cpu: Cpu,
    pub(crate) found: FoundFunction,
    pub(crate) number: u64,
    pub(crate) memory: Memory,
    pub(crate) device_entries: u32,
    pub(crate) work: Work,
    pub(crate) posted: u32,
    pub(crate) took: Duration,
}

impl Engine {
    fn at(&self, offset: u64) -> Result<u64, String> {
        Ok(self.found.address(0, r::ENGINE + self.number * r::ENGINE_STRIDE + offset)?)
    }

    async fn set(&self, offset: u64, value: u32) -> Result<(), String> {
        self.cpu.write_u32(self.at(offset)?, value).await.map_err(text)
    }

    async fn set64(&self, offset: u64, value: u64) -> Result<(), String> {
        self.cpu.write_u64(self.at(offset)?, value).await.map_err(text)
    }

    async fn control(&self, bits: u32, logic: u32) -> Result<(), String> {
        let host = if self.work.host_ring { engine::control::HOST_RING } else { 0 };
        let status = if self.work.write_status { engine::control::WRITE_STATUS } else { 0 };
        self.set(engine::CONTROL, bits | host | status | logic << 8).await
    }

    /// Sets up the engine, up to ENABLE.
    pub(crate) async fn set_up(&mut self, kind: Kind) -> Result<(), String> {
        count(2);
        self.control(0, 0).await?;
        let Work { entries, coalesce: (times, us), .. } = self.work;
        let fault = |wanted| kind == Kind::Ring(wanted);
        let ring = if self.work.host_ring { self.memory.ring } else { 0 };
        let unaligned = if fault(RingFault::Unaligned) { 8 } else { 0 };
        self.set64(engine::RING, ring + unaligned).await?;
        self.set64(engine::WRITE_BACK, if self.work.write_back { self.memory.write_back } else { 0 }).await?;
        self.set(engine::ENTRIES, if fault(RingFault::Entries) { entries | entries << 1 } else { entries })
            .await?;
        self.set(engine::COALESCING, times | us << 16).await?;
        self.set64(engine::SEED, self.work.seed).await?;
        self.prepare()?;
        let logic = if fault(RingFault::Logic) { 3 } else { self.work.logic as u32 };
        self.control(engine::control::ENABLE, logic).await
    }

    /// Writes the data that an H2D engine expects to memory.
    fn prepare(&self) -> Result<(), String> {
        if self.number == 1 || self.work.logic != LogicKind::Integers {
            return Ok(());
        }
        let mut stream = Stream::new(self.work.seed);
        for descriptor in self.work.descriptors.iter().filter(|d| self.work.is_right(d)) {
            let mut bytes = vec![0; descriptor.bytes as usize];
            stream.fill(&mut bytes);
            if let Some(at) = descriptor.wrong_byte {
                bytes[at as usize] ^= 0x10;
            }
            if !descriptor.nowhere {
                self.cpu.memory().write(self.memory.address(descriptor), &bytes).map_err(text)?;
            }
        }
        Ok(())
    }

    fn place(&self, index: u32) -> Result<u64, String> {
        let index = u64::from(index & (self.work.entries - 1));
        if self.work.host_ring {
            return Ok(self.memory.ring + index * DESCRIPTOR_BYTES);
        }
        let first = u64::from(self.device_entries) * self.number;
        Ok(self.found.address(0, r::DESCRIPTOR + (first + index) * r::DESCRIPTOR_STRIDE)?)
    }

    async fn put(&self, address: u64, words: &[u64]) -> Result<(), String> {
        for (n, word) in (0..).zip(words) {
            match self.work.host_ring {
                true => self.cpu.memory().write(address + 8 * n, &word.to_le_bytes()).map_err(text)?,
                false => self.cpu.write_u64(address + 8 * n, *word).await.map_err(text)?,
            }
        }
        Ok(())
    }

    /// Posts all descriptors. If `patient`, waits until all are done.
    pub(crate) async fn run(&mut self, kind: Kind, patient: bool) -> Result<(), String> {
        let since = self.cpu.now();
        for some in self.work.posts.clone() {
            let surplus = (self.posted + some).saturating_sub(self.work.entries);
            let once = matches!(kind, Kind::Ring(_)) && self.posted > 0;
            if once || (!patient && surplus > 0) {
                break;
            }
            self.wait(kind, surplus).await?;
            for index in self.posted..self.posted + some {
                let descriptor = self.work.descriptors[index as usize];
                let address = self.memory.address(&descriptor);
                self.put(self.place(index)?, &[address, descriptor.bytes, descriptor.flags.into(), 0])
                    .await?;
            }
            self.posted += some;
            count(u64::from(some) + 1);
            self.set(engine::POSTED, self.posted).await?;
        }
        match kind {
            Kind::Ring(RingFault::Beyond) => {
                self.wait(kind, self.posted).await?;
                self.set(engine::POSTED, self.posted + self.work.entries + 1).await?;
                self.cpu.sleep(STANDS_STILL).await;
            }
            Kind::Ring(_) => self.cpu.sleep(STANDS_STILL).await,
            _ if patient => self.wait(kind, self.posted).await?,
            _ => {}
        }
        self.took = self.cpu.now().since(since);
        Ok(())
    }

    async fn done(&self, kind: Kind) -> Result<u32, String> {
        if self.work.write_back && kind != Kind::NoMaster {
            return self.cpu.memory().read_u32(self.memory.write_back).map_err(text);
        }
        self.cpu.sleep(LOOK_AT_REGISTERS).await;
        self.cpu.read_u32(self.at(engine::DONE)?).await.map_err(text)
    }

    /// Waits until this many descriptors are done.
    pub(crate) async fn wait(&self, kind: Kind, descriptors: u32) -> Result<(), String> {
        for _ in 0..LOOKS {
            if self.done(kind).await? >= descriptors {
                return Ok(());
            }
            self.cpu.sleep(LOOK).await;
        }
        let (number, posted, done) = (self.number, self.posted, self.done(kind).await?);
        let mut said = self.registers().await?.join(", ");
        for offset in (0..64).step_by(8) {
            let at = self.found.address(0, r::ENGINE + (self.number ^ 1) * r::ENGINE_STRIDE + offset)?;
            said += &format!(" | {offset:02x}: {:016x}", self.cpu.read_u64(at).await.map_err(text)?);
        }
        Err(format!("engine {number}: {done} done of {posted}, waiting for {descriptors}: {said}"))
    }

    /// Stops the engine by ABORT, or by clearing ENABLE.
    pub(crate) async fn stop(&self, by_abort: bool) -> Result<(), String> {
        let bits = if by_abort { engine::control::ENABLE | engine::control::ABORT } else { 0 };
        self.control(bits, self.work.logic as u32).await
    }

    // ---- state after the round ----

    /// Reads all of its registers.
    pub(crate) async fn registers(&self) -> Result<Vec<String>, String> {
        let mut said = Vec::new();
        for offset in (0..64).step_by(8) {
            let value = self.cpu.read_u64(self.at(offset)?).await.map_err(text)?;
            said.push(format!("{offset:02x}: {value:016x}"));
        }
        Ok(said)
    }

    /// STATUS and MOVED of the descriptors that are still in the ring, with their numbers.
    pub(crate) async fn statuses(&self) -> Result<Vec<(u32, E, u64)>, String> {
        let mut all = Vec::new();
        for index in self.posted.saturating_sub(self.work.entries)..self.posted {
            let at = self.place(index)?;
            let (code, moved) = match self.work.host_ring {
                true => (
                    self.cpu.memory().read_u32(at + d::STATUS).map_err(text)?,
                    self.cpu.memory().read_u64(at + d::MOVED).map_err(text)?,
                ),
                false => (
                    self.cpu.read_u32(at + d::STATUS).await.map_err(text)?,
                    self.cpu.read_u64(at + d::MOVED).await.map_err(text)?,
                ),
            };
            let code = E::ALL.get(code as usize).ok_or_else(|| format!("STATUS {code}"))?;
            all.push((index, *code, moved));
        }
        Ok(all)
    }

    /// Address ranges of the descriptors that fail.
    pub(crate) fn failed(&self) -> Vec<Range<u64>> {
        let range = |descriptor: &Descriptor| {
            let address = self.memory.address(descriptor);
            address..address.saturating_add(descriptor.bytes)
        };
        let fail = self.work.descriptors.iter().zip(self.work.failing()).filter(|(_, fails)| *fails);
        fail.map(|(descriptor, _)| range(descriptor)).collect()
    }
}

/// Checks the statuses after a stop: descriptors are done, and after the first that is not, all have ABORTED.
pub(crate) fn status_codes(statuses: &[(u32, E, u64)]) -> Result<String, String> {
    let whole = statuses.iter().take_while(|(_, code, _)| matches!(code, E::Ok | E::None)).count();
    match statuses[whole..].iter().all(|(_, code, _)| *code == E::Aborted) {
        true => Ok("done, then ABORTED".to_owned()),
        false => Err(format!("{statuses:?}")),
    }
}
