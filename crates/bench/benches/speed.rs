// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Speed of riser itself: TLP hops per CPU second of 256 B DMA writes and reads with 32 outstanding on Gen3 x16, and
//! decoded TLPs per CPU second of a generated capture. Results are medians of several runs in CPU time. On a noisy
//! machine, compare only rows of one run.

use capture::{Reader, Stats};
use devices::pcie_bench::{Bench, Test};
use lab::LabFile;
use lab::schema::{Lab, Link, Slot};
use plug::values::{Gen, Lanes};
use rustix::time::{ClockId, clock_gettime};
use session::CaptureOptions;
use std::io::Cursor;

const RUNS: usize = 5;

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn lab(test: Test, transfers: u64, carry: bool) -> LabFile {
    let bench = Bench { test, size_bytes: 256, outstanding: Some(32), transfers, carry, ..Bench::default() };
    let lab = Lab {
        seed: 1,
        link: Link { generation: Gen::try_from(3).ok(), lanes: Lanes::try_from(16).ok(), ..Link::default() },
        slot: vec![Slot::new("card", bench)],
        ..Lab::default()
    };
    LabFile { lab, base: ".".into() }
}

/// Returns hops and CPU seconds of a run; with `capture`, also the capture, which is written to memory.
fn run(file: &LabFile, capture: bool) -> (u64, f64, Vec<u8>) {
    let mut session = session::Session::new(file).expect("a lab that can be built");
    let handle = capture.then(|| {
        session.capture(Cursor::new(Vec::new()), CaptureOptions::default()).expect("writing to memory")
    });
    let start = cpu_seconds();
    let stop = session.fabric.run(fabric::Limits::default());
    let spent = cpu_seconds() - start;
    assert_eq!(stop, fabric::Stop::Finished);
    session.fabric.take_tap();
    let bytes =
        handle.and_then(|h| h.finish().expect("writing to memory")).map_or(Vec::new(), Cursor::into_inner);
    (session.fabric.totals().tlp_hops, spent, bytes)
}

fn median(mut of: impl FnMut() -> (u64, f64)) -> (u64, f64) {
    let mut runs: Vec<(u64, f64)> = (0..RUNS).map(|_| of()).collect();
    runs.sort_by(|a, b| a.1.total_cmp(&b.1));
    runs[RUNS / 2]
}

fn report(name: &str, (count, seconds): (u64, f64), unit: &str) {
    let (rate, each) = (count as f64 / seconds / 1e6, seconds * 1e9 / count as f64);
    println!("{name:42} {count:>9} {unit} {rate:>7.2} M/CPU-s {each:>7.1} ns each");
}

fn main() {
    for (name, test) in [("writes", Test::BwWr), ("reads", Test::BwRd)] {
        // A read makes two hops.
        let transfers = if test == Test::BwWr { 1_000_000 } else { 500_000 };
        let go = |n: u64, carry, capture| {
            let file = lab(test, n, carry);
            median(|| {
                let (hops, spent, _) = run(&file, capture);
                (hops, spent)
            })
        };
        report(&format!("256 B {name}, payload counted"), go(transfers, false, false), "hops");
        report(&format!("256 B {name}, payload counted, a tenth"), go(transfers / 10, false, false), "hops");
        report(&format!("256 B {name}, payload carried"), go(transfers, true, false), "hops");
        report(&format!("256 B {name}, counted, captured"), go(transfers, false, true), "hops");
        report(&format!("256 B {name}, carried, captured"), go(transfers, true, true), "hops");
    }
    let (_, _, bytes) = run(&lab(Test::BwRd, 500_000, true), true);
    report("trace --stats, payload carried", median(|| decode(&bytes)), "TLPs");
    let (_, _, bytes) = run(&lab(Test::BwRd, 500_000, false), true);
    report("trace --stats, payload counted", median(|| decode(&bytes)), "TLPs");
}

fn decode(bytes: &[u8]) -> (u64, f64) {
    let start = cpu_seconds();
    let mut reader = Reader::new(bytes).expect("a capture");
    let mut stats = Stats::new();
    let mut records = 0;
    while let Some(record) = reader.next_record().expect("reading from memory") {
        stats.add(&record);
        records += 1;
    }
    (records, cpu_seconds() - start)
}
