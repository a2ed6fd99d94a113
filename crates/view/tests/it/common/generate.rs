// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A capture of any size in memory: two devices that read and write, with Acks and flow control. Equal sizes give equal
//! captures.

use capture::writer::InterfaceId;
use capture::{Direction, Origin, Writer};
use tlp::{
    Bdf, Body, Completion, Data, Dllp, MemoryOp, MemoryRequest, PayloadPool, Repr, Span, Tag, Time, Tlp,
};

/// Latency of one read in picoseconds, far above all others.
pub(crate) const WORST_PS: u64 = 9_876_543;
/// Minimum latency of the other reads in picoseconds.
const LATENCY_PS: u64 = 1_100_000;
/// Time between two TLPs in picoseconds.
const GAP_PS: u64 = 21_333;
/// Number of outstanding reads of a device.
const TAGS: u64 = 32;

const INIT_FC1: u8 = 0x40;
const UPDATE_FC: u8 = 0x80;
const POSTED: u8 = 0;
const NON_POSTED: u8 = 1;
const COMPLETION: u8 = 2;

struct Link {
    /// The pool for random data; `None` for counted data.
    pool: Option<PayloadPool>,
    writer: Writer<Vec<u8>>,
    up: InterfaceId,
    down: InterfaceId,
    now: u64,
    written: u64,
    ups: u64,
    chance: u64,
}

/// Returns a capture of `tlps` TLPs: rounds of 32 reads with two completions each, and writes.
pub(crate) fn generated(tlps: u64) -> Vec<u8> {
    capture(tlps, None)
}

/// Returns the same capture with data that cannot be compressed.
pub(crate) fn noisy(tlps: u64) -> Vec<u8> {
    capture(tlps, Some(PayloadPool::new()))
}

/// Returns a read of 4 bytes at 0x1004, and a completion whose Lower Address is 0, not 4.
pub(crate) fn wrong_lower_address() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).expect("memory");
    let up = writer.tap(0, Direction::Upstream, "device to root port").expect("memory");
    let down = writer.tap(0, Direction::Downstream, "root port to device").expect("memory");
    let requester = Bdf::from_bits(0x0100);
    let (op, tag, span) =
        (MemoryOp::Read, Tag::from_bits(5), Span::covering(0x1004, 4).expect("a legal span"));
    let read = Body::Memory(MemoryRequest { op, requester, tag, span });
    let Body::Completion(of_512) = completion(requester, 5, 0) else { unreachable!("a completion") };
    let answer = Body::Completion(Completion { byte_count: 4, length_dw: Some(1), ..of_512 });
    for (interface, ns, body) in [(up, 100, read), (down, 400, answer)] {
        let data = if interface == up { Data::NONE } else { Data::Counted(4) };
        let tlp = Tlp::new(Repr::new(body), data);
        writer.write_tlp(interface, Time::from_ps(ns * 1000), &tlp, Origin::Device).expect("memory");
    }
    writer.finish().expect("memory")
}

fn capture(tlps: u64, pool: Option<PayloadPool>) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).expect("memory");
    let up = writer.tap(0, Direction::Upstream, "device to root port").expect("memory");
    let down = writer.tap(0, Direction::Downstream, "root port to device").expect("memory");
    let mut link = Link { pool, writer, up, down, now: 1_000_000, written: 0, ups: 0, chance: 1 };
    for class in [POSTED, NON_POSTED, COMPLETION] {
        link.credits(INIT_FC1, class, 64, 1024);
    }
    let worst = tlps / 2;
    for round in 0.. {
        if link.written >= tlps {
            break;
        }
        link.round(round, tlps, worst);
    }
    link.writer.finish().expect("memory")
}

impl Link {
    fn tlp(&mut self, up: bool, time: u64, body: Body, most: u64) {
        if self.written == most {
            return;
        }
        self.written += 1;
        self.ups += u64::from(up);
        let repr = Repr::new(body);
        let data = self.data(repr.data_lanes().len());
        let interface = if up { self.up } else { self.down };
        let tlp = Tlp::new(repr, data);
        self.writer.write_tlp(interface, Time::from_ps(time), &tlp, Origin::Device).expect("memory");
    }

    fn data(&mut self, len: usize) -> Data {
        let Some(pool) = self.pool.clone().filter(|_| len > 0) else { return Data::Counted(len as u32) };
        let bytes: Vec<u8> = (0..len).map(|_| self.chance(256) as u8).collect();
        Data::Carried(pool.copy(&bytes))
    }

    // Fields from the first byte on (`PCIe 5.0 §3.5.1`): type (4 bits), class (2), VC (3), HdrFC (8), DataFC (12).
    fn credits(&mut self, kind: u8, class: u8, header: u64, data: u64) {
        let dw = u32::from(kind | class << 4) << 24 | (header as u32 & 0xff) << 14 | data as u32 & 0xfff;
        let [a, b, c, d] = dw.to_be_bytes();
        let [e, f] = tlp::crc::dllp([a, b, c, d]).to_be_bytes();
        let dllp = Dllp::parse(&[a, b, c, d, e, f]).expect("flow control");
        self.writer.write_dllp(self.down, Time::from_ps(self.now), &dllp).expect("memory");
    }

    /// Returns the next pseudo-random number: a linear congruential generator (Knuth, TAOCP 2, 3.3.4).
    fn chance(&mut self, below: u64) -> u64 {
        self.chance =
            self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.chance >> 33) % below
    }

    // Writes 32 reads, 16 writes, then two completions per read, in another order than the reads.
    fn round(&mut self, round: u64, most: u64, worst: u64) {
        let requester = Bdf::from_bits(0x0100 + (round % 2) as u16 * 0x100);
        let (begin, before) = (self.now, self.written);
        for tag in 0..TAGS {
            let address = self.chance(1 << 20);
            self.tlp(true, begin + tag * GAP_PS, read(requester, tag, address), most);
        }
        for index in 0..16 {
            let address = self.chance(1 << 20);
            self.tlp(true, begin + (TAGS + index) * GAP_PS, write(requester, address), most);
        }
        let is_worst = (before..self.written + 2 * TAGS).contains(&worst);
        self.completions(requester, begin, is_worst, most);
        let sequence = (self.ups.saturating_sub(1) & 0xfff) as u16;
        self.writer.write_dllp(self.down, Time::from_ps(self.now), &Dllp::Ack { sequence }).expect("memory");
        self.credits(UPDATE_FC, POSTED, 64 + (round + 1) * 16, 1024 + (round + 1) * 256);
        self.credits(UPDATE_FC, NON_POSTED, 64 + (round + 1) * TAGS, 1024);
        self.now += 10 * GAP_PS + self.chance(GAP_PS);
    }

    fn completions(&mut self, requester: Bdf, begin: u64, is_worst: bool, most: u64) {
        self.now = begin + LATENCY_PS + self.chance(50_000);
        let swap = self.chance(TAGS);
        for index in 0..TAGS {
            let tag = index ^ swap;
            let is_last = is_worst && index == TAGS - 1;
            for part in 0..2 {
                self.now += GAP_PS + self.chance(GAP_PS);
                let late = begin + tag * GAP_PS + WORST_PS;
                self.now = if is_last && part == 1 { late } else { self.now };
                self.tlp(false, self.now, completion(requester, tag, part), most);
            }
        }
    }
}

fn span(index: u64, len: u32) -> Span {
    Span::covering(0x1_0000_0000 + index * 512, len).expect("aligned")
}

fn read(requester: Bdf, tag: u64, address: u64) -> Body {
    let (op, tag) = (MemoryOp::Read, Tag::from_bits(tag as u16));
    Body::Memory(MemoryRequest { op, requester, tag, span: span(address, 512) })
}

fn write(requester: Bdf, address: u64) -> Body {
    let (op, tag) = (MemoryOp::Write, Tag::from_bits(0));
    Body::Memory(MemoryRequest { op, requester, tag, span: span(address, 256) })
}

fn completion(requester: Bdf, tag: u64, part: u64) -> Body {
    Body::Completion(Completion {
        byte_count: 512 - part as u16 * 256,
        length_dw: Some(64),
        ..Completion::new(Bdf::default(), requester, Tag::from_bits(tag as u16))
    })
}
