// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many TLPs a CPU-second writes, decodes and counts: a capture of a million TLPs, in memory.
//!
//! `cargo run --release -p riser-capture --example throughput [TLPs]`
//!
//! The traffic is that of DMA with 256 B: writes, and reads with 32 outstanding and their completions.

use riser_capture::{Direction, InterfaceId, Origin, Reader, Stats, Writer, render};
use std::io::Cursor;
use std::time::{Duration, Instant};
use tlp::{
    Bdf, Body, Completion, Data, MemoryOp, MemoryRequest, Payload, PayloadPool, Repr, Span, Status, Tag,
    Time, Tlp,
};

/// Nanoseconds this thread has had a CPU; the wall clock where the system does not say.
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
        locked: false,
        completer: Bdf::default(),
        requester: Bdf::from_bits(0x0100),
        tag: Tag::from_bits(index as u16 % 32),
        status: Status::Success,
        bcm: false,
        byte_count: 256,
        lower_address: 0,
        length_dw: Some(64),
    });
    Tlp::new(Repr::new(body), data).with_carry(true)
}

struct Taps {
    writer: Writer<Vec<u8>>,
    up: InterfaceId,
    down: InterfaceId,
}

/// A third each of writes, reads and completions, as 32 reads in a row and then their completions.
fn generate(tlps: u64, payload: Option<&Payload>) -> Vec<u8> {
    let mut writer = Writer::new(Vec::with_capacity(tlps as usize * 400)).expect("memory");
    let up = writer.tap(0, Direction::Upstream, "device to root port").expect("memory");
    let down = writer.tap(0, Direction::Downstream, "root port to device").expect("memory");
    let mut taps = Taps { writer, up, down };
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
    taps.writer.write_tlp(interface, time, &tlp, Origin::Device).expect("memory");
}

fn rate(what: &str, tlps: u64, start: Duration, end: Duration) {
    let spent = (end - start).as_nanos().max(1);
    let per_second = u128::from(tlps) * 1_000_000_000 / spent;
    println!(
        "{what:<44}{per_second:>12} TLPs per CPU-second, {:>5} ns each",
        spent / u128::from(tlps.max(1))
    );
}

fn main() {
    let tlps: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let clock = Instant::now();
    let payload = PayloadPool::new().copy(&[0x5a; 256]);
    for (what, payload) in [("payload counted", None), ("payload carried", Some(&payload))] {
        let begin = cpu_time(clock);
        let capture = generate(tlps, payload);
        let written = cpu_time(clock);
        rate(&format!("{what}: write"), tlps, begin, written);

        let mut reader = Reader::new(Cursor::new(&capture)).expect("a capture");
        let mut decoded = 0;
        while let Some(record) = reader.next_record().expect("memory") {
            decoded += u64::from(record.tlp().is_some());
        }
        assert_eq!(decoded, tlps);
        let read = cpu_time(clock);
        rate(&format!("{what}: read, decode"), tlps, written, read);

        let mut reader = Reader::new(Cursor::new(&capture)).expect("a capture");
        let mut stats = Stats::new();
        while let Some(record) = reader.next_record().expect("memory") {
            stats.add(&record);
        }
        let counted = cpu_time(clock);
        rate(&format!("{what}: read, decode, count, match"), tlps, read, counted);

        let mut reader = Reader::new(Cursor::new(&capture)).expect("a capture");
        let (mut line, mut bytes) = (String::new(), 0);
        while let Some(record) = reader.next_record().expect("memory") {
            line.clear();
            render::line(&record, &mut line);
            bytes += line.len();
        }
        let lines = cpu_time(clock);
        rate(&format!("{what}: read, decode, lines"), tlps, counted, lines);

        let mut reader = Reader::new(Cursor::new(&capture)).expect("a capture");
        while let Some(record) = reader.next_record().expect("memory") {
            line.clear();
            render::json(&record, &mut line);
            bytes += line.len();
        }
        rate(&format!("{what}: read, decode, JSON"), tlps, lines, cpu_time(clock));
        println!("{} bytes of capture, {bytes} bytes of text", capture.len());
    }
}
