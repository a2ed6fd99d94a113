// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A capture in memory with DLLPs, as a tap of riser writes it: writes and reads with data, Acks, a request that is
//! damaged, rejected by a Nak and retransmitted, and 100 ms with only flow control.

use capture::writer::InterfaceId;
use capture::{Direction, Mark, Origin, Writer};
use tlp::{
    Bdf, Body, Completion, Data, Dllp, MemoryOp, MemoryRequest, PayloadPool, Repr, Span, Tag, Time, Tlp,
};

/// Data of a read at [`READ_AT`].
pub(crate) const READ: &[u8] = b"0123456789";
/// Six bytes before a multiple of 64, so that the read gets two completions.
pub(crate) const READ_AT: u64 = 0x103a;
/// Data of the first write, whose address is not a multiple of four.
pub(crate) const WRITTEN: &[u8] = b"riser";
pub(crate) const WRITTEN_AT: u64 = 0x1_0000_2003;
/// Time in picoseconds with only flow control on the link.
pub(crate) const IDLE_PS: u64 = 100_000_000_000;
/// Time between two frames in picoseconds.
const GAP_PS: u64 = 50_000;

const DEVICE: Bdf = Bdf::from_bits(0x0100);

struct Exchange {
    writer: Writer<Vec<u8>>,
    pool: PayloadPool,
    up: InterfaceId,
    down: InterfaceId,
    now: u64,
}

/// Returns a capture of single TLPs at times in picoseconds: writes, or reads with their response times.
pub(crate) fn sparse(at: &[(u64, Option<u64>)]) -> Vec<u8> {
    let mut exchange = Exchange::new();
    for &(start, latency) in at {
        exchange.now = start;
        match latency {
            None => exchange.tlp(true, request(MemoryOp::Write, READ_AT, 4), &READ[..4], Mark::default()),
            Some(latency) => {
                exchange.tlp(true, request(MemoryOp::Read, 0x1000, 4), &[], Mark::default());
                exchange.now = start + latency;
                exchange.tlp(false, completion(0, 4, 1), &READ[..4], Mark::default());
            }
        }
    }
    exchange.writer.finish().expect("memory")
}

/// Returns a capture with `bursts` equal bursts, [`IDLE_PS`] apart.
pub(crate) fn exchange(bursts: u64) -> Vec<u8> {
    let mut exchange = Exchange::new();
    for burst in 0..bursts {
        if burst > 0 {
            exchange.idle();
        }
        exchange.burst(burst);
    }
    exchange.writer.finish().expect("memory")
}

impl Exchange {
    fn new() -> Exchange {
        let mut writer = Writer::new(Vec::new()).expect("memory");
        let up = writer.tap(0, Direction::Upstream, "device to root port").expect("memory");
        let down = writer.tap(0, Direction::Downstream, "root port to device").expect("memory");
        Exchange { writer, pool: PayloadPool::new(), up, down, now: 0 }
    }

    fn burst(&mut self, burst: u64) {
        let (up, down) = (burst * 3, burst * 2);
        let good = |place| Mark { place: Some(place), ..Mark::default() };
        let damaged = |place| Mark { damaged: true, ..good(place) };
        self.tlp(true, request(MemoryOp::Write, WRITTEN_AT, WRITTEN.len() as u32), WRITTEN, good(up));
        self.tlp(true, request(MemoryOp::Read, READ_AT, READ.len() as u32), &[], damaged(up + 1));
        self.dllp(false, Dllp::Nak { sequence: up as u16 & 0xfff });
        self.tlp(true, request(MemoryOp::Read, READ_AT, READ.len() as u32), &[], good(up + 1));
        self.tlp(false, completion(0x3a, 10, 2), &READ[..6], good(down));
        self.dllp(true, Dllp::Ack { sequence: down as u16 & 0xfff });
        self.tlp(false, completion(0x40, 4, 1), &READ[6..], good(down + 1));
        self.dllp(false, Dllp::Ack { sequence: (up + 1) as u16 & 0xfff });
        self.dllp(true, Dllp::Ack { sequence: (down + 1) as u16 & 0xfff });
        // The last request is neither completed nor acknowledged.
        let unanswered = tagged(8 + burst as u16, MemoryOp::Read, READ_AT + 0x1000, 4);
        self.tlp(true, unanswered, &[], good(up + 2));
    }

    /// Writes UpdateFCs. Links send them every 30 us (`PCIe 5.0 §2.6.1.2`), but the capture has only every tenth.
    fn idle(&mut self) {
        let end = self.now + IDLE_PS;
        while self.now + 300_000_000 < end {
            self.now += 300_000_000;
            let dw: u32 = 0x8010_0400;
            let [a, b, c, d] = dw.to_be_bytes();
            let [e, f] = tlp::crc::dllp([a, b, c, d]).to_be_bytes();
            self.dllp(false, Dllp::parse(&[a, b, c, d, e, f]).expect("flow control"));
        }
        self.now = end;
    }

    fn tlp(&mut self, up: bool, body: Body, bytes: &[u8], mark: Mark) {
        let repr = Repr::new(body);
        assert_eq!(repr.data_lanes().len(), bytes.len());
        let data = if bytes.is_empty() { Data::NONE } else { Data::Carried(self.pool.copy(bytes)) };
        let interface = if up { self.up } else { self.down };
        let (tlp, time) = (Tlp::new(repr, data), Time::from_ps(self.now));
        self.writer.write_tlp_marked(interface, time, &tlp, Origin::Device, mark).expect("memory");
        self.now += GAP_PS;
    }

    fn dllp(&mut self, up: bool, dllp: Dllp) {
        let interface = if up { self.up } else { self.down };
        self.writer.write_dllp(interface, Time::from_ps(self.now), &dllp).expect("memory");
        self.now += GAP_PS;
    }
}

fn request(op: MemoryOp, address: u64, len: u32) -> Body {
    tagged(7, op, address, len)
}

fn tagged(tag: u16, op: MemoryOp, address: u64, len: u32) -> Body {
    let span = Span::covering(address, len).expect("within 4 KiB");
    Body::Memory(MemoryRequest { op, requester: DEVICE, tag: Tag::from_bits(tag), span })
}

fn completion(lower_address: u8, byte_count: u16, length_dw: u16) -> Body {
    Body::Completion(Completion {
        byte_count,
        lower_address,
        length_dw: Some(length_dw),
        ..Completion::new(Bdf::default(), DEVICE, Tag::from_bits(7))
    })
}
