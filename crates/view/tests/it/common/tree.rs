// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A capture in memory of two links, one to a switch and one to a disk below it: a bus probe, concurrent reads of
//! the disk, a write, and a request that fails.

use capture::writer::InterfaceId;
use capture::{Direction, End, Interface, Origin, Writer};
use tlp::{
    Access, Bdf, Body, Class, Completion, ConfigKind, ConfigRequest, Data, MemoryOp, MemoryRequest, Repr,
    Span, Status, Tag, Time, Tlp,
};

/// Number of outstanding reads of the disk.
pub(crate) const READS: u16 = 4;
/// Record number of the failed completion, which is the last record.
pub(crate) const FAILED: u64 = 6 + 4 * READS as u64;
const DISK: Bdf = Bdf::from_bits(0x0200);
const ABSENT: Bdf = Bdf::from_bits(0x0328);
const SWITCH_LINK: usize = 0;
const DISK_LINK: usize = 1;

struct Tree {
    writer: Writer<Vec<u8>>,
    /// The downstream and the upstream interface of each link.
    taps: Vec<[InterfaceId; 2]>,
    ps: u64,
}

/// Returns the capture, with a TLP every 100 ns.
pub(crate) fn tree() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).expect("memory");
    let mut taps = Vec::new();
    for (link, slot) in ["switch", "disk"].into_iter().enumerate() {
        taps.push([Direction::Downstream, Direction::Upstream].map(|way| {
            let text = Interface::description(slot, way, End::Device);
            writer.tap(link as u16, way, &text).expect("memory")
        }));
    }
    let mut tree = Tree { writer, taps, ps: 0 };
    tree.refused(0);
    for link in [DISK_LINK, SWITCH_LINK] {
        (0..READS).for_each(|tag| tree.tlp(link, true, memory(MemoryOp::Read, tag)));
    }
    for link in [SWITCH_LINK, DISK_LINK] {
        (0..READS).for_each(|tag| tree.tlp(link, false, completion(DISK, tag, Status::Success)));
    }
    [DISK_LINK, SWITCH_LINK].into_iter().for_each(|link| tree.tlp(link, true, memory(MemoryOp::Write, 0)));
    tree.refused(1);
    tree.writer.finish().expect("memory")
}

impl Tree {
    /// Adds a configuration read of a function that does not exist.
    fn refused(&mut self, register_dw: u16) {
        let read = ConfigRequest {
            kind: ConfigKind::Type1,
            ..ConfigRequest::new(Access::Read, Bdf::default(), Tag::default(), ABSENT, register_dw)
        };
        self.tlp(SWITCH_LINK, false, Body::Config(read));
        self.tlp(SWITCH_LINK, true, completion(Bdf::default(), 0, Status::UnsupportedRequest));
    }

    fn tlp(&mut self, link: usize, up: bool, body: Body) {
        self.ps += 100_000;
        let repr = Repr::new(body);
        let data = Data::Counted(repr.data_lanes().len() as u32);
        let origin =
            if up == (repr.format().class == Class::Completion) { Origin::Host } else { Origin::Device };
        let (tlp, tap) = (Tlp::new(repr, data), self.taps[link][usize::from(up)]);
        self.writer.write_tlp(tap, Time::from_ps(self.ps), &tlp, origin).expect("memory");
    }
}

fn memory(op: MemoryOp, tag: u16) -> Body {
    let span = Span::covering(0x1000 + 64 * u64::from(tag), 64).expect("within 4 KiB");
    Body::Memory(MemoryRequest { op, requester: DISK, tag: Tag::from_bits(tag), span })
}

fn completion(requester: Bdf, tag: u16, status: Status) -> Body {
    let has_data = status == Status::Success;
    Body::Completion(Completion {
        status,
        byte_count: if has_data { 64 } else { 4 },
        length_dw: has_data.then_some(16),
        ..Completion::new(Bdf::default(), requester, Tag::from_bits(tag))
    })
}
