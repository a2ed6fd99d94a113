// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Eight functions in parallel with random operations: transfers of all sizes and addresses, chains, and both kinds of
//! rings. During the transfers there are aborts, and resets of a function by register and by Function Level Reset.
//! Every byte is checked, including the neighboring ones.

use super::rules::Engine;
use super::{Bench, FLR, PF};
use host::Cpu;
use host::firmware::FoundFunction;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256StarStar;
use riser_devices::dma_engine::registers::{self as r, ErrorCode as E, LogicKind, descriptor as d, engine};
use riser_devices::dma_engine::{Settings, Stream, WindowOf};
use tlp::{Bdf, Duration};

const FUNCTIONS: u16 = 8;
/// Size of a function's work memory in bytes, and its initial contents.
const ARENA: u64 = 1 << 17;
const BLANK: u8 = 0xa5;

/// One descriptor: address, length, and place in the stream.
#[derive(Clone, Copy)]
struct Piece {
    address: u64,
    bytes: u64,
    more: bool,
}

/// An interruption of an engine during its work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kill {
    Nothing,
    Abort,
    Disable,
    Reset,
    FunctionLevelReset,
}

const KILLS: [Kill; 8] = [
    Kill::Nothing,
    Kill::Nothing,
    Kill::Nothing,
    Kill::Nothing,
    Kill::Abort,
    Kill::Disable,
    Kill::Reset,
    Kill::FunctionLevelReset,
];

/// Random numbers below a limit, with nearly equal probability.
struct Rng(Xoshiro256StarStar);

impl Rng {
    fn below(&mut self, limit: u64) -> u64 {
        self.0.next_u64() % limit
    }
}

/// Consecutive pieces in the arena, with gaps.
fn pieces(random: &mut Rng, arena: u64) -> Vec<Piece> {
    let mut at = arena;
    let mut pieces: Vec<Piece> = (0..1 + random.below(16))
        .map(|_| {
            let address = at + random.below(70);
            let most = [9, 130, 1030, 6000][random.below(4) as usize];
            let bytes = 1 + random.below(most);
            at = address + bytes;
            Piece { address, bytes, more: random.below(3) == 0 }
        })
        .collect();
    if let Some(last) = pieces.last_mut() {
        last.more = false;
    }
    pieces
}

async fn kill(cpu: &Cpu, function: FoundFunction, engine: &Engine, kill: Kill) {
    match kill {
        Kill::Nothing => {}
        Kill::Abort => {
            engine.control(engine::control::ENABLE | engine::control::ABORT, LogicKind::Integers).await;
        }
        Kill::Disable => engine.control(0, LogicKind::Integers).await,
        Kill::Reset => {
            let control = function.address(0, r::CONTROL).unwrap();
            cpu.write_u32(control, r::control::RESET).await.unwrap();
        }
        Kill::FunctionLevelReset => {
            let control = function.pcie.unwrap() + 2;
            cpu.config_write(function.bdf, control, 0b0011, FLR).await.unwrap();
            // All data in flight have arrived by then.
            cpu.sleep(Duration::from_us(5)).await;
            cpu.config_write(function.bdf, 1, 0b0011, 6).await.unwrap();
        }
    }
}

/// One engine with a full ring.
async fn round(cpu: &Cpu, function: FoundFunction, memory: [u64; 3], random: &mut Rng) -> u64 {
    let [arena, ring, write_back] = memory;
    let (number, seed) = (random.below(2), random.below(u64::MAX));
    let host_ring = random.below(2) == 0;
    let pieces = pieces(random, arena);
    let mut expected = vec![BLANK; ARENA as usize];
    let mut stream = Stream::new(seed);
    for piece in &pieces {
        let at = (piece.address - arena) as usize;
        stream.fill(&mut expected[at..at + piece.bytes as usize]);
    }
    let before = if number == 0 { expected.clone() } else { vec![BLANK; ARENA as usize] };
    cpu.memory().write(arena, &before).unwrap();
    let mut engine = Engine::at_places(cpu, function, number, host_ring.then_some(ring), write_back).await;
    engine.set64(engine::SEED, seed).await;
    engine.enable(LogicKind::Integers).await;
    let flags = |piece: &Piece| if piece.more { d::flags::MORE } else { 0 };
    let descriptors: Vec<_> = pieces.iter().map(|p| (p.address, p.bytes, flags(p))).collect();
    let (first, rest) = descriptors.split_at(random.below(descriptors.len() as u64 + 1) as usize);
    engine.post(first).await;
    engine.post(rest).await;
    // A reset of the physical function would include the virtual ones.
    let kinds = KILLS.len() as u64 - u64::from(function.bdf == Bdf::from_bits(PF));
    let how = KILLS[random.below(kinds) as usize];
    if how != Kill::Nothing {
        cpu.sleep(Duration::from_ns(random.below(12_000))).await;
        kill(cpu, function, &engine, how).await;
    }
    let forgotten = matches!(how, Kill::Reset | Kill::FunctionLevelReset);
    if !forgotten {
        let failed = engine.done(pieces.len() as u32).await;
        let statuses = engine.statuses(pieces.len() as u32).await;
        let whole = statuses.iter().take_while(|(code, _)| *code == E::Ok).count();
        assert_eq!(failed as usize, pieces.len() - whole, "{how:?} {statuses:?}");
        assert!(how != Kill::Nothing || failed == 0, "{statuses:?}");
        for ((code, moved), piece) in statuses.iter().zip(&pieces).take(whole) {
            assert_eq!((*code, *moved), (E::Ok, piece.bytes));
        }
        assert!(statuses[whole..].iter().all(|(code, _)| *code == E::Aborted), "{statuses:?}");
        if number == 1 {
            let end = pieces.get(whole).map_or(ARENA, |piece| piece.address - arena) as usize;
            let mut now = vec![0; ARENA as usize];
            cpu.memory().read(arena, &mut now).unwrap();
            assert!(now[..end] == expected[..end], "{how:?}: reported data are missing");
        }
    }
    // Each other byte has its expected value or its initial one.
    let mut now = vec![0; ARENA as usize];
    cpu.memory().read(arena, &mut now).unwrap();
    for (at, byte) in now.iter().enumerate() {
        assert!(*byte == expected[at] || *byte == before[at], "{how:?}: byte {at} is {byte:#x}");
    }
    pieces.iter().map(|piece| piece.bytes).sum()
}

/// `RISER_ROUNDS` rounds of each function; the default is 60.
#[test]
fn every_byte_is_correct_after_random_operations() {
    let rounds = std::env::var("RISER_ROUNDS").map_or(60, |rounds| rounds.parse().unwrap());
    for (seed, window_of) in [(1, WindowOf::All), (2, WindowOf::Function)] {
        let mut bench =
            Bench::new(&Settings { vfs: FUNCTIONS - 1, window: 6, window_of, ..Settings::default() });
        let ended = bench.run_program(move |cpu, functions| async move {
            let mut running = Vec::new();
            for (n, function) in (0..).zip(functions) {
                let alloc = |bytes| cpu.memory().alloc(bytes, 4096).unwrap();
                let memory = [alloc(ARENA), alloc(4096), alloc(64)];
                let (here, mut random) =
                    (cpu.clone(), Rng(Xoshiro256StarStar::seed_from_u64(seed * 1000 + n)));
                running.push(cpu.spawn(async move {
                    let mut bytes = 0;
                    for _ in 0..rounds {
                        bytes += round(&here, function, memory, &mut random).await;
                    }
                    bytes
                }));
            }
            for task in running {
                assert!(task.await.map_err(|e| e.to_string())? > 0);
            }
            Ok(())
        });
        assert_eq!(ended, Ok(()));
        assert_eq!(bench.slot.endpoint.counters().unexpected_completions, 0);
    }
}
