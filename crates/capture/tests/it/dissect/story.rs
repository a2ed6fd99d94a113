// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A capture from riser's writer: every type, every result of matching, DLLPs, and two links with the same tags.

use crate::common::{completion, memory, update_fc};
use riser_capture::{Direction, InterfaceId, Origin, Writer};
use tlp::{
    Access, AtomicOp, AtomicRequest, Bdf, Body, Class, ConfigKind, ConfigRequest, Data, DataLinkFeature,
    Dllp, FlowControl, FlowControlKind, IoRequest, MemoryOp, Message, MessageRouting, OperandSize,
    PayloadPool, PmDllp, Prefix, Prefixes, Repr, Scale, Status, Tag, Time, Tlp, Vc,
};

/// Frames on two links, a microsecond apart.
struct Story {
    writer: Writer<Vec<u8>>,
    taps: [[InterfaceId; 2]; 2],
    pool: PayloadPool,
    time_ps: u64,
}

const UP: usize = 0;
const DOWN: usize = 1;

impl Story {
    fn new() -> Story {
        let mut writer = Writer::new(Vec::new()).unwrap();
        let mut taps =
            |link| [Direction::Upstream, Direction::Downstream].map(|way| writer.tap(link, way, "").unwrap());
        let taps = [taps(0), taps(1)];
        Story { writer, taps, pool: PayloadPool::new(), time_ps: 0 }
    }

    fn tell(&mut self, link: usize, way: usize, tlp: &Tlp) {
        self.time_ps += 1_000_777;
        let origin = if way == UP { Origin::Device } else { Origin::Host };
        self.writer.write_tlp(self.taps[link][way], Time::from_ps(self.time_ps), tlp, origin).unwrap();
    }

    fn repr(&mut self, link: usize, way: usize, repr: Repr) {
        let data = if repr.data_dw() == 0 { Data::NONE } else { self.data(repr.data_lanes().len()) };
        self.tell(link, way, &Tlp::new(repr, data));
    }

    fn dllp(&mut self, dllp: &Dllp) {
        self.time_ps += 500_001;
        self.writer.write_dllp(self.taps[0][UP], Time::from_ps(self.time_ps), dllp).unwrap();
    }

    fn data(&self, len: usize) -> Data {
        let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
        Data::Carried(self.pool.copy(&bytes))
    }

    fn read(&mut self, link: usize, tag: u16, address: u64, len: u32) {
        self.tell(link, UP, &memory(MemoryOp::Read, 0x0100, tag, address, len, Data::NONE));
    }

    fn answer(&mut self, link: usize, tag: u16, byte_count: u16, dw: u16) {
        self.repr(link, DOWN, completion(0x0100, tag, byte_count, Some(dw), Status::Success));
    }
}

/// A capture from riser's writer: every type, every result of matching, DLLPs, two links with the same tags, and
/// counted data.
pub(crate) fn story() -> Vec<u8> {
    let mut story = Story::new();
    every_type(&mut story);
    every_match(&mut story);
    every_dllp(&mut story);
    story.writer.finish().unwrap()
}

fn requester() -> Bdf {
    Bdf::from_bits(0x0100)
}

fn tag(tag: u16) -> Tag {
    Tag::new(tag).unwrap()
}

fn every_type(story: &mut Story) {
    let ops = [MemoryOp::Read, MemoryOp::ReadLocked, MemoryOp::Write, MemoryOp::WriteDeferrable];
    for (at, op) in (0u16..).zip(ops) {
        for address in [0x1003, 0x9_0000_0ffd] {
            let data = if op.is_read() { Data::NONE } else { story.data(3) };
            story.tell(
                0,
                UP,
                &memory(op, 0x0100, 0x200 + at * 2 + u16::from(address > 1 << 32), address, 3, data),
            );
        }
    }
    for (op, operand) in [
        (AtomicOp::FetchAdd, OperandSize::Bits32),
        (AtomicOp::Swap, OperandSize::Bits64),
        (AtomicOp::CompareSwap, OperandSize::Bits128),
    ] {
        for address in [0x2000, 0x5_0000_0040] {
            let body = AtomicRequest { op, operand, requester: requester(), tag: tag(0x17), address };
            story.repr(0, UP, Repr::new(Body::Atomic(body)));
            story.repr(
                0,
                DOWN,
                completion(
                    0x0100,
                    0x17,
                    operand.bytes() as u16,
                    Some(operand.bytes() as u16 / 4),
                    Status::Success,
                ),
            );
        }
    }
    for op in [Access::Read, Access::Write] {
        let body = IoRequest { op, requester: Bdf::default(), tag: tag(1), address: 0xcf8, first_be: 0xf };
        story.repr(0, DOWN, Repr::new(Body::Io(body)));
        for kind in [ConfigKind::Type0, ConfigKind::Type1] {
            let body = ConfigRequest {
                kind,
                first_be: 0b0110,
                ..ConfigRequest::new(op, Bdf::default(), tag(2), requester(), 0x3ff)
            };
            story.repr(0, DOWN, Repr::new(Body::Config(body)));
            story.repr(0, UP, completion(0, 2, 4, (op == Access::Read).then_some(1), Status::Success));
        }
    }
    every_message(story);
    let mut locked = completion(0x0100, 0x202, 3, Some(1), Status::Success);
    for length_dw in [Some(1), None] {
        if let Body::Completion(c) = &mut locked.body {
            (c.locked, c.length_dw) = (true, length_dw);
        }
        story.repr(0, DOWN, locked);
    }
}

fn every_message(story: &mut Story) {
    for routing in 0..8 {
        for code in [0x20, 0x50, 0x7f] {
            let body = Message {
                routing: MessageRouting::from_bits(routing),
                requester: requester(),
                tag: tag(0),
                code,
                header: [1, 2, 0x1a, 0xf4, 5, 6, 7, routing],
                length_dw: (code == 0x50).then_some(1),
            };
            story.repr(0, UP, Repr::new(Body::Message(body)));
        }
    }
}

fn every_match(story: &mut Story) {
    // A read with three completions. The other link uses the same tag at the same time.
    story.read(0, 5, 0x1000, 512);
    story.read(1, 5, 0x1000, 64);
    story.answer(0, 5, 512, 64);
    story.answer(1, 5, 64, 16);
    story.answer(0, 5, 256, 32);
    story.answer(0, 5, 128, 32);
    // A repeated completion, then a completion without a request.
    story.read(0, 6, 0x2000, 64);
    story.read(0, 6, 0x2000, 64);
    story.answer(0, 6, 64, 16);
    story.answer(0, 6, 64, 16);
    // The next request of a tag before the last completion of the previous one, as a mirroring switch may show it.
    story.read(0, 7, 0x3000, 512);
    story.answer(0, 7, 512, 64);
    story.read(0, 7, 0x4000, 512);
    story.answer(0, 7, 256, 64);
    story.answer(0, 7, 512, 64);
    story.answer(0, 7, 256, 64);
    for (tag, status) in
        [(8, Status::UnsupportedRequest), (9, Status::ConfigRetry), (10, Status::CompleterAbort)]
    {
        story.read(0, tag, 0x5000, 4);
        story.repr(0, DOWN, completion(0x0100, tag, 4, None, status));
    }
    // A wrong Byte Count, a read without a completion, counted data, and prefixes.
    story.read(0, 11, 0x6000, 128);
    story.answer(0, 11, 64, 16);
    story.answer(0, 11, 64, 16);
    story.read(0, 12, 0x7000, 64);
    story.tell(0, UP, &memory(MemoryOp::Write, 0x0100, 13, 0x2_0000_0000, 256, Data::Counted(256)));
    let mut write = memory(MemoryOp::Write, 0x0100, 14, 0x8000, 4, story.data(4));
    write.prefixes = Prefixes::new(&[Prefix::pasid(7, true, false)]).unwrap();
    story.tell(0, UP, &write);
}

fn every_dllp(story: &mut Story) {
    story.dllp(&Dllp::Ack { sequence: 0xabc });
    story.dllp(&Dllp::Nak { sequence: 1 });
    story.dllp(&update_fc());
    for kind in [FlowControlKind::InitFc1, FlowControlKind::InitFc2, FlowControlKind::UpdateFc] {
        for class in Class::ALL {
            let fc = FlowControl::new(kind, class, Vc::from_bits(3), 0x81, 0x9a7);
            story.dllp(&Dllp::FlowControl(fc));
            for (header_scale, data_scale) in [(Scale::X1, Scale::X4), (Scale::X16, Scale::X1)] {
                story.dllp(&Dllp::FlowControl(FlowControl { header_scale, data_scale, ..fc }));
            }
        }
    }
    for supported in [0, DataLinkFeature::SCALED_FLOW_CONTROL, 0x7f_ffff] {
        story.dllp(&Dllp::Feature(DataLinkFeature { ack: supported == 1, supported }));
    }
    for pm in [PmDllp::EnterL1, PmDllp::EnterL23, PmDllp::ActiveStateRequestL1, PmDllp::RequestAck] {
        story.dllp(&Dllp::Pm(pm));
    }
    story.dllp(&Dllp::Vendor { bits: 0x00_c0de });
    story.dllp(&Dllp::Nop);
}
