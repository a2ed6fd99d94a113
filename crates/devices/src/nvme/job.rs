// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The job on one queue pair: as many commands in flight as allowed, at random places, each with its own buffer. Written data are stamped
//! with place and number, which a read verifies.

use super::admin_queues::Admin;
use super::settings::{Job, Kind};
use super::spec::{CQE_BYTES, SQE_BYTES, admin, io};
use super::{BAR, register};
use crate::pcie_bench::below;
use crate::traffic::Latencies;
use host::Cpu;
use host::DriverError;
use host::firmware::FoundFunction;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256StarStar;
use std::collections::BTreeMap;
use std::rc::Rc;
use tlp::Time;

/// Page size of host memory.
const PAGE: u64 = 4096;

/// Places of the commands: each of n pairs has every n-th place of the namespace.
#[derive(Clone, Copy)]
pub(super) struct Places {
    /// Size of the namespace in bytes.
    pub(super) bytes: u64,
    /// Number of pairs.
    pub(super) pairs: u64,
    pub(super) seed: u64,
}

/// A queue pair, with a buffer for each command that may be in flight.
pub(super) struct Pair {
    cpu: Cpu,
    function: Rc<FoundFunction>,
    id: u16,
    job: Job,
    block_bytes: u32,
    entries: u32,
    submissions: u64,
    completions: u64,
    buffers: u64,
    /// PRP lists of the buffers, for those with more than two pages.
    lists: u64,
    tail: u32,
    head: u32,
    phase: u32,
    /// Number of the last write to each place.
    written: BTreeMap<u64, u64>,
}

/// Results of a pass.
pub(super) struct Pass {
    pub(super) latencies: Latencies,
    pub(super) doorbells: u64,
    pub(super) interrupts: u64,
}

/// A command in flight.
#[derive(Clone, Copy)]
struct UnderWay {
    since: Time,
    place: u64,
    /// Index of the command in the pass.
    number: u64,
}

impl Pair {
    /// Creates queue pair `id`, which uses the interrupt vector with the same number.
    pub(super) async fn open(
        admin: &mut Admin,
        id: u16,
        job: Job,
        block_bytes: u32,
    ) -> Result<Pair, DriverError> {
        let (cpu, function) = (admin.cpu.clone(), Rc::clone(&admin.function));
        let alloc = |bytes: u64| cpu.memory().alloc(bytes.next_multiple_of(PAGE), PAGE);
        let (entries, slots) = (u32::from(job.queue_depth) + 1, u64::from(job.queue_depth));
        let submissions = alloc(u64::from(entries * SQE_BYTES))?;
        let completions = alloc(u64::from(entries * CQE_BYTES))?;
        let (buffers, lists) = (alloc(slots * stride(job))?, alloc(slots * PAGE)?);
        for slot in 0..slots {
            let pages = (1..stride(job) / PAGE).map(|page| buffers + slot * stride(job) + page * PAGE);
            let list: Vec<_> = pages.map(u64::to_le_bytes).collect();
            cpu.memory().write(lists + slot * PAGE, list.as_flattened())?;
        }
        let place = (entries - 1) << 16 | u32::from(id);
        let with = |number: u16| u32::from(number) << 16;
        // Contiguous; the completion queue interrupts.
        admin.command(admin::CREATE_CQ, 0, completions, [place, with(id) | 0b11]).await?;
        admin.command(admin::CREATE_SQ, 0, submissions, [place, with(id) | 0b01]).await?;
        let (tail, head, phase, written) = (0, 0, 1, BTreeMap::new());
        Ok(Pair {
            cpu,
            function,
            id,
            job,
            block_bytes,
            entries,
            submissions,
            completions,
            buffers,
            lists,
            tail,
            head,
            phase,
            written,
        })
    }

    /// Carries out the commands of pair `n`. If the job has written data, reads all of these data instead.
    pub(super) async fn run(
        mut self,
        kind: Kind,
        n: u64,
        places: Places,
    ) -> Result<(Pair, Pass), DriverError> {
        let at_pair = |error: DriverError| error.at(format_args!("queue pair {n}"));
        let units = places.bytes / u64::from(self.job.command_bytes) / places.pairs;
        if units < u64::from(self.job.queue_depth) {
            return Err(at_pair(
                format!(
                    "{units} places, expected at least one for each of {} commands in flight",
                    self.job.queue_depth
                )
                .into(),
            ));
        }
        let order: Vec<u64> = if self.written.is_empty() {
            let mut random = Xoshiro256StarStar::seed_from_u64(places.seed ^ n);
            (0..self.job.commands).map(|_| below(units, &mut random) * places.pairs + n).collect()
        } else {
            self.written.keys().copied().collect()
        };
        let span = units * places.pairs;
        let pass = self.pass(kind, &order, |place| (place + places.pairs) % span).await.map_err(at_pair)?;
        Ok((self, pass))
    }

    /// One pass. If a command is in flight at a place, the `next` is used.
    async fn pass(
        &mut self,
        kind: Kind,
        order: &[u64],
        next: impl Fn(u64) -> u64,
    ) -> Result<Pass, DriverError> {
        let depth = usize::from(self.job.queue_depth);
        let latencies = Latencies::with_room(order.len() as u64);
        let mut pass = Pass { latencies, doorbells: 0, interrupts: 0 };
        let mut slots: Vec<Option<UnderWay>> = vec![None; depth];
        let mut free: Vec<usize> = (0..depth).rev().collect();
        let mut commands = (0..).zip(order);
        loop {
            let before = self.tail;
            while let Some(slot) = free.pop() {
                let Some((number, place)) = commands.next() else {
                    free.push(slot);
                    break;
                };
                let mut place = *place;
                while slots.iter().flatten().any(|other| other.place == place) {
                    place = next(place);
                }
                slots[slot] = Some(UnderWay { since: self.cpu.now(), place, number });
                self.submit(kind, slot, place, number)?;
            }
            if self.tail != before {
                self.ring(0, self.tail).await?;
                pass.doorbells += 1;
            }
            if free.len() == depth {
                return Ok(pass);
            }
            let mut is_idle = true;
            while let Some(slot) = self.reap()? {
                let ended = slots.get_mut(slot).and_then(Option::take);
                let ended =
                    ended.ok_or_else(|| format!("a completion of command {slot}, which is not in flight"))?;
                pass.latencies.add(self.cpu.now().since(ended.since));
                self.check(kind, slot, ended)?;
                free.push(slot);
                is_idle = false;
            }
            if is_idle {
                self.cpu.interrupt(self.function.vector(self.id)).await;
                pass.interrupts += 1;
            } else {
                self.ring(4, self.head).await?;
                pass.doorbells += 1;
            }
        }
    }

    /// Rings the submission queue doorbell (`behind` 0) or the completion queue doorbell (`behind` 4).
    async fn ring(&self, behind: u64, value: u32) -> Result<(), DriverError> {
        let at = register::SQ0TDBL + 8 * u64::from(self.id) + behind;
        Ok(self.cpu.write_u32(self.function.address(BAR, at)?, value).await?)
    }

    fn buffer(&self, slot: usize) -> u64 {
        self.buffers + slot as u64 * stride(self.job)
    }

    fn submit(&mut self, kind: Kind, slot: usize, place: u64, number: u64) -> Result<(), DriverError> {
        let (bytes, buffer, memory) =
            (u64::from(self.job.command_bytes), self.buffer(slot), self.cpu.memory());
        let opcode = match kind {
            Kind::Read => io::READ,
            Kind::Write => io::WRITE,
        };
        if kind == Kind::Write {
            for at in (0..bytes).step_by(PAGE as usize) {
                memory.write(buffer + at, [place, number].map(u64::to_le_bytes).as_flattened())?;
            }
        }
        let second = match bytes.div_ceil(PAGE) {
            1 => 0,
            2 => buffer + PAGE,
            _ => self.lists + slot as u64 * PAGE,
        };
        let blocks = bytes / u64::from(self.block_bytes);
        let first = 1 << 32 | u64::from(opcode) | (slot as u64) << 16;
        let entry = [first, 0, 0, buffer, second, place * blocks, blocks - 1, 0].map(u64::to_le_bytes);
        memory.write(self.submissions + u64::from(self.tail * SQE_BYTES), entry.as_flattened())?;
        self.tail = (self.tail + 1) % self.entries;
        Ok(())
    }

    /// The slot of the next completed command.
    fn reap(&mut self) -> Result<Option<usize>, DriverError> {
        let at = self.completions + u64::from(self.head * CQE_BYTES) + 12;
        let word = self.cpu.memory().read_u32(at)?;
        if word >> 16 & 1 != self.phase {
            return Ok(None);
        }
        self.head = (self.head + 1) % self.entries;
        self.phase ^= u32::from(self.head == 0);
        match word >> 17 {
            0 => Ok(Some((word & 0xffff) as usize)),
            status => Err(format!("command {} completes with status {status:#x}", word & 0xffff).into()),
        }
    }

    /// Records written data, or verifies data that were read.
    fn check(&mut self, kind: Kind, slot: usize, ended: UnderWay) -> Result<(), DriverError> {
        if kind == Kind::Write {
            self.written.insert(ended.place, ended.number);
            return Ok(());
        }
        let Some(number) = self.written.get(&ended.place) else { return Ok(()) };
        for at in (0..u64::from(self.job.command_bytes)).step_by(PAGE as usize) {
            let stamp = |behind| self.cpu.memory().read_u64(self.buffer(slot) + at + behind);
            let (read, wanted) = ((stamp(0)?, stamp(8)?), (ended.place, *number));
            if read != wanted {
                return Err(format!(
                    "place {}, byte {at}: {read:?}, expected {wanted:?}, which was written",
                    ended.place
                )
                .into());
            }
        }
        Ok(())
    }
}

/// Distance of two buffers in bytes.
fn stride(job: Job) -> u64 {
    u64::from(job.command_bytes).next_multiple_of(PAGE)
}
