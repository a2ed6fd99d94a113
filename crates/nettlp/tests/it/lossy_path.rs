// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads over a path that loses 1 % of all datagrams, duplicates 1 % and delays 5 %, from memory that is rewritten all the
//! time. Every byte must have a version that was current during its read. In virtual time, from one seed.
//!
//! 10 million reads (half a minute):
//! `cargo nextest run --release -p riser-nettlp --profile long --no-capture --run-ignored only lossy_path::`

use crate::common::stamped::Stamped;
use riser_nettlp::requester::{Buffers, Counters, Requester, RequesterSettings, Rest};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;
use tlp::{Bdf, Body, Completion, Duration, Mps, Rcb, Repr, Time, split};

const LATENCY: Duration = Duration::from_us(5);
const HELD_BACK_US: u64 = 200;
/// Longest time that a request and its completions can be in flight, if both are delayed.
const LIFETIME: Duration = Duration::from_us(2 * (5 + 1 + HELD_BACK_US));
const TIMEOUT: Duration = Duration::from_us(150);
const RETRIES: u8 = 9;
const MEMORY: Stamped = Stamped { lifetime_ps: 20_000_000 };
const WINDOW: u64 = 1 << 20;
const LONGEST: usize = 700;
const READS_AT_ONCE: usize = 64;

/// A xorshift generator: equal numbers on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % sides
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum To {
    Completer,
    Requester,
}

/// Datagrams in flight, sorted by time of arrival. Their bytes are in a pool.
struct Path {
    dice: Dice,
    under_way: BinaryHeap<Reverse<(Time, u64, To, usize)>>,
    pool: Vec<Vec<u8>>,
    free: Vec<usize>,
    count: u64,
}

impl Path {
    fn new(seed: u64) -> Path {
        let (under_way, pool, free) = (BinaryHeap::new(), Vec::new(), Vec::new());
        Path { dice: Dice(seed), under_way, pool, free, count: 0 }
    }

    fn send(&mut self, now: Time, to: To, len: usize, fill: impl Fn(&mut [u8])) {
        let copies = match self.dice.roll(100) {
            0 => 0,
            1 => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let place = self.free.pop().unwrap_or_else(|| {
                self.pool.push(Vec::new());
                self.pool.len() - 1
            });
            self.pool[place].resize(len, 0);
            fill(&mut self.pool[place]);
            let at = now + self.delay();
            self.count += 1;
            self.under_way.push(Reverse((at, self.count, to, place)));
        }
    }

    fn delay(&mut self) -> Duration {
        let held_back = if self.dice.roll(100) < 5 { self.dice.roll(HELD_BACK_US * 1000) } else { 0 };
        LATENCY + Duration::from_ns(self.dice.roll(1000) + held_back)
    }

    fn next(&self) -> Time {
        self.under_way.peek().map_or(Time::MAX, |Reverse((at, ..))| *at)
    }
}

/// Answers an MRd like a root complex: split at the Read Completion Boundary.
fn complete(path: &mut Path, now: Time, mrd: &[u8]) {
    let Body::Memory(m) = Repr::parse(mrd).expect("a request").repr.body else { panic!("no memory request") };
    let (mps, rcb) = (Mps::new(256).unwrap(), Rcb::new(64).unwrap());
    let (mut address, mut remaining) = (m.span.first_byte(), m.span.byte_count());
    while remaining > 0 {
        let len = split::completion_piece(address, remaining, mps, rcb);
        let (first, last) = (address & !3, (address + u64::from(len)).next_multiple_of(4));
        let header = Repr::new(Body::Completion(Completion {
            byte_count: remaining as u16,
            lower_address: address as u8 & 0x7f,
            length_dw: Some(((last - first) / 4) as u16),
            ..Completion::new(Bdf::from_bits(0), m.requester, m.tag)
        }));
        path.send(now, To::Requester, header.tlp_len(), |out| {
            let header_len = header.emit(out);
            MEMORY.fill(first, now, &mut out[header_len..]);
        });
        (address, remaining) = (address + u64::from(len), remaining - len);
    }
}

/// Outstanding reads, each with a buffer.
struct Reads {
    address: Vec<u64>,
    data: Vec<Vec<u8>>,
    free: Vec<usize>,
}

impl Buffers for Reads {
    fn place(&mut self, token: u64, offset: u64, len: usize) -> Option<&mut [u8]> {
        self.data[token as usize].get_mut(offset as usize..offset as usize + len)
    }

    fn data(&self, _: u64, _: u64, _: usize) -> Option<&[u8]> {
        None
    }
}

#[derive(Default, Debug)]
struct Outcome {
    reads: u64,
    failed: u64,
    /// Number of reads that returned bytes of another address, or of a version that was not current.
    wrong: u64,
    longest: Duration,
    virtual_time: Time,
    counters: Counters,
}

struct Run {
    dice: Dice,
    path: Path,
    requester: Requester,
    reads: Reads,
    now: Time,
    outcome: Outcome,
}

impl Run {
    fn new(seed: u64, rest: Rest) -> Run {
        let settings = RequesterSettings::unreliable(Bdf::from_bits(0x1a00), 0..=255, rest);
        let settings = RequesterSettings { timeout: TIMEOUT, retries: RETRIES, ..settings };
        let data = vec![Vec::new(); READS_AT_ONCE];
        let reads = Reads { address: vec![0; READS_AT_ONCE], data, free: (0..READS_AT_ONCE).collect() };
        Run {
            dice: Dice(seed ^ 0x5eed),
            path: Path::new(seed),
            requester: Requester::new(settings),
            reads,
            now: Time::ZERO,
            outcome: Outcome::default(),
        }
    }

    fn run(mut self, reads: u64) -> Outcome {
        let mut begun = 0;
        while self.outcome.reads < reads {
            while begun < reads
                && let Some(place) = self.reads.free.pop()
            {
                self.begin(place);
                begun += 1;
            }
            self.transmit();
            self.step();
            self.check_ends();
        }
        Outcome { virtual_time: self.now, counters: *self.requester.counters(), ..self.outcome }
    }

    // Three of four reads are like those of tlpperf, whose answers all have the same form. The others have any
    // address and length.
    fn begin(&mut self, place: usize) {
        let (address, len) = match self.dice.roll(4) {
            0 => (self.dice.roll(WINDOW), 1 + self.dice.roll(LONGEST as u64)),
            _ => (self.dice.roll(WINDOW / 256) * 256, 256),
        };
        self.reads.address[place] = address;
        self.reads.data[place].clear();
        self.reads.data[place].resize(len as usize, 0);
        self.requester.read(address, len, place as u64).expect("there is room");
    }

    fn transmit(&mut self) {
        while let Some(outgoing) = self.requester.poll_transmit() {
            let reads = &self.reads;
            let emit = |out: &mut [u8]| outgoing.emit(reads, out);
            self.path.send(self.now, To::Completer, outgoing.tlp_len(), emit);
            self.requester.sent(self.now, &outgoing);
        }
    }

    fn step(&mut self) {
        let timer = self.requester.poll_timeout().unwrap_or(Time::MAX);
        self.now = self.now.max(timer.min(self.path.next()));
        assert!(self.now < Time::MAX, "nothing is in flight, and no timer runs");
        self.requester.handle_timeout(self.now);
        while self.path.next() <= self.now {
            let Some(Reverse((_, _, to, place))) = self.path.under_way.pop() else { break };
            let bytes = std::mem::take(&mut self.path.pool[place]);
            match to {
                To::Completer => complete(&mut self.path, self.now, &bytes),
                To::Requester => {
                    self.requester.handle(self.now, &bytes, &mut self.reads);
                }
            }
            self.path.pool[place] = bytes;
            self.path.free.push(place);
        }
    }

    fn check_ends(&mut self) {
        while let Some(done) = self.requester.poll_done() {
            let place = done.token as usize;
            let (address, data) = (self.reads.address[place], &self.reads.data[place]);
            self.outcome.reads += 1;
            self.outcome.failed += u64::from(done.result.is_err());
            let is_current = MEMORY.is_current(address, data, done.sent, self.now);
            self.outcome.wrong += u64::from(done.result.is_ok() && !is_current);
            self.outcome.longest = self.outcome.longest.max(self.now.since(done.sent));
            self.reads.free.push(place);
        }
    }
}

const RESTS: Rest = Rest { lost: LIFETIME, duplicate: LIFETIME };

fn check(outcome: &Outcome) {
    assert_eq!((outcome.wrong, outcome.failed), (0, 0), "{outcome:?}");
    // A read has at most 3 TLPs. Each attempt may wait for a tag, and then for its completions.
    let bound = (LIFETIME + TIMEOUT) * (u64::from(RETRIES) + 1);
    assert!(outcome.longest <= bound, "{} is longer than {bound}", outcome.longest);
    // The faults occurred.
    let counters = &outcome.counters;
    let seldom = [counters.retried, counters.late, counters.copies, counters.strays.total()];
    assert!(seldom.iter().all(|count| *count > outcome.reads / 1000), "{outcome:?}");
}

#[test]
fn reads_over_lossy_path_return_current_data() {
    check(&Run::new(1, RESTS).run(100_000));
}

#[test]
fn late_completions_give_wrong_data_without_rest() {
    let outcome = Run::new(1, Rest::OFF).run(100_000);
    assert!(outcome.wrong > 0, "nothing was wrong although no tag rests: {outcome:?}");
}

// Both parts of the rest are needed. A duplicated request is answered twice even if no read was given up, and a delayed
// completion arrives even if no datagram was duplicated.
#[test]
fn tags_that_rest_too_briefly_cause_wrong_data() {
    for rest in [
        Rest { lost: LIFETIME, duplicate: Duration::ZERO },
        Rest { lost: Duration::ZERO, duplicate: Duration::from_us(20) },
    ] {
        let outcome = Run::new(1, rest).run(100_000);
        assert!(outcome.wrong > 0, "nothing was wrong with {rest:?}: {outcome:?}");
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    let [one, other] = [(); 2].map(|()| format!("{:?}", Run::new(7, RESTS).run(5_000)));
    assert_eq!(one, other);
    assert_ne!(one, format!("{:?}", Run::new(8, RESTS).run(5_000)));
}

#[test]
#[ignore = "10 million reads: run with --release -- --ignored --nocapture"]
fn ten_million_reads_return_current_data() {
    let begun = Instant::now();
    let outcome = Run::new(2, RESTS).run(10_000_000);
    let (wall, time) = (begun.elapsed().as_secs_f64(), outcome.virtual_time);
    println!("{outcome:?}\n{time} of virtual time, {wall:.1} s of wall time");
    check(&outcome);
}
