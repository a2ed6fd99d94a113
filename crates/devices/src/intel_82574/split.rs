// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Distribution of frames to receive buffers: one buffer per descriptor, or packet split with a buffer for the header
//! and three for the payload (82574 datasheet, §7.1.5). Does not panic for any content of the frame.

use super::registers::rctl;

/// Number of buffers of a packet split descriptor.
pub(super) const BUFFERS: usize = 4;

/// Unit of a ring's head and tail in bytes, even if descriptors are longer.
pub(super) const UNIT_BYTES: u32 = 16;

/// Format of a ring's descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    /// Size of each buffer in bytes; zero for an absent buffer.
    pub(super) sizes: [usize; BUFFERS],
    pub(super) is_split: bool,
}

impl Layout {
    /// Reads RCTL and PSRCTL (§10.2.5.1, §10.2.5.3); `None` if the descriptor type is reserved, or all buffers have zero bytes.
    pub(super) fn of(control: u32, split: u32) -> Option<Layout> {
        let size = 2048 >> (control >> 16 & 0b11);
        let one = if control & rctl::BSEX != 0 { size * 16 } else { size };
        let field = |shift: u32, mask: u32| (split >> shift & mask) as usize;
        let layout = match control & rctl::DTYP {
            0 => Layout { sizes: [one, 0, 0, 0], is_split: false },
            rctl::DTYP_SPLIT => Layout {
                sizes: [
                    field(0, 0x7f) << 7,
                    field(8, 0x3f) << 10,
                    field(16, 0x3f) << 10,
                    field(24, 0x3f) << 10,
                ],
                is_split: true,
            },
            _ => return None,
        };
        (layout.sizes != [0; BUFFERS]).then_some(layout)
    }

    /// Returns the size of a descriptor in [`UNIT_BYTES`].
    pub(super) fn descriptor_units(self) -> u32 {
        if self.is_split { 2 } else { 1 }
    }

    /// Returns the length of the header that gets its own buffer; `None` if the frame is not split.
    pub(super) fn header(self, frame: &[u8]) -> Option<usize> {
        let [first, rest @ ..] = self.sizes;
        let has_room = self.is_split && rest != [0; BUFFERS - 1];
        header_bytes(frame).filter(|bytes| has_room && *bytes <= first)
    }

    /// Distributes a frame to the buffers of descriptors. After a split header, the first buffer of further descriptors stays empty.
    pub(super) fn cut(self, mut rest: &[u8], header: Option<usize>) -> Vec<[&[u8]; BUFFERS]> {
        let [first, others @ ..] = self.sizes;
        let mut all = Vec::new();
        while !rest.is_empty() {
            let first = match header {
                None => first,
                Some(bytes) if all.is_empty() => bytes,
                Some(_) => 0,
            };
            let limits = [first, others[0], others[1], others[2]];
            all.push(limits.map(|most| {
                let (part, behind) = rest.split_at(most.min(rest.len()));
                rest = behind;
                part
            }));
        }
        all
    }
}

/// Returns the length of the Ethernet, IP and TCP or UDP headers; `None` for other frames and fragments.
fn header_bytes(frame: &[u8]) -> Option<usize> {
    let ip = frame.get(14..)?;
    let (protocol, ip_bytes) = match *frame.get(12..15)? {
        [0x08, 0x00, version] if version >> 4 == 4 => {
            let is_fragment = u16::from_be_bytes([*ip.get(6)?, *ip.get(7)?]) & 0x3fff != 0;
            (*ip.get(9).filter(|_| !is_fragment)?, usize::from(version & 0xf) * 4)
        }
        [0x86, 0xdd, version] if version >> 4 == 6 => (*ip.get(6)?, 40),
        _ => return None,
    };
    let bytes = match protocol {
        6 => usize::from(ip.get(ip_bytes + 12)? >> 4) * 4,
        17 => 8,
        _ => return None,
    };
    Some(14 + ip_bytes + bytes).filter(|bytes| *bytes <= frame.len())
}

/// Returns the write-back of a packet split descriptor: status and errors, lengths, tag, and whether the header was split off.
pub(super) fn write_back(parts: [&[u8]; BUFFERS], state: u32, tag: u16, header: Option<usize>) -> [u8; 32] {
    const HDRSP: u16 = 1 << 15;
    let mut bytes = [0; 32];
    let header = header.map_or(0, |bytes| HDRSP | bytes as u16 & 0x3ff);
    let [first, lengths @ ..] = parts.map(|part| part.len() as u16);
    bytes[8..12].copy_from_slice(&state.to_le_bytes());
    let words = [first, tag, header].into_iter().chain(lengths);
    for (to, word) in bytes[12..24].as_chunks_mut::<2>().0.iter_mut().zip(words) {
        *to = word.to_le_bytes();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(ethertype: [u8; 2], ip: &[u8], payload: usize) -> Vec<u8> {
        [&[2; 12][..], &ethertype, ip, &vec![7; payload]].concat()
    }

    /// TCP with 20 bytes of options after an IPv4 header.
    fn tcp() -> Vec<u8> {
        let mut ip = [0; 60];
        (ip[0], ip[9], ip[32]) = (0x45, 6, 0xa0);
        frame([0x08, 0], &ip, 3000)
    }

    #[test]
    fn headers_end_after_tcp_and_udp() {
        let (mut udp, mut fragment, mut icmp) = ([0; 48], tcp(), tcp());
        (udp[0], udp[6]) = (0x60, 17);
        fragment[20] = 0x20;
        icmp[23] = 1;
        let rows = [
            (tcp(), Some(74)),
            (frame([0x86, 0xdd], &udp, 100), Some(62)),
            (fragment, None),
            (icmp, None),
            (tcp()[..60].to_vec(), None),
            (vec![8; 14], None),
            (Vec::new(), None),
        ];
        for (frame, expected) in rows {
            assert_eq!(header_bytes(&frame), expected);
        }
    }

    #[test]
    fn frames_fill_the_buffers_of_descriptors() {
        // DTYP: packet split; buffers of 128 B, and 1, 1 and 0 KiB.
        let layout = Layout::of(1 << 10, 1 << 16 | 1 << 8 | 1).unwrap();
        let lengths = |header| {
            let all = tcp();
            let cut = layout.cut(&all, header);
            assert_eq!(cut.concat().concat(), all);
            cut.iter().map(|parts| parts.map(<[u8]>::len)).collect::<Vec<_>>()
        };
        assert_eq!(lengths(layout.header(&tcp())), [[74, 1024, 1024, 0], [0, 952, 0, 0]]);
        assert_eq!(lengths(None), [[128, 1024, 1024, 0], [128, 770, 0, 0]]);
        assert_eq!(Layout::of(2 << 10, 1), None, "a reserved type");
        assert_eq!(Layout::of(1 << 10, 0), None, "no bytes");
    }
}
