// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A capture in memory with every type of TLP. The traffic has no meaning.

use capture::{Direction, Origin, Writer};
use tlp::{Data, Prefix, Prefixes, Repr, Time, Tlp};

/// Returns a capture with a TLP of every format and of every valid header pattern among some.
pub(crate) fn every_type() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).expect("memory");
    let up = writer.tap(0, Direction::Upstream, "").expect("memory");
    let down = writer.tap(3, Direction::Downstream, "").expect("memory");
    let mut time = 0;
    for format in tlp::FORMATS {
        let first = u32::from(format.fmt << 5 | format.type_bits) << 24;
        for (index, (dw0, rest)) in patterns().enumerate() {
            let bytes: Vec<u8> =
                std::iter::once(first | dw0).chain(rest).flat_map(u32::to_be_bytes).collect();
            let Ok(parsed) = Repr::parse_header(&bytes) else { continue };
            time += 1_000;
            let mut tlp = Tlp::new(parsed.repr, Data::Counted(parsed.repr.data_lanes().len() as u32));
            if index % 5 == 0 && parsed.repr.data_dw() == 0 {
                tlp.prefixes = Prefixes::new(&[Prefix(0x9100_0000 | (index as u32 % 7))]).expect("one");
            }
            let (interface, origin) =
                if index % 2 == 0 { (up, Origin::Device) } else { (down, Origin::Host) };
            writer.write_tlp(interface, Time::from_ps(time), &tlp, origin).expect("memory");
        }
    }
    writer.finish().expect("memory")
}

// Lengths, tags with their high bits, attributes, poison; byte enables and status; addresses.
fn patterns() -> impl Iterator<Item = (u32, [u32; 3])> {
    let dw0 = [1, 0x0000_8001, 0x0000_c001, 2, 4, 0x10, 0x0088_0001, 0x0070_3004, 0x0000_4001, 0x0004_0008];
    let dw1 = [0x0100_050f, 0x1b08_ff0c, 0x0000_80ff, 0x0200_2100, 0xffff_0436, 0x0000_007f, 0x0011_03f8];
    let low = [(0, 0x2f00_1000), (0x1234_5678, 0x9abc_def0), (0x0100_0510, 0x0000_0ff0)];
    dw0.into_iter().flat_map(move |dw0| {
        dw1.into_iter().flat_map(move |dw1| low.into_iter().map(move |(a, b)| (dw0, [dw1, a, b])))
    })
}
