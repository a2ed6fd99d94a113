// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the TLPs that one second of CPU time writes, and reads for each view of `riser trace`, with a capture
//! of a million TLPs in memory.
//!
//! `cargo run --release -p riser-capture --example throughput [TLPs]`
//!
//! The traffic is DMA of 256 B: writes, and reads with completions, 32 outstanding. The last capture has writes on
//! both links of a switch, whose order `--check` checks.

use riser_capture::check::{Checker, FunctionOverrides};
use riser_capture::credits::Ledgers;
use riser_capture::series::Series;
use riser_capture::transactions::{Summary, append_json, append_line};
use riser_capture::{
    Direction, Filter, InterfaceId, Mark, Origin, Reader, Record, Sieve, Stats, Tracker, Transaction, Writer,
    perfetto, render,
};
use std::io::Cursor;
use std::time::{Duration, Instant};
use tlp::{
    Bdf, Body, Completion, Data, Dllp, MemoryOp, MemoryRequest, Payload, PayloadPool, Repr, Span, Tag, Time,
    Tlp,
};

/// CPU time of this thread; wall-clock time on systems without it.
fn cpu_time(start: Instant) -> Duration {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = schedstat.split(' ').next().and_then(|field| field.parse().ok());
    ns.map_or_else(|| start.elapsed(), Duration::from_nanos)
}

fn memory(op: MemoryOp, index: u64, data: Data) -> Tlp {
    let span = Span::covering(0x1_0000_0000 + index % 4096 * 256, 256).expect("aligned");
    let requester = Bdf::from_bits(0x0100);
    let tag = Tag::from_bits(index as u16 % 32);
    Tlp::new(Repr::new(Body::Memory(MemoryRequest { op, requester, tag, span })), data).with_carry(true)
}

fn completion(index: u64, data: Data) -> Tlp {
    let body = Body::Completion(Completion {
        byte_count: 256,
        length_dw: Some(64),
        ..Completion::new(Bdf::default(), Bdf::from_bits(0x0100), Tag::from_bits(index as u16 % 32))
    });
    Tlp::new(Repr::new(body), data).with_carry(true)
}

struct Taps {
    writer: Writer<Vec<u8>>,
    up: InterfaceId,
    down: InterfaceId,
    /// Places of the next TLPs, upstream and downstream.
    places: [u64; 2],
    acks: bool,
}

/// One third each of writes, reads and completions. 32 reads come one after another, then their completions.
fn generate(tlps: u64, payload: Option<&Payload>, acks: bool) -> Vec<u8> {
    let mut writer = Writer::new(Vec::with_capacity(tlps as usize * 400)).expect("memory");
    let up = writer.tap(0, Direction::Upstream, "device to root port").expect("memory");
    let down = writer.tap(0, Direction::Downstream, "root port to device").expect("memory");
    let mut taps = Taps { writer, up, down, places: [0; 2], acks };
    for index in 0..tlps {
        write_one(&mut taps, index, payload.map_or(Data::Counted(256), |p| Data::Carried(p.clone())));
    }
    taps.writer.finish().expect("memory")
}

fn write_one(taps: &mut Taps, index: u64, data: Data) {
    let time = Time::from_ps(index * 21_333);
    let (interface, tlp) = match index / 32 % 3 {
        0 => (taps.up, memory(MemoryOp::Write, index, data)),
        1 => (taps.up, memory(MemoryOp::Read, index, Data::NONE)),
        _ => (taps.down, completion(index, data)),
    };
    if !taps.acks {
        return taps.writer.write_tlp(interface, time, &tlp, Origin::Device).expect("memory");
    }
    // Each TLP has a place, and every eighth gets an Ack.
    let way = usize::from(interface == taps.down);
    let place = taps.places[way];
    let mark = Mark { place: Some(place), ..Mark::default() };
    taps.writer.write_tlp_marked(interface, time, &tlp, Origin::Device, mark).expect("memory");
    taps.places[way] += 1;
    if place % 8 == 7 {
        let back = if way == 0 { taps.down } else { taps.up };
        let ack = Dllp::Ack { sequence: (place & 0xfff) as u16 };
        taps.writer.write_dllp(back, time, &ack).expect("memory");
    }
}

/// Writes on the two links of a switch, which holds 32 of them at a time.
fn generate_forwarded(tlps: u64) -> Vec<u8> {
    let mut writer = Writer::new(Vec::with_capacity(tlps as usize * 128)).expect("memory");
    let ingress = writer.tap(1, Direction::Upstream, "card, upstream, at the device").expect("memory");
    let egress = writer.tap(0, Direction::Upstream, "switch, upstream, at the device").expect("memory");
    let writes = tlps / 2;
    for index in 0..writes + 32 {
        let time = Time::from_ps(index * 42_666);
        let mut write = |interface, index| {
            let tlp = memory(MemoryOp::Write, index, Data::Counted(256));
            writer.write_tlp(interface, time, &tlp, Origin::Device).expect("memory");
        };
        if index < writes {
            write(ingress, index);
        }
        if let Some(leaving) = index.checked_sub(32) {
            write(egress, leaving);
        }
    }
    writer.finish().expect("memory")
}

fn check(capture: &[u8], tlps: u64, clock: Instant) {
    let mut checker = Checker::new(FunctionOverrides::default());
    measure("--check", capture, tlps, clock, |record| checker.see(record));
    checker.finish();
    assert_eq!(checker.next_finding(), None);
}

fn rate(what: &str, tlps: u64, start: Duration, end: Duration) {
    let spent = (end - start).as_nanos().max(1);
    let per_second = u128::from(tlps) * 1_000_000_000 / spent;
    println!(
        "  {what:<30}{per_second:>12} TLPs per CPU-second, {:>5} ns each",
        spent / u128::from(tlps.max(1))
    );
}

/// Reads a capture, and prints the time that `each` needs for its TLPs.
fn measure(what: &str, capture: &[u8], tlps: u64, clock: Instant, mut each: impl FnMut(&Record<'_>)) {
    let begin = cpu_time(clock);
    let mut reader = Reader::new(Cursor::new(capture)).expect("a capture");
    let mut decoded = 0;
    while let Some(record) = reader.next_record().expect("memory") {
        decoded += u64::from(record.tlp().is_some());
        each(&record);
    }
    assert_eq!(decoded, tlps);
    rate(what, tlps, begin, cpu_time(clock));
}

/// Renders transactions with `render`, and their summary. Returns the number of bytes of text.
fn transactions(
    what: &str,
    capture: &[u8],
    tlps: u64,
    clock: Instant,
    filter: Option<&Filter>,
    render: impl Fn(&Transaction, &mut String),
) {
    let (mut tracker, mut summary, mut line) = (Tracker::new(), Summary::new(), String::new());
    measure(what, capture, tlps, clock, |record| {
        tracker.see(record, filter.map_or(0, |filter| filter.terms(record)));
        while let Some(t) = tracker.next_ended() {
            if filter.is_none_or(|filter| filter.holds_for(&t)) {
                summary.add(&t);
                line.clear();
                render(&t, &mut line);
            }
        }
    });
    assert!(!summary.report(&tracker).to_string().is_empty());
}

fn views(capture: &[u8], tlps: u64, clock: Instant) {
    measure("decode", capture, tlps, clock, |_| {});
    let mut stats = Stats::new();
    measure("--stats", capture, tlps, clock, |record| {
        stats.add(record);
    });
    check(capture, tlps, clock);
    let mut line = String::new();
    measure("lines", capture, tlps, clock, |record| {
        line.clear();
        render::line(record, &mut line);
    });
    measure("--json", capture, tlps, clock, |record| {
        line.clear();
        render::json(record, &mut line);
    });
    transactions("--transactions", capture, tlps, clock, None, |t, line| append_line(t, 12, line));
    transactions("--transactions --json", capture, tlps, clock, None, append_json);
    let text =
        "type=MRd and (tag=0x12 or addr=0x100000000..0x100001000) and not status!=success and time>1us";
    let filter: Filter = text.parse().expect("a filter");
    transactions("--transactions --filter", capture, tlps, clock, Some(&filter), |t, line| {
        append_line(t, 12, line)
    });
    let mut sieve = Sieve::new(Some(filter));
    let mut kept = 0;
    measure("--filter, with time", capture, tlps, clock, |record| kept += u64::from(sieve.keeps(record)));
    let text = "(type=MWr or type=CplD) and tag=0..16 and dir=up and not addr=0x100000000..0x100001000";
    let mut sieve = Sieve::new(Some(text.parse().expect("a filter")));
    measure("--filter", capture, tlps, clock, |record| kept += u64::from(sieve.keeps(record)));
    for (what, interval) in [("--stats --interval auto", None), ("--stats --interval 10us", Some(10_000_000))]
    {
        let mut series = Series::new(interval, Ledgers::new());
        measure(what, capture, tlps, clock, |record| series.add(record).expect("few intervals"));
        assert!(!series.report(None).rows.is_empty());
    }
    let mut perfetto = perfetto::Writer::new(std::io::sink(), None).expect("a sink");
    measure("--perfetto", capture, tlps, clock, |record| perfetto.see(record).expect("a sink"));
    assert!(kept > 0);
}

fn main() {
    let tlps: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let clock = Instant::now();
    let payload = PayloadPool::new().copy(&[0x5a; 256]);
    let rows = [
        ("payload counted", None, false),
        ("payload carried", Some(&payload), false),
        ("payload counted, with Acks", None, true),
    ];
    for (what, payload, acks) in rows {
        println!("{what}");
        let begin = cpu_time(clock);
        let capture = generate(tlps, payload, acks);
        rate("write", tlps, begin, cpu_time(clock));
        views(&capture, tlps, clock);
    }
    println!("posted writes on two links");
    let (capture, tlps) = (generate_forwarded(tlps), tlps / 2 * 2);
    measure("decode", &capture, tlps, clock, |_| {});
    check(&capture, tlps, clock);
}
