// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random operations on a function: settings of engines, valid and invalid descriptors, and interruptions. The plan
//! depends only on the seed, not on the device.

use devices::dma_engine::registers::{LogicKind, descriptor as d};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256StarStar;

/// Size of an engine's work memory in bytes.
pub(crate) const ARENA: u64 = 1 << 16;
/// Additional bytes, for the last piece of a loop-back.
pub(crate) const MARGIN: u64 = 1 << 17;
/// Maximum bytes of a descriptor: in most rounds, in a loop-back, and in rounds that must end soon.
const MOST: [u64; 3] = [20_000, 5_000, 300];
/// Maximum number of descriptors of a ring in host memory.
pub(crate) const MOST_ENTRIES: u32 = 64;
/// Maximum number of descriptors of an engine in a round.
pub(crate) const MOST_DESCRIPTORS: u64 = 24;
/// Maximum bytes of a transfer (data sheet).
const MOST_BYTES: u64 = 1 << 40;
/// Delay of coalescing by time. This time is longer than any round with coalescing.
pub(crate) const HELD_US: u32 = 40;

/// Random numbers below a limit, nearly equally distributed.
pub(crate) struct Lot(Xoshiro256StarStar);

impl Lot {
    pub(crate) fn new(seed: u64) -> Lot {
        Lot(Xoshiro256StarStar::seed_from_u64(seed))
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0.next_u64() % limit
    }

    /// Returns true in `many` percent of calls.
    pub(crate) fn of_100(&mut self, many: u64) -> bool {
        self.below(100) < many
    }

    fn among<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// Kind of a round of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Both engines, independently.
    Apart,
    /// Only this engine.
    Alone(usize),
    /// Data go from one engine to the other.
    Loop,
    /// The round is interrupted.
    Killed(Kill),
    /// The ring is invalid.
    Ring(RingFault),
    /// Bus Master Enable is clear.
    NoMaster,
}

/// Ways to interrupt a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kill {
    Abort,
    Disable,
    Reset,
    FunctionLevelReset,
}

/// Errors of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RingFault {
    Entries,
    Unaligned,
    Beyond,
    Logic,
}

/// One descriptor, relative to the arena of its engine. `nowhere`: its address is far beyond all memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Descriptor {
    pub(crate) at: u64,
    pub(crate) nowhere: bool,
    pub(crate) bytes: u64,
    pub(crate) flags: u32,
    /// Position of a byte that differs from the stream.
    pub(crate) wrong_byte: Option<u64>,
}

/// Work of an engine in a round.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) host_ring: bool,
    pub(crate) entries: u32,
    pub(crate) write_back: bool,
    pub(crate) write_status: bool,
    pub(crate) coalesce: (u32, u32),
    pub(crate) seed: u64,
    pub(crate) logic: LogicKind,
    pub(crate) descriptors: Vec<Descriptor>,
    /// Number of descriptors posted in each step.
    pub(crate) posts: Vec<u32>,
}

/// One round of a function.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) kind: Kind,
    /// The vectors are masked until the end.
    pub(crate) masked: bool,
    /// Nanoseconds until the round is interrupted.
    pub(crate) kill_after: u64,
    pub(crate) work: [Option<Work>; 2],
}

impl Round {
    /// Draws the next round. `is_virtual`: a virtual function. `device_entries`: number of descriptors of an engine in the device.
    pub(crate) fn draw(lot: &mut Lot, is_virtual: bool, device_entries: u32) -> Round {
        let kind = kind(lot, is_virtual);
        let work = match kind {
            Kind::Loop => loop_back(lot, device_entries),
            Kind::Alone(engine) => {
                let mut work = [None, None];
                work[engine] = Some(Work::draw(lot, engine, kind, device_entries));
                work
            }
            _ => [0, 1].map(|engine| Some(Work::draw(lot, engine, kind, device_entries))),
        };
        Round { kind, masked: lot.of_100(6), kill_after: lot.below(6000), work }
    }
}

fn kind(lot: &mut Lot, is_virtual: bool) -> Kind {
    match lot.below(100) {
        0..50 => Kind::Apart,
        50..70 => Kind::Alone(lot.below(2) as usize),
        70..83 => Kind::Loop,
        83..93 => {
            let kills = [Kill::Abort, Kill::Disable, Kill::Reset, Kill::FunctionLevelReset];
            Kind::Killed(lot.among(&kills[..3 + usize::from(is_virtual)]))
        }
        93..97 => Kind::Ring(lot.among(&[
            RingFault::Entries,
            RingFault::Unaligned,
            RingFault::Beyond,
            RingFault::Logic,
        ])),
        _ => Kind::NoMaster,
    }
}

impl Work {
    fn draw(lot: &mut Lot, engine: usize, kind: Kind, device_entries: u32) -> Work {
        let mut work = Work::set_up(lot, device_entries);
        let (mut count, mut errs) = (1 + lot.below(MOST_DESCRIPTORS), true);
        match kind {
            Kind::Killed(_) => errs = false,
            Kind::Ring(_) => count = 1 + lot.below(3),
            Kind::NoMaster => count = 1 + lot.below(4),
            _ if lot.of_100(5) => {
                // Delayed by time. The delay ends before the next round.
                work.coalesce = (2 + lot.below(6) as u32, HELD_US);
                count = 1 + lot.below(6);
            }
            _ => {}
        }
        work.logic = lot.among(&[LogicKind::Integers, LogicKind::Integers, LogicKind::Plain]);
        let soon = work.coalesce.1 > 0 || matches!(kind, Kind::Ring(_));
        work.descriptors = descriptors(lot, count, MOST[if soon { 2 } else { 0 }]);
        if errs {
            let host_ring = work.host_ring;
            work.descriptors.iter_mut().for_each(|d| spoil(lot, d, engine, host_ring));
        }
        work.posts = posts(lot, work.descriptors.len() as u32, work.entries);
        work
    }

    fn set_up(lot: &mut Lot, device_entries: u32) -> Work {
        let host_ring = lot.of_100(60);
        let most = if host_ring { MOST_ENTRIES } else { device_entries.min(MOST_ENTRIES) };
        Work {
            host_ring,
            entries: 1 << lot.below(u64::from(most.ilog2()) + 1),
            write_back: lot.of_100(90),
            write_status: lot.of_100(50),
            coalesce: if lot.of_100(70) { (lot.below(2) as u32, 0) } else { (2 + lot.below(5) as u32, 0) },
            seed: lot.below(u64::MAX),
            logic: LogicKind::LoopBack,
            descriptors: Vec::new(),
            posts: Vec::new(),
        }
    }
}

fn loop_back(lot: &mut Lot, device_entries: u32) -> [Option<Work>; 2] {
    let [mut up, mut down] = [0, 1].map(|_| Work::set_up(lot, device_entries));
    let count = 1 + lot.below(MOST_DESCRIPTORS);
    up.descriptors = descriptors(lot, count, MOST[1]);
    let mut left: u64 = up.descriptors.iter().map(|d| d.bytes).sum();
    // The same bytes, cut differently.
    let count = 1 + lot.below(MOST_DESCRIPTORS);
    for mut piece in descriptors(lot, count, MOST[1]) {
        piece.bytes = piece.bytes.min(left);
        left -= piece.bytes;
        if piece.bytes > 0 {
            down.descriptors.push(piece);
        }
    }
    // A last descriptor takes the remaining bytes.
    let flags = lot.below(2) as u32;
    if left > 0 {
        down.descriptors.push(Descriptor {
            at: ARENA + lot.below(64),
            nowhere: false,
            bytes: left,
            flags,
            wrong_byte: None,
        });
    }
    for work in [&mut up, &mut down] {
        work.posts = posts(lot, work.descriptors.len() as u32, work.entries);
    }
    [Some(up), Some(down)]
}

/// Returns disjoint pieces of the arena in random order.
fn descriptors(lot: &mut Lot, count: u64, most: u64) -> Vec<Descriptor> {
    let (mut at, mut all) = (0, Vec::new());
    for _ in 0..count {
        at += match lot.below(4) {
            0 => 0,
            1 => lot.below(70),
            2 => (64 - at % 64) % 64,
            // Near a 4 KiB boundary, which no request crosses.
            _ => (4096 - at % 4096 + 4096 * lot.below(2)).saturating_sub(lot.below(2) * lot.below(40)),
        };
        let of_class = match lot.below(100) {
            0..30 => 17,
            30..60 => 300,
            60..85 => 1500,
            85..98 => 5000,
            _ => 20_000,
        };
        let bytes = 1 + lot.below(of_class.min(most));
        if at + bytes > ARENA {
            break;
        }
        let interrupt = if lot.of_100(40) { d::flags::INTERRUPT } else { 0 };
        let more = if lot.of_100(25) { d::flags::MORE } else { 0 };
        all.push(Descriptor { at, nowhere: false, bytes, flags: interrupt | more, wrong_byte: None });
        at += bytes;
    }
    for n in (1..all.len()).rev() {
        all.swap(n, lot.below(n as u64 + 1) as usize);
    }
    all
}

impl Work {
    /// True if a descriptor consumes bytes of the stream.
    pub(crate) fn is_right(&self, descriptor: &Descriptor) -> bool {
        let reserved = self.host_ring && descriptor.flags & !(d::flags::INTERRUPT | d::flags::MORE) != 0;
        (1..=MOST_BYTES).contains(&descriptor.bytes) && descriptor.at <= ARENA + MARGIN && !reserved
    }

    /// Returns which descriptors fail without moving all their data, according to the data sheet's rules for them and for chains.
    pub(crate) fn failing(&self) -> Vec<bool> {
        let mut chain_failed = false;
        let fails = |descriptor: &Descriptor| {
            let moves = !chain_failed && self.is_right(descriptor) && !descriptor.nowhere;
            let differs = self.logic == LogicKind::Integers && descriptor.wrong_byte.is_some();
            chain_failed = descriptor.flags & d::flags::MORE != 0 && (!moves || differs);
            !moves
        };
        self.descriptors.iter().map(fails).collect()
    }
}

/// Makes some descriptors invalid.
fn spoil(lot: &mut Lot, descriptor: &mut Descriptor, engine: usize, host_ring: bool) {
    match lot.below(100) {
        0..2 => descriptor.bytes = 0,
        2..3 => descriptor.bytes = MOST_BYTES + 1 + lot.below(1 << 20),
        3..4 => {
            descriptor.at = 0u64.wrapping_sub(descriptor.bytes);
            descriptor.bytes += 1;
        }
        4..6 if host_ring => descriptor.flags |= 4 << lot.below(30),
        6..9 if engine == 0 => descriptor.nowhere = true,
        9..12 if engine == 0 => descriptor.wrong_byte = Some(lot.below(descriptor.bytes)),
        _ => {}
    }
}

fn posts(lot: &mut Lot, count: u32, entries: u32) -> Vec<u32> {
    let (mut left, mut posts) = (count, Vec::new());
    while left > 0 {
        let most = if lot.of_100(50) { 4 } else { MOST_ENTRIES };
        let some = 1 + lot.below(u64::from(left.min(entries).min(most))) as u32;
        posts.push(some);
        left -= some;
    }
    posts
}
