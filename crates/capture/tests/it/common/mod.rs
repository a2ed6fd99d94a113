// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Helpers of several tests: sample TLPs, and capture files.
use riser_capture::transactions::{Summary, Tracker, append_line};
use riser_capture::{Direction, InterfaceId, Mark, Origin, Reader, Sieve, Stats, Writer, stats};
use std::io::{Cursor, Read};
use tlp::{
    Access, Bdf, Body, Class, Completion, ConfigKind, ConfigRequest, Data, Dllp, FlowControl,
    FlowControlKind, MemoryOp, MemoryRequest, PayloadPool, Repr, Span, Status, Tag, Time, Tlp, Vc,
};

pub(crate) fn memory(op: MemoryOp, requester: u16, tag: u16, address: u64, len: u32, data: Data) -> Tlp {
    let span = Span::covering(address, len).unwrap();
    let (requester, tag) = (Bdf::from_bits(requester), Tag::new(tag).unwrap());
    Tlp::new(Repr::new(Body::Memory(MemoryRequest { op, requester, tag, span })), data).with_carry(true)
}

pub(crate) fn completion(
    requester: u16,
    tag: u16,
    byte_count: u16,
    length_dw: Option<u16>,
    status: Status,
) -> Repr {
    Repr::new(Body::Completion(Completion {
        status,
        byte_count,
        length_dw,
        ..Completion::new(Bdf::default(), Bdf::from_bits(requester), Tag::new(tag).unwrap())
    }))
}

pub(crate) fn update_fc() -> Dllp {
    Dllp::FlowControl(FlowControl::new(FlowControlKind::UpdateFc, Class::Posted, Vc::VC0, 33, 258))
}

/// A capture with a read, its completion, a DLLP, a write of the host, and a write with counted data.
pub(crate) fn sample() -> Vec<u8> {
    let pool = PayloadPool::new();
    let mut writer = Writer::new(Vec::new()).unwrap();
    let up = writer.tap(0, Direction::Upstream, "device to root port").unwrap();
    let down = writer.tap(0, Direction::Downstream, "").unwrap();
    let read = memory(MemoryOp::Read, 0x0100, 5, 0x1000, 8, Data::NONE);
    let data = Data::Carried(pool.copy(&[1, 2, 3, 4, 5, 6, 7, 8]));
    let answer = Tlp::new(completion(0x0100, 5, 8, Some(2), Status::Success), data).with_carry(true);
    let doorbell = memory(MemoryOp::Write, 0, 0x13, 0xa000_0010, 4, Data::Carried(pool.copy(&[1, 0, 0, 0])));
    let counted = memory(MemoryOp::Write, 0x0100, 6, 0x2_0000_0000, 256, Data::Counted(256));
    writer.write_tlp(up, Time::from_ps(1_000_001), &read, Origin::Device).unwrap();
    writer.write_tlp(down, Time::from_ps(1_500_002), &answer, Origin::Device).unwrap();
    writer.write_dllp(up, Time::from_ps(1_600_003), &update_fc()).unwrap();
    writer.write_tlp(down, Time::from_ps(2_000_000_000_004), &doorbell, Origin::Host).unwrap();
    writer.write_tlp(up, Time::from_ps(2_000_000_000_005), &counted, Origin::Device).unwrap();
    writer.finish().unwrap()
}

pub(crate) fn reader(bytes: &[u8]) -> Reader<Cursor<&[u8]>> {
    Reader::new(Cursor::new(bytes)).unwrap()
}

/// Statistics of all records.
pub(crate) fn report<R: Read>(mut reader: Reader<R>) -> stats::StatsReport {
    let mut stats = Stats::new();
    while let Some(record) = reader.next_record().unwrap() {
        stats.add(&record);
    }
    stats.report()
}

/// Numbers of the records that a filter keeps.
pub(crate) fn kept(capture: &[u8], expression: &str) -> Vec<u64> {
    let mut sieve = Sieve::new(Some(expression.parse().unwrap_or_else(|e| panic!("{e}"))));
    let (mut reader, mut numbers) = (reader(capture), Vec::new());
    while let Some(record) = reader.next_record().unwrap() {
        if sieve.keeps(&record) {
            numbers.push(record.number);
        }
    }
    numbers
}

/// The lines of a capture.
pub(crate) fn lines(bytes: &[u8]) -> Vec<String> {
    let mut reader = reader(bytes);
    let mut lines = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let mut line = String::new();
        riser_capture::render::line(&record, &mut line);
        lines.push(line);
    }
    lines
}

/// The JSON objects of a capture.
pub(crate) fn objects(bytes: &[u8]) -> Vec<serde_json::Value> {
    let mut reader = reader(bytes);
    let mut objects = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let mut line = String::new();
        riser_capture::render::json(&record, &mut line);
        objects.push(serde_json::from_str(&line).unwrap());
    }
    objects
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks_exact(2).map(byte).collect()
}

/// Frame 2 of NetTLP's `simple-nic-ping.pcap`: the simple NIC reads a descriptor.
pub(crate) fn mrd_frame() -> Vec<u8> {
    hex("001122334455 001b21be82e0 0800
         4500002e 00694000 4011a501 c0a80a03 c0a80a01
         3003 3003 001a 9580  0000 00000000
         00000004 1b0003ff 2f001000")
}

/// A capture of one link with DLLPs and a data rate of 64 Gb/s. Frames are a nanosecond apart.
pub(crate) struct Link {
    writer: Writer<Vec<u8>>,
    up: InterfaceId,
    down: InterfaceId,
    ps: u64,
    places: [u64; 2],
}

/// Marks of damaged and dropped frames.
pub(crate) const DAMAGED: Mark = Mark { damaged: true, dropped: false, place: None };
pub(crate) const DROPPED: Mark = Mark { damaged: false, dropped: true, place: None };

impl Link {
    pub(crate) fn new() -> Link {
        let mut writer = Writer::new(Vec::new()).unwrap();
        let speed = 64_000_000_000;
        let up = writer.tap_with_speed(0, Direction::Upstream, "", speed).unwrap();
        let down = writer.tap_with_speed(0, Direction::Downstream, "", speed).unwrap();
        Link { writer, up, down, ps: 0, places: [0; 2] }
    }

    fn next_time(&mut self) -> Time {
        self.ps += 1_000;
        Time::from_ps(self.ps)
    }

    /// Delays the next frame.
    pub(crate) fn wait_ps(&mut self, ps: u64) -> &mut Link {
        self.ps += ps;
        self
    }

    /// Writes the next TLP of a direction, with its place.
    pub(crate) fn tlp(&mut self, up: bool, tlp: &Tlp, fate: Mark) -> &mut Link {
        let way = usize::from(up);
        let place = self.places[way];
        self.places[way] += 1;
        self.again(up, tlp, place, fate)
    }

    /// Writes a TLP with this place.
    pub(crate) fn again(&mut self, up: bool, tlp: &Tlp, place: u64, fate: Mark) -> &mut Link {
        let (time, mark) = (self.next_time(), Mark { place: Some(place), ..fate });
        let is_completion = tlp.class() == Class::Completion;
        let origin = if up == is_completion { Origin::Host } else { Origin::Device };
        let interface = if up { self.up } else { self.down };
        self.writer.write_tlp_marked(interface, time, tlp, origin, mark).unwrap();
        self
    }

    /// Writes a DLLP in a direction.
    pub(crate) fn dllp(&mut self, up: bool, dllp: Dllp, fate: Mark) -> &mut Link {
        let (time, interface) = (self.next_time(), if up { self.up } else { self.down });
        self.writer.write_dllp_marked(interface, time, &dllp, fate).unwrap();
        self
    }

    pub(crate) fn ack(&mut self, up: bool, sequence: u16) -> &mut Link {
        self.dllp(up, Dllp::Ack { sequence }, Mark::default())
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.writer.finish().unwrap()
    }
}

/// A capture of several links without DLLPs. TLPs are a nanosecond apart.
pub(crate) struct Links {
    writer: Writer<Vec<u8>>,
    taps: Vec<[InterfaceId; 2]>,
    ps: u64,
}

impl Links {
    /// One link to each of these slots and switches, with the descriptions of `riser run --capture`.
    pub(crate) fn new(slots: &[&str]) -> Links {
        let mut writer = Writer::new(Vec::new()).unwrap();
        let ways = [Direction::Downstream, Direction::Upstream];
        let mut taps = Vec::new();
        for (link, slot) in slots.iter().enumerate() {
            let text = |way: Direction| format!("{slot}, {}, at the device", way.name());
            taps.push(ways.map(|way| writer.tap(link as u16, way, &text(way)).unwrap()));
        }
        Links { writer, taps, ps: 0 }
    }

    /// Writes a TLP on a link.
    pub(crate) fn tlp(&mut self, link: usize, up: bool, tlp: &Tlp) -> &mut Links {
        self.ps += 1_000;
        let origin = if up == (tlp.class() == Class::Completion) { Origin::Host } else { Origin::Device };
        let tap = self.taps[link][usize::from(up)];
        self.writer.write_tlp(tap, Time::from_ps(self.ps), tlp, origin).unwrap();
        self
    }

    /// Writes a request on these links in order, and its completion on them in reverse order.
    pub(crate) fn exchange(&mut self, way: &[(usize, bool)], request: &Tlp, answer: &Tlp) -> &mut Links {
        way.iter().for_each(|&(link, up)| _ = self.tlp(link, up, request));
        way.iter().rev().for_each(|&(link, up)| _ = self.tlp(link, !up, answer));
        self
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.writer.finish().unwrap()
    }
}

/// A configuration read from the host to a register of function `completer`.
pub(crate) fn config_read(kind: ConfigKind, completer: u16, register: u16, tag: u16) -> Tlp {
    let request = ConfigRequest {
        kind,
        ..ConfigRequest::new(
            Access::Read,
            Bdf::default(),
            Tag::new(tag).unwrap(),
            Bdf::from_bits(completer),
            register / 4,
        )
    };
    Tlp::new(Repr::new(Body::Config(request)), Data::NONE)
}

/// The lines of the transactions of a capture, and the text of its summary.
pub(crate) fn transaction_lines(bytes: &[u8]) -> (Vec<String>, String) {
    let mut reader = reader(bytes);
    let (mut tracker, mut summary, mut lines) = (Tracker::new(), Summary::new(), Vec::new());
    while let Some(record) = reader.next_record().unwrap() {
        tracker.see(&record, 0);
    }
    tracker.finish();
    while let Some(t) = tracker.next_ended() {
        let mut line = String::new();
        append_line(&t, 9, &mut line);
        summary.add(&t);
        lines.push(line);
    }
    (lines, summary.report(&tracker).to_string())
}

/// A read from 01:00.0, and a completion with all of its data.
pub(crate) fn read_and_answer(tag: u16, address: u64, len: u16) -> (Tlp, Tlp) {
    let read = memory(MemoryOp::Read, 0x0100, tag, address, len.into(), Data::NONE);
    let answer = completion(0x0100, tag, len, Some(len.div_ceil(4)), Status::Success);
    (read, Tlp::new(answer, Data::Counted(len.into())))
}

pub(crate) fn write(address: u64, len: u32) -> Tlp {
    memory(MemoryOp::Write, 0x0100, 0, address, len, Data::Counted(len))
}
