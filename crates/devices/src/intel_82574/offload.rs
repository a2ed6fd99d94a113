// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Offloads of an 82574L: checksums, segments, FCS. Pure functions of bytes, without panics for any offsets from software.

/// A context descriptor (82574 datasheet, §7.2.6).
#[derive(Clone, Copy, Default)]
pub(super) struct Context {
    pub(super) ip: Span,
    pub(super) tcp: Span,
    pub(super) header_bytes: u8,
    pub(super) segment_bytes: u16,
    pub(super) is_tcp: bool,
    pub(super) is_ipv4: bool,
}

/// A checksum over the bytes `start..=end`, or to the end of the frame if `end` is zero. The checksum is stored at
/// `at`.
#[derive(Clone, Copy, Default)]
pub(super) struct Span {
    pub(super) start: u8,
    pub(super) at: u8,
    pub(super) end: u16,
}

/// Sum of 16-bit words in one's complement (RFC 1071).
pub(super) fn sum(bytes: &[u8]) -> u16 {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let whole: u64 = pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair))).sum();
    fold(whole + rest.first().map_or(0, |last| u64::from(*last) << 8))
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

impl Span {
    /// Inserts the checksum. `seed` is added to the sum.
    pub(super) fn insert(self, frame: &mut [u8], seed: u32, zero_is_ones: bool) {
        let (start, at) = (usize::from(self.start), usize::from(self.at));
        let end = match self.end {
            0 => frame.len(),
            end => frame.len().min(usize::from(end) + 1),
        };
        let Some(covered) = frame.get(start..end) else { return };
        let value = match !fold(u64::from(sum(covered)) + u64::from(seed)) {
            0 if zero_is_ones => 0xffff,
            value => value,
        };
        put(frame, at, &value.to_be_bytes());
    }
}

fn put(frame: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(to) = frame.get_mut(at..at + bytes.len()) {
        to.copy_from_slice(bytes);
    }
}

fn get<const N: usize>(frame: &[u8], at: usize) -> [u8; N] {
    frame.get(at..).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or([0; N])
}

/// Cuts a frame into segments (datasheet §7.3). Each has the header, with adapted lengths, identification and sequence number.
pub(super) fn segments(frame: &[u8], context: &Context, mut leave: impl FnMut(Vec<u8>)) {
    let Some((header, payload)) = frame.split_at_checked(usize::from(context.header_bytes)) else { return };
    let size = usize::from(context.segment_bytes).max(1);
    let count = payload.len().div_ceil(size);
    let (ip, tcp) = (usize::from(context.ip.start), usize::from(context.tcp.start));
    for (n, piece) in payload.chunks(size).enumerate() {
        let mut segment = [header, piece].concat();
        let behind_ip = segment.len().saturating_sub(ip);
        if context.is_ipv4 {
            put(&mut segment, ip + 2, &(behind_ip as u16).to_be_bytes());
            let id = u16::from_be_bytes(get(header, ip + 4)).wrapping_add(n as u16);
            put(&mut segment, ip + 4, &id.to_be_bytes());
        } else {
            put(&mut segment, ip + 4, &(behind_ip.saturating_sub(40) as u16).to_be_bytes());
        }
        if context.is_tcp {
            let sequence = u32::from_be_bytes(get(header, tcp + 4)).wrapping_add((n * size) as u32);
            put(&mut segment, tcp + 4, &sequence.to_be_bytes());
            if n + 1 < count {
                // Only the last segment keeps FIN and PSH.
                let [flags] = get(header, tcp + 13);
                put(&mut segment, tcp + 13, &[flags & !0x09]);
            }
        } else {
            let length = segment.len().saturating_sub(tcp);
            put(&mut segment, tcp + 4, &(length as u16).to_be_bytes());
        }
        leave(segment);
    }
}

/// Results of a receiver's checksum tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Checked {
    /// Whether the IPv4 header's checksum is right, if it was tested.
    pub(super) ip: Option<bool>,
    /// The same for TCP.
    pub(super) tcp: Option<bool>,
    /// The same for UDP.
    pub(super) udp: Option<bool>,
}

/// Tests the checksums of a frame: unfragmented IPv4, and TCP or UDP in it.
pub(super) fn check(frame: &[u8]) -> Checked {
    let mut checked = Checked::default();
    let ip = match frame.get(12..) {
        Some([0x08, 0x00, ip @ ..]) => ip,
        _ => return checked,
    };
    let [version] = get(ip, 0);
    let (header_bytes, total) = (usize::from(version & 0xf) * 4, usize::from(u16::from_be_bytes(get(ip, 2))));
    let Some(header) = ip.get(..header_bytes).filter(|h| version >> 4 == 4 && h.len() >= 20) else {
        return checked;
    };
    checked.ip = Some(sum(header) == 0xffff);
    let is_fragment = u16::from_be_bytes(get(ip, 6)) & 0x3fff != 0;
    let Some(segment) = ip.get(header_bytes..total).filter(|_| !is_fragment) else { return checked };
    let [protocol] = get(ip, 9);
    let pseudo = u64::from(sum(&header[12..20])) + u64::from(protocol) + segment.len() as u64;
    let is_right = || fold(pseudo + u64::from(sum(segment))) == 0xffff;
    match protocol {
        6 if segment.len() >= 20 => checked.tcp = Some(is_right()),
        17 if segment.len() >= 8 && segment[6..8] != [0, 0] => checked.udp = Some(is_right()),
        _ => {}
    }
    checked
}

const fn crc_table() -> [u32; 256] {
    let (mut table, mut n) = ([0; 256], 0);
    while n < 256 {
        let (mut value, mut bit) = (n as u32, 0);
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ 0xedb8_8320 } else { value >> 1 };
            bit += 1;
        }
        table[n] = value;
        n += 1;
    }
    table
}

static CRC: [u32; 256] = crc_table();

/// The FCS of a frame (IEEE 802.3 §3.2.9).
pub(super) fn fcs(frame: &[u8]) -> [u8; 4] {
    let step = |crc: u32, byte: &u8| crc >> 8 ^ CRC[(crc as u8 ^ byte) as usize];
    (!frame.iter().fold(u32::MAX, step)).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1071, §3: the words of its example have the sum ddf2h.
    #[test]
    fn checksum_matches_example_of_the_rfc() {
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        assert_eq!(sum(&[0x12]), 0x1200);
    }

    /// The check value of CRC-32/ISO-HDLC.
    #[test]
    fn fcs_is_the_crc_of_802_3() {
        assert_eq!(u32::from_le_bytes(fcs(b"123456789")), 0xcbf4_3926);
    }

    fn tcp_frame(payload: usize) -> Vec<u8> {
        let mut frame = vec![0x11; 54 + payload];
        frame[12..16].copy_from_slice(&[0x08, 0, 0x45, 0]);
        frame[16..20].copy_from_slice(&[0, 0, 0xff, 0xff]);
        frame[20..26].copy_from_slice(&[0x40, 0, 64, 6, 0, 0]);
        frame[38..42].copy_from_slice(&[0xff, 0xff, 0xff, 0xfe]);
        frame[46..48].copy_from_slice(&[0x50, 0x19]);
        // The sum of the pseudo header without its length, which is what a driver stores here.
        let pseudo = fold(u64::from(sum(&frame[26..34])) + 6);
        frame[50..52].copy_from_slice(&pseudo.to_be_bytes());
        frame
    }

    #[test]
    fn each_segment_has_its_own_lengths_numbers_flags_and_checksums() {
        let context = Context {
            ip: Span { start: 14, at: 24, end: 33 },
            tcp: Span { start: 34, at: 50, end: 0 },
            header_bytes: 54,
            segment_bytes: 1000,
            is_tcp: true,
            is_ipv4: true,
        };
        let mut all = Vec::new();
        segments(&tcp_frame(2500), &context, |mut segment| {
            let length = segment.len() as u32 - 34;
            context.ip.insert(&mut segment, 0, false);
            context.tcp.insert(&mut segment, length, false);
            all.push(segment);
        });
        let rows: Vec<_> = all
            .iter()
            .map(|s| {
                (
                    s.len(),
                    u16::from_be_bytes(get(s, 16)),
                    u16::from_be_bytes(get(s, 18)),
                    u32::from_be_bytes(get(s, 38)),
                    s[47],
                )
            })
            .collect();
        let expected =
            [(1054, 1040, 0xffff, 0xffff_fffe, 0x10), (1054, 1040, 0, 998, 0x10), (554, 540, 1, 1998, 0x19)];
        assert_eq!(rows, expected);
        for mut segment in all {
            assert_eq!(check(&segment), Checked { ip: Some(true), tcp: Some(true), udp: None });
            segment[60] ^= 1;
            assert_eq!(check(&segment).tcp, Some(false));
        }
    }

    #[test]
    fn offsets_beyond_the_frame_change_nothing() {
        let span = Span { start: 200, at: 255, end: 3 };
        let mut frame = [7; 60];
        span.insert(&mut frame, 0, true);
        Span { start: 0, at: 59, end: 0 }.insert(&mut frame, 0, true);
        assert_eq!(frame, [7; 60]);
        segments(&frame, &Context { header_bytes: 61, ..Context::default() }, |_| panic!("there is none"));
    }
}
