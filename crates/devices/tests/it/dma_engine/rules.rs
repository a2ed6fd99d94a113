// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules of the data sheet, register by register: errors, chains, aborts, resets, coalescing, loop-backs.

use super::{Bench, FIRST_VECTOR};
use crate::common::Event;
use host::Cpu;
use host::firmware::FoundFunction;
use riser_devices::dma_engine::registers::{self as r, ErrorCode as E, LogicKind, descriptor as d, engine};
use riser_devices::dma_engine::{DESCRIPTOR_BYTES, Settings, Stream};
use tlp::Duration;

/// An address after all memory.
const NOWHERE: u64 = 1 << 40;
const ENTRIES: u32 = 16;

/// One engine, controlled by hand.
pub(super) struct Engine {
    cpu: Cpu,
    function: FoundFunction,
    number: u64,
    ring: Option<u64>,
    write_back: u64,
    posted: u32,
}

impl Engine {
    async fn new(cpu: &Cpu, function: FoundFunction, number: u64, host_ring: bool) -> Engine {
        let ring = cpu.memory().alloc(u64::from(ENTRIES) * DESCRIPTOR_BYTES, 4096).unwrap();
        let write_back = cpu.memory().alloc(8, 64).unwrap();
        Engine::at_places(cpu, function, number, host_ring.then_some(ring), write_back).await
    }

    /// With a ring in host memory, or in the device.
    pub(super) async fn at_places(
        cpu: &Cpu,
        function: FoundFunction,
        number: u64,
        ring: Option<u64>,
        write_back: u64,
    ) -> Engine {
        let engine = Engine { cpu: cpu.clone(), function, number, ring, write_back, posted: 0 };
        engine.set64(engine::RING, ring.unwrap_or(0)).await;
        engine.set64(engine::WRITE_BACK, write_back).await;
        engine.set(engine::ENTRIES, ENTRIES).await;
        engine
    }

    fn at(&self, offset: u64) -> u64 {
        self.function.address(0, r::ENGINE + self.number * r::ENGINE_STRIDE + offset).unwrap()
    }

    async fn set(&self, offset: u64, value: u32) {
        self.cpu.write_u32(self.at(offset), value).await.unwrap();
    }

    pub(super) async fn set64(&self, offset: u64, value: u64) {
        self.cpu.write_u64(self.at(offset), value).await.unwrap();
    }

    async fn get(&self, offset: u64) -> u32 {
        self.cpu.read_u32(self.at(offset)).await.unwrap()
    }

    pub(super) async fn control(&self, bits: u32, logic: LogicKind) {
        let host = if self.ring.is_some() { engine::control::HOST_RING } else { 0 };
        self.set(engine::CONTROL, bits | host | engine::control::WRITE_STATUS | (logic as u32) << 8).await;
    }

    pub(super) async fn enable(&mut self, logic: LogicKind) {
        self.control(0, logic).await;
        // Posted descriptors end.
        self.cpu.sleep(Duration::from_us(1)).await;
        self.cpu.memory().write(self.write_back, &[0; 8]).unwrap();
        self.control(engine::control::ENABLE, logic).await;
        self.posted = 0;
    }

    fn place(&self, index: u32) -> u64 {
        let entries = u64::from(r::DESCRIPTOR_COUNT as u32 / 2);
        let in_device = self.function.address(0, r::DESCRIPTOR).unwrap() + self.number * entries * 32;
        self.ring.unwrap_or(in_device) + u64::from(index % ENTRIES) * DESCRIPTOR_BYTES
    }

    /// Writes descriptors and posts them.
    pub(super) async fn post(&mut self, descriptors: &[(u64, u64, u32)]) {
        for &(address, bytes, flags) in descriptors {
            let (at, words) = (self.place(self.posted), [address, bytes, flags.into()]);
            for (n, word) in (0..).zip(words) {
                match self.ring {
                    Some(_) => self.cpu.memory().write(at + 8 * n, &word.to_le_bytes()).unwrap(),
                    None => self.cpu.write_u64(at + 8 * n, word).await.unwrap(),
                }
            }
            self.posted += 1;
        }
        self.set(engine::POSTED, self.posted).await;
    }

    /// Waits until `count` are done, and returns how many have failed.
    pub(super) async fn done(&self, count: u32) -> u32 {
        for _ in 0..100_000 {
            let told = self.cpu.memory().read_u64(self.write_back).unwrap();
            if told as u32 == count {
                return (told >> 32) as u32;
            }
            self.cpu.sleep(Duration::from_ns(100)).await;
        }
        panic!("{} of {count} done", self.get(engine::DONE).await);
    }

    /// STATUS and MOVED of a descriptor.
    async fn status(&self, index: u32) -> (E, u64) {
        let at = self.place(index);
        let (code, moved) = match self.ring {
            Some(_) => (
                self.cpu.memory().read_u32(at + d::STATUS).unwrap(),
                self.cpu.memory().read_u64(at + d::MOVED).unwrap(),
            ),
            None => (
                self.cpu.read_u32(at + d::STATUS).await.unwrap(),
                self.cpu.read_u64(at + d::MOVED).await.unwrap(),
            ),
        };
        (E::ALL[code as usize], moved)
    }

    pub(super) async fn statuses(&self, count: u32) -> Vec<(E, u64)> {
        let mut all = Vec::new();
        for index in 0..count {
            all.push(self.status(index).await);
        }
        all
    }

    async fn error(&self) -> E {
        E::ALL[(self.get(engine::STATUS).await >> 8 & 0xff) as usize]
    }
}

fn one() -> Bench {
    Bench::new(&Settings { vfs: 0, ..Settings::default() })
}

const MORE: u32 = d::flags::MORE;

/// Each error is reported as in the data sheet, in both kinds of rings. No other bytes are written, and the next descriptor works.
#[test]
fn errors_are_reported_in_their_descriptors() {
    for host_ring in [true, false] {
        let ended = one().run_program(move |cpu, functions| async move {
            let memory = cpu.memory().alloc(1 << 16, 4096).unwrap();
            let (mut up, mut down) = (
                Engine::new(&cpu, functions[0], 0, host_ring).await,
                Engine::new(&cpu, functions[0], 1, host_ring).await,
            );
            up.enable(LogicKind::Plain).await;
            up.post(&[
                (memory, 0, 0),
                (memory, (1 << 40) + 1, 0),
                (u64::MAX - 7, 9, 0),
                (NOWHERE, 64, 0),
                (memory + 0x8000, 700, 0),
                (memory, 512, MORE),
                (NOWHERE, 1024, MORE),
                (memory, 512, MORE),
                (memory, 512, 0),
                (memory + 1, 4095, 0),
            ])
            .await;
            assert_eq!(up.done(10).await, 7);
            let expected = [
                (E::Size, 0),
                (E::Size, 0),
                (E::Range, 0),
                (E::Read, 0),
                (E::Ok, 700),
                (E::Ok, 512),
                (E::Read, 0),
                (E::Aborted, 0),
                (E::Aborted, 0),
                (E::Ok, 4095),
            ];
            assert_eq!(up.statuses(10).await, expected, "{host_ring}");
            assert_eq!((up.get(engine::DONE).await, up.get(engine::FAILED).await), (10, 7));
            assert_eq!((up.get(engine::BYTES).await, up.error().await), (700 + 512 + 4095, E::Aborted));

            down.enable(LogicKind::Integers).await;
            cpu.memory().write(memory, &[0xaa; 4096]).unwrap();
            // In host memory, a reserved flag can be set.
            let flags = if host_ring { 8 } else { 0 };
            down.post(&[
                (memory, 64, flags),
                (memory + 64, 0, MORE),
                (memory + 128, 64, MORE),
                (memory + 256, 64, 0),
                (memory + 512, 64, MORE),
                (memory + 576, 63, 0),
            ])
            .await;
            assert_eq!(down.done(6).await, if host_ring { 4 } else { 3 });
            let first = if host_ring { (E::Flags, 0) } else { (E::Ok, 64) };
            let rest = [(E::Size, 0), (E::Aborted, 0), (E::Aborted, 0), (E::Ok, 64), (E::Ok, 63)];
            assert_eq!(down.statuses(6).await, [&[first], &rest[..]].concat());
            let mut all = [0; 1024];
            cpu.memory().read(memory, &mut all).unwrap();
            let untouched = if host_ring { 0..512 } else { 64..512 };
            assert!(all[untouched].iter().all(|byte| *byte == 0xaa));
            // The bytes of aborted descriptors are skipped.
            let skipped = if host_ring { 128 } else { 64 + 128 };
            assert!(Stream::new(0).at(skipped).check(&all[512..639]) && all[639] == 0xaa);
            Ok(())
        });
        assert_eq!(ended, Ok(()));
    }
}

/// Every failure aborts the rest of its chain. A function without Bus Master Enable does not write, and reports this.
#[test]
fn a_chain_ends_with_its_first_failure() {
    let ended = one().run_program(|cpu, functions| async move {
        let memory = cpu.memory().alloc(4096, 4096).unwrap();
        for number in [0, 1] {
            let mut engine = Engine::new(&cpu, functions[0], number, false).await;
            engine.enable(LogicKind::Plain).await;
            let pieces = [(memory, 0, MORE), (memory, 0, MORE), (u64::MAX, 9, MORE), (memory, 64, 0)];
            engine.post(&pieces).await;
            assert_eq!(engine.done(4).await, 4);
            let aborted = (E::Aborted, 0);
            assert_eq!(engine.statuses(4).await, [(E::Size, 0), aborted, aborted, aborted]);
            cpu.config_write(functions[0].bdf, 1, 0x3, 0x2).await.unwrap();
            engine.post(&[(memory, 2048, 0)]).await;
            cpu.sleep(Duration::from_us(5)).await;
            let refused = if number == 0 { E::Read } else { E::Write };
            assert_eq!((engine.status(4).await, engine.error().await), ((refused, 0), refused));
            cpu.config_write(functions[0].bdf, 1, 0x3, 0x6).await.unwrap();
            engine.post(&[(memory, 2048, 0)]).await;
            engine.done(6).await;
            assert_eq!(engine.status(5).await, (E::Ok, 2048));
        }
        Ok(())
    });
    assert_eq!(ended, Ok(()));
}

/// Wrong data are reported with their position in the stream. Later data are checked by their own position.
#[test]
fn wrong_integers_fail_only_their_descriptor() {
    let ended = one().run_program(|cpu, functions| async move {
        let memory = cpu.memory().alloc(4096, 4096).unwrap();
        let mut bytes = [0; 3000];
        Stream::new(77).fill(&mut bytes);
        bytes[1500] ^= 1;
        cpu.memory().write(memory, &bytes).unwrap();
        let mut up = Engine::new(&cpu, functions[0], 0, true).await;
        up.set64(engine::SEED, 77).await;
        up.enable(LogicKind::Integers).await;
        up.post(&[(memory, 1000, 0), (memory + 1000, 1000, 0), (memory + 2000, 1000, 0)]).await;
        assert_eq!(up.done(3).await, 1);
        assert_eq!(up.statuses(3).await, [(E::Ok, 1000), (E::Data, 1000), (E::Ok, 1000)]);
        Ok(())
    });
    assert_eq!(ended, Ok(()));
}

/// With an invalid ring, the engine stops, interrupts, and can be enabled again.
#[test]
fn an_invalid_ring_stops_only_its_engine() {
    let mut bench = one();
    let ended = bench.run_program(|cpu, functions| async move {
        let memory = cpu.memory().alloc(4096, 4096).unwrap();
        let mut up = Engine::new(&cpu, functions[0], 0, true).await;
        let ring = up.ring.unwrap();
        for (register, wrong, right) in [
            (engine::ENTRIES, 0, ENTRIES),
            (engine::ENTRIES, 12, ENTRIES),
            (engine::ENTRIES, 1 << 17, ENTRIES),
            (engine::RING, ring as u32 + 16, ring as u32),
        ] {
            up.set(register, wrong).await;
            up.enable(LogicKind::Plain).await;
            assert_eq!(up.error().await, E::None);
            up.post(&[(memory, 64, 0)]).await;
            cpu.interrupt(FIRST_VECTOR).await;
            assert_eq!((up.error().await, up.get(engine::DONE).await), (E::Ring, 0));
            up.set(register, right).await;
            up.enable(LogicKind::Plain).await;
            up.post(&[(memory, 64, 0)]).await;
            assert_eq!(up.done(1).await, 0);
        }
        // Not a logic.
        up.set(engine::CONTROL, 0).await;
        up.set(engine::CONTROL, 0x503).await;
        up.post(&[(memory, 64, 0)]).await;
        cpu.interrupt(FIRST_VECTOR).await;
        assert_eq!(up.error().await, E::Ring);
        // POSTED rises by more than the ring's size, or falls.
        for wrong in [ENTRIES + 2, 0xffff_ffff] {
            up.enable(LogicKind::Plain).await;
            up.post(&[(memory, 64, 0)]).await;
            up.done(1).await;
            up.set(engine::POSTED, wrong).await;
            cpu.interrupt(FIRST_VECTOR).await;
            assert_eq!((up.error().await, up.get(engine::DONE).await), (E::Ring, 1));
            assert_eq!(up.get(engine::STATUS).await & 1, 0, "must not be busy");
        }
        // A descriptor without memory cannot be written to either.
        up.set64(engine::RING, NOWHERE).await;
        up.enable(LogicKind::Plain).await;
        up.set(engine::POSTED, 3).await;
        assert_eq!((up.done(3).await, up.error().await), (3, E::Fetch));
        Ok(())
    });
    assert_eq!(ended, Ok(()));
    let beyond = |event: &Event| matches!(event, Event::DmaWrite(at, _) if *at >= NOWHERE);
    assert!(!bench.slot.log.iter().any(beyond));
}

/// An abort ends the descriptors posted before it, in order, but no later ones.
#[test]
fn an_abort_ends_posted_descriptors() {
    for (number, host_ring) in [(0, true), (1, true), (0, false), (1, false)] {
        let ended = one().run_program(move |cpu, functions| async move {
            let memory = cpu.memory().alloc(1 << 16, 4096).unwrap();
            let mut engine = Engine::new(&cpu, functions[0], number, host_ring).await;
            engine.enable(LogicKind::Plain).await;
            engine.post(&[(memory, 1 << 14, MORE); 12]).await;
            cpu.sleep(Duration::from_us(2)).await;
            engine.control(engine::control::ENABLE | engine::control::ABORT, LogicKind::Plain).await;
            engine.control(engine::control::ENABLE | engine::control::ABORT, LogicKind::Plain).await;
            let failed = engine.done(12).await;
            let statuses = engine.statuses(12).await;
            let ok = statuses.iter().take_while(|(code, _)| *code == E::Ok).count() as u32;
            // Writes take no time here.
            assert!(failed == 12 - ok && (number == 1 || failed > 0), "{statuses:?}");
            assert!(statuses[ok as usize..].iter().all(|(code, _)| *code == E::Aborted), "{statuses:?}");
            let moved: u64 = statuses.iter().map(|(_, moved)| moved).sum();
            assert_eq!(u64::from(engine.get(engine::BYTES).await), moved, "{statuses:?}");
            engine.post(&[(memory, 100, 0)]).await;
            assert_eq!(engine.done(13).await, failed);
            assert_eq!(engine.status(12).await, (E::Ok, 100));
            // A disable ends the remaining descriptors, and the engine takes no more.
            engine.post(&[(memory, 1 << 14, 0); 3]).await;
            engine.control(0, LogicKind::Plain).await;
            engine.done(16).await;
            engine.post(&[(memory, 100, 0)]).await;
            cpu.sleep(Duration::from_us(20)).await;
            assert_eq!(engine.get(engine::DONE).await, 16);
            engine.enable(LogicKind::Plain).await;
            engine.post(&[(memory, 100, 0)]).await;
            assert_eq!((engine.done(1).await, engine.get(engine::DONE).await), (0, 1));
            Ok(())
        });
        assert_eq!(ended, Ok(()));
    }
}

/// RESET: registers as after power-on, and everything in flight is dropped. The other function continues.
#[test]
fn a_reset_by_register_affects_only_its_function() {
    let mut bench = Bench::new(&Settings { vfs: 1, window: 4, ..Settings::default() });
    let ended = bench.run_program(|cpu, functions| async move {
        let memory = cpu.memory().alloc(1 << 16, 4096).unwrap();
        let mut first = Engine::new(&cpu, functions[0], 0, true).await;
        let mut second = Engine::new(&cpu, functions[1], 0, true).await;
        for engine in [&mut first, &mut second] {
            engine.enable(LogicKind::Plain).await;
            engine.post(&[(memory, 1 << 14, 0); 8]).await;
        }
        cpu.sleep(Duration::from_us(3)).await;
        let at = functions[0].address(0, r::CONTROL).unwrap();
        cpu.write_u32(at, r::control::RESET).await.unwrap();
        assert_eq!(cpu.read_u32(at).await.unwrap(), 0);
        for register in [engine::CONTROL, engine::STATUS, engine::ENTRIES, engine::POSTED, engine::DONE] {
            assert_eq!(first.get(register).await, 0, "{register:#x}");
        }
        assert_eq!(second.done(8).await, 0);
        let told = cpu.memory().read_u64(first.write_back).unwrap();
        assert!((told as u32) < 8);
        let mut again = Engine::new(&cpu, functions[0], 0, true).await;
        again.enable(LogicKind::Plain).await;
        again.post(&[(memory, 1 << 14, 0); 2]).await;
        assert_eq!(again.done(2).await, 0);
        Ok(())
    });
    assert_eq!(ended, Ok(()));
    assert_eq!(bench.slot.endpoint.counters().unexpected_completions, 0);
}

/// Interrupts are delayed until there are enough, or the time has passed.
#[test]
fn interrupts_are_coalesced() {
    let mut bench = one();
    let ended = bench.run_program(|cpu, functions| async move {
        let memory = cpu.memory().alloc(4096, 4096).unwrap();
        let mut up = Engine::new(&cpu, functions[0], 0, true).await;
        up.set(engine::COALESCING, 20 << 16 | 4).await;
        up.enable(LogicKind::Plain).await;
        let flagged = (memory, 64, d::flags::INTERRUPT);
        up.post(&[flagged; 10]).await;
        cpu.interrupt(FIRST_VECTOR).await;
        up.done(10).await;
        let begin = cpu.now();
        cpu.interrupt(FIRST_VECTOR).await;
        assert_eq!(cpu.now(), begin, "the second comes with the eighth");
        cpu.interrupt(FIRST_VECTOR).await;
        let late = cpu.now().since(begin);
        assert!(late > Duration::from_us(15) && late <= Duration::from_us(20), "{late:?}");
        // Without the flag, only failures interrupt.
        up.post(&[(memory, 64, 0); 4]).await;
        up.done(14).await;
        cpu.sleep(Duration::from_us(50)).await;
        up.post(&[(memory, 0, 0)]).await;
        cpu.interrupt(FIRST_VECTOR).await;
        Ok(())
    });
    assert_eq!(ended, Ok(()));
    let interrupts = bench.slot.log.iter().filter(|event| matches!(event, Event::Interrupt(_))).count();
    assert_eq!(interrupts, 4);
}

/// A loop-back holds data until they are taken, without an effect on others. The output equals the input for any split
/// of the data.
#[test]
fn full_loop_back_blocks_no_other_engine() {
    let mut bench = Bench::new(&Settings { vfs: 1, window: 4, ..Settings::default() });
    let ended = bench.run_program(|cpu, functions| async move {
        let from = cpu.memory().alloc(1 << 18, 4096).unwrap();
        let mut bytes = vec![0; 200_000];
        Stream::new(1).fill(&mut bytes);
        cpu.memory().write(from, &bytes).unwrap();
        let mut up = Engine::new(&cpu, functions[0], 0, true).await;
        let mut other = Engine::new(&cpu, functions[1], 0, true).await;
        up.enable(LogicKind::LoopBack).await;
        up.post(&[(from, 50_000, 0), (from + 50_000, 50_000, 0), (from + 100_000, 100_000, 0)]).await;
        cpu.sleep(Duration::from_us(200)).await;
        assert_eq!(up.get(engine::DONE).await, 1, "64 KiB are in it");
        other.enable(LogicKind::Plain).await;
        let begin = cpu.now();
        other.post(&[(from, 1 << 14, 0); 4]).await;
        other.done(4).await;
        // 128 reads of 500 ns, four at a time.
        assert!(cpu.now().since(begin) < Duration::from_us(18), "{:?}", cpu.now().since(begin));
        Ok(())
    });
    assert_eq!(ended, Ok(()));
}

/// The same in full. ENABLE of the engine that reads the FIFO empties it, so this engine is enabled first.
#[test]
fn a_loop_back_returns_its_input() {
    let ended = one().run_program(|cpu, functions| async move {
        let (from, to) =
            (cpu.memory().alloc(1 << 18, 4096).unwrap(), cpu.memory().alloc(1 << 18, 4096).unwrap());
        let mut bytes = vec![0; 200_000];
        Stream::new(1).fill(&mut bytes);
        cpu.memory().write(from, &bytes).unwrap();
        let mut up = Engine::new(&cpu, functions[0], 0, true).await;
        let mut down = Engine::new(&cpu, functions[0], 1, false).await;
        down.enable(LogicKind::LoopBack).await;
        up.enable(LogicKind::LoopBack).await;
        up.post(&[(from, 50_000, 0), (from + 50_000, 50_001, 0), (from + 100_001, 99_999, 0)]).await;
        cpu.sleep(Duration::from_us(200)).await;
        down.post(&[(to, 1, 0), (to + 1, 99_998, 0), (to + 99_999, 100_001, 0)]).await;
        assert_eq!((down.done(3).await, up.done(3).await), (0, 0));
        let mut came = vec![0; 200_000];
        cpu.memory().read(to, &mut came).unwrap();
        assert!(came == bytes);
        Ok(())
    });
    assert_eq!(ended, Ok(()));
}
