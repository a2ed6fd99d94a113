// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random captures: mostly nearly legal TLPs and DLLPs, and NetTLP's other datagrams.

use super::capture::FrameWriter;
use riser_capture::Direction;
use riser_capture::encap::{NETTLP_LEN, PORT_DLLP};
use tlp::format::Family;
use tlp::{FORMATS, crc};

/// Random numbers that are the same in every run: SplitMix64 (Steele, Lea and Flood, OOPSLA'14).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number from 0 to `end` - 1.
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns true once in `times` calls on average.
    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// `count` frames: mostly nearly legal TLPs, some DLLPs, and some of NetTLP's other datagrams.
pub(crate) fn mixture(random: &mut Random, count: usize) -> Vec<u8> {
    let mut file = FrameWriter::new();
    for _ in 0..count {
        let direction = random.pick(&[Direction::Upstream, Direction::Downstream]);
        match random.below(12) {
            0 => {
                let dllp = some_dllp(random);
                file.write(direction, PORT_DLLP, &dllp, some_cut(random, dllp.len()));
            }
            1 => {
                let port = random.pick(&[0x2ffd, 0x2ffe, 0x2fff, 0x3000, 0x4001, 0x5001, 0x5002]);
                let len = random.pick(&[0, 1, 2, 4, 5, 6, 7, 8, 18, 192]);
                let bytes = if random.once_in(2) { vec![0; len] } else { random.bytes(len) };
                file.write_bare(port, &bytes);
            }
            2 => {
                let bytes = match random.below(3) {
                    0 => [&[0xff, random.below(10) as u8][..], &random.bytes(30)].concat(),
                    1 => random.bytes(40),
                    _ => some_tlp(random),
                };
                let number = random.next() >> 16;
                let cut = some_cut(random, bytes.len());
                file.write_session(random.once_in(2), number, &bytes, cut);
            }
            _ => {
                let tlp = some_tlp(random);
                let port = random.pick(&[0x3000, 0x3001, 0x32ff, 0x33ff, 0x4000, 0x4001, 0x400f]);
                file.write(direction, port, &tlp, some_cut(random, tlp.len()));
            }
        }
    }
    file.finish()
}

/// The number of captured bytes of a NetTLP header and `len` bytes after it. Nearly always all.
fn some_cut(random: &mut Random, len: usize) -> usize {
    let all = NETTLP_LEN + len;
    if random.once_in(12) { random.below(all as u64 + 1) as usize } else { all }
}

fn some_dllp(random: &mut Random) -> Vec<u8> {
    let ty = match random.below(3) {
        0 => random.next() as u8,
        1 => random.pick(&[0x00, 0x10, 0x02, 0x20, 0x21, 0x23, 0x24, 0x30, 0x31]),
        _ => random.pick(&[0x40, 0x50, 0x60, 0x80, 0x90, 0xa0, 0xc0, 0xd0, 0xe0]) | random.below(8) as u8,
    };
    let scaled = random.once_in(4);
    let [b, c, d] = [random.next() as u8, random.next() as u8, random.next() as u8];
    let head = if scaled { [ty, b, c, d] } else { [ty, b & 0x3f, c & 0xcf, d] };
    let mut crc = crc::dllp(head);
    if random.once_in(8) {
        crc ^= 1 << random.below(16);
    }
    let mut bytes = [&head[..], &crc.to_be_bytes()].concat();
    if random.once_in(10) {
        bytes.resize(random.below(9) as usize, 0xaa);
    }
    bytes
}

const PREFIXES: [u32; 12] = [0x80, 0x8e, 0x8f, 0x90, 0x90, 0x91, 0x91, 0x91, 0x9e, 0x9f, 0x85, 0x93];

/// A TLP of any type, with prefixes, data and digest. Its fields are mostly, but not always, legal.
fn some_tlp(random: &mut Random) -> Vec<u8> {
    let mut prefixes = Vec::new();
    if random.once_in(8) {
        let most = if random.once_in(4) { 11 } else { 3 };
        for _ in 0..=random.below(most) {
            prefixes.push(random.pick(&PREFIXES) << 24 | random.next() as u32 & 0xff_ffff);
        }
    }
    let header = some_header(random);
    let (first, length) = (header[0] >> 24, header[0] & 0x3ff);
    let data_dw = if first >> 6 & 1 == 1 { if length == 0 { 1024 } else { length } } else { 0 };
    let mut bytes: Vec<u8> = prefixes.iter().chain(&header).flat_map(|dw| dw.to_be_bytes()).collect();
    bytes.extend(random.bytes(data_dw as usize * 4));
    if header[0] >> 15 & 1 == 1 && !random.once_in(4) {
        let mut digest = ecrc(&bytes, prefixes.iter().copied());
        digest ^= u32::from(random.once_in(4)) << random.below(32);
        bytes.extend(digest.to_be_bytes());
    }
    match random.below(20) {
        0 => bytes.truncate(random.below(bytes.len() as u64) as usize),
        1 => bytes.extend(random.bytes(4)),
        2 => bytes.truncate(bytes.len() - 1),
        _ => {}
    }
    bytes
}

fn some_header(random: &mut Random) -> Vec<u32> {
    let format = random.pick(&FORMATS);
    let mut first = format.fmt << 5 | format.type_bits | random.next() as u8 & 0x1f & !format.type_mask;
    if random.once_in(16) {
        first = random.next() as u8;
    }
    let length = match random.below(8) {
        0 => random.below(16) as u32,
        1 => 0,
        2 => 1 << random.below(4),
        _ => 1,
    };
    let dw0 = u32::from(first) << 24 | some_common(random) | length;
    // Few requesters and tags, so that completions find their requests.
    let dw1 = random.pick(&[0x0100_0000, 0x0200_0000]) | (random.below(4) as u32) << 8;
    let has_4_dw = first >> 5 & 1 == 1;
    match format.family {
        Family::Completion => some_completion(random, dw0, dw1, length),
        Family::Message => some_message(random, dw0, dw1),
        _ => some_request(random, dw0, dw1, length, has_4_dw),
    }
}

/// The fields between Type and Length. Each is zero three times in four.
fn some_common(random: &mut Random) -> u32 {
    // T9, TC and T8; Attr[2], LN, TH; TD, EP, Attr[1:0], AT.
    let fields = [0x0080_0000, 0x0070_0000, 0x0008_0000, 0x0007_0000, 0x0000_c000, 0x0000_3000, 0x0000_0c00];
    fields.iter().fold(0, |dw, bits| dw | if random.once_in(4) { random.next() as u32 & bits } else { 0 })
}

/// `requester_and_tag` is in the layout of a completion.
fn some_completion(random: &mut Random, dw0: u32, requester_and_tag: u32, length: u32) -> Vec<u32> {
    let status = if random.once_in(4) { random.below(8) as u32 } else { 0 };
    let bcm = u32::from(random.once_in(8));
    let count = if random.once_in(3) { random.next() as u32 } else { length * 4 } & 0xfff;
    let low = if random.once_in(4) { random.next() as u32 & 0x7f } else { 0 };
    let completer = random.next() as u32 & 0xffff_0000;
    vec![dw0, completer | status << 13 | bcm << 12 | count, requester_and_tag | low]
}

fn some_message(random: &mut Random, dw0: u32, dw1: u32) -> Vec<u32> {
    let codes = [0x00, 0x01, 0x04, 0x10, 0x12, 0x14, 0x19, 0x20, 0x31, 0x50, 0x53, 0x7e, 0x7f, 0x7f, 0x99];
    let (dw2, dw3) = (random.next() as u32, random.next() as u32);
    let code = random.pick(&codes);
    if code == 0x7f && random.once_in(2) {
        // Messages of the PCI-SIG, with a subtype.
        let subtype: u32 = random.pick(&[0x00, 0x01, 0x08, 0x09, 0x55]);
        return vec![dw0, dw1 | code, dw2 & 0xffff_0000 | 1, subtype << 24];
    }
    vec![dw0, dw1 | code, dw2, dw3]
}

fn some_request(random: &mut Random, dw0: u32, dw1: u32, length: u32, has_4_dw: bool) -> Vec<u32> {
    let byte_enables = match (random.once_in(4), length) {
        (true, _) => random.next() as u32 & 0xff,
        (false, 1) => 0x0f,
        (false, _) => 0xff,
    };
    let mut header = vec![dw0, dw1 | byte_enables];
    if has_4_dw {
        header.push(if random.once_in(4) { 0 } else { random.next() as u32 });
    }
    let address = random.next() as u32;
    header.push(if random.once_in(4) { address | 0xff0 } else { address & !0x3f });
    header
}

/// ECRC (`PCIe 5.0 §2.7.1`), bit by bit: over end-to-end prefixes, header and data, with bit 0 of the header's Type
/// and EP set.
fn ecrc(tlp: &[u8], prefixes: impl Iterator<Item = u32> + Clone) -> u32 {
    let header = prefixes.clone().count() * 4;
    let covered = prefixes.take_while(|prefix| prefix >> 28 & 1 == 0).count() * 4;
    let mut crc = u32::MAX;
    for (at, byte) in tlp.iter().enumerate().skip(covered) {
        let variant = u8::from(at == header) | u8::from(at == header + 2) << 6;
        crc ^= u32::from(byte | variant);
        for _ in 0..8 {
            crc = (crc >> 1) ^ ((crc & 1) * 0xedb8_8320);
        }
    }
    (!crc).swap_bytes()
}
