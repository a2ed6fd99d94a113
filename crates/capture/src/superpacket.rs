// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames with several datagrams. With segmentation offload, a loopback capture has one frame for a sequence of
//! datagrams. All of them except the last have the same length. The frame does not contain this length, but the
//! headers of the TLPs do.
//!
//! [`Reader::next_record`](crate::Reader::next_record) returns each datagram as a record. [`Cut`] makes a separate
//! frame of each datagram.
//!
//! This module allocates nothing. It splits a frame only if all parts are valid.

use crate::encap::{self, Datagram, NETTLP_LEN, Parsed, PortUse, internet_checksum, udp_checksum_ipv6};
use tlp::wire::Header;

const ETHERNET_LEN: usize = 14;
const VLAN_LEN: usize = 4;
const IPV6_LEN: usize = 40;
const UDP_LEN: usize = 8;

/// The datagrams of a frame that holds several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Parts {
    /// Length of the UDP payload of each datagram except the last.
    len: usize,
    count: usize,
}

/// One of these datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    len: usize,
    index: usize,
}

impl Parts {
    /// Returns the captured datagrams of a frame that had `original_len` bytes on the wire. `None` if it is a
    /// single datagram, or not NetTLP.
    pub(crate) fn of(frame: &[u8], original_len: usize) -> Option<Parts> {
        let Ok(Parsed::Datagram(datagram)) = encap::parse(frame, original_len) else { return None };
        let len = part_len(&datagram).filter(|_| datagram.truncated.is_none())?;
        Some(Parts { len, count: datagram.payload.len().div_ceil(len) })
    }

    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    pub(crate) const fn first(&self) -> Part {
        self.part(0)
    }

    pub(crate) const fn part(&self, index: usize) -> Part {
        Part { len: self.len, index }
    }
}

impl Part {
    /// Returns this part of a datagram.
    pub(crate) fn of<'a>(self, whole: &Datagram<'a>) -> Datagram<'a> {
        let from = (self.index * self.len).min(whole.payload.len());
        let payload_len = self.len.min(whole.payload_len.saturating_sub(from));
        let payload = &whole.payload[from..][..payload_len.min(whole.payload.len() - from)];
        Datagram { payload, payload_len, ..*whole }
    }
}

/// Layout of a frame with several datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// Length of the Ethernet, IP and UDP headers, which are repeated in each part.
    headers: usize,
    /// Offset of the IP header in the frame.
    ip: usize,
    is_ipv6: bool,
    /// Length of the UDP payload of each part except the last.
    part: usize,
    /// Total length of the UDP payload.
    payload: usize,
}

impl Cut {
    /// Returns the layout of a complete frame; `None` if it is a single datagram, or not NetTLP.
    pub fn of(frame: &[u8]) -> Option<Cut> {
        let Ok(Parsed::Datagram(datagram)) = encap::parse(frame, frame.len()) else { return None };
        let part = part_len(&datagram).filter(|_| datagram.payload.len() == datagram.payload_len)?;
        let ip = ETHERNET_LEN + VLAN_LEN * datagram.vlans.ids().len();
        let (headers, is_ipv6) = (datagram.payload_at, datagram.source.is_ipv6());
        Some(Cut { headers, ip, is_ipv6, part, payload: datagram.payload.len() })
    }

    /// Returns the number of datagrams, at least 2.
    pub const fn parts(&self) -> usize {
        self.payload.div_ceil(self.part)
    }

    /// Writes datagram `index` of `frame` as a separate frame into `out`, and returns its length. Lengths and
    /// checksums are valid. Over IPv4, the UDP checksum is 0, which stands for "not computed".
    ///
    /// # Panics
    /// If `index` is not below [`parts`](Self::parts), or `out` is shorter than `frame`.
    pub fn write(&self, frame: &[u8], index: usize, out: &mut [u8]) -> usize {
        let from = index * self.part;
        let len = self.part.min(self.payload - from);
        out[..self.headers].copy_from_slice(&frame[..self.headers]);
        out[self.headers..self.headers + len].copy_from_slice(&frame[self.headers + from..][..len]);
        let (udp, end) = (self.headers - UDP_LEN, self.headers + len);
        put(out, udp + 4, UDP_LEN + len);
        put(out, udp + 6, 0);
        if self.is_ipv6 {
            put(out, self.ip + 4, end - self.ip - IPV6_LEN);
            let addresses = &out[self.ip + 8..self.ip + IPV6_LEN];
            let checksum = udp_checksum_ipv6(addresses, &out[udp..end]);
            put(out, udp + 6, usize::from(checksum));
        } else {
            put(out, self.ip + 2, end - self.ip);
            put(out, self.ip + 10, 0);
            let checksum = internet_checksum(&out[self.ip..udp]);
            put(out, self.ip + 10, usize::from(checksum));
        }
        end
    }
}

fn put(out: &mut [u8], at: usize, value: usize) {
    out[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
}

/// Returns the length of each datagram except the last. `None` unless the payload consists of several datagrams
/// with the lengths of their TLPs.
fn part_len(datagram: &Datagram<'_>) -> Option<usize> {
    let ports = PortUse::between(datagram.source_port, datagram.destination_port);
    if !matches!(ports, PortUse::Tlp(_) | PortUse::Session) {
        return None;
    }
    let part = datagram_len(datagram.payload)?;
    let is_cut = datagram.payload.len() < datagram.payload_len;
    let mut left = datagram.payload_len;
    let fits = |bytes: &[u8]| {
        let len = part.min(left);
        left -= len;
        // The last captured datagram may have an incomplete header.
        datagram_len(bytes).map_or(is_cut && bytes.len() < len, |said| said == len)
    };
    let several = datagram.payload_len > part;
    (several && datagram.payload.chunks(part).all(fits)).then_some(part)
}

/// Returns the length of the datagram at the start of `bytes`, according to its TLP.
fn datagram_len(bytes: &[u8]) -> Option<usize> {
    let tlp = bytes.get(NETTLP_LEN..)?;
    Header::new(tlp).ok().map(|header| NETTLP_LEN + header.tlp_len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encap::{Addresses, HEADER_LEN, Host, NettlpHeader, emit_header};
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    const HOST: Host = Host { mac: [2; 6], ip: Ipv4Addr::LOCALHOST };

    /// MWr of `dws` DWs to address 0x1000.
    fn write(dws: u8, fill: u8) -> Vec<u8> {
        let mut tlp = vec![0x40, 0, 0, dws, 0, 0, 0, if dws == 1 { 0x0f } else { 0xff }, 0, 0, 0x10, 0];
        tlp.resize(12 + usize::from(dws) * 4, fill);
        tlp
    }

    fn frame(port: u16, tlps: &[Vec<u8>]) -> Vec<u8> {
        let addresses = Addresses { source: HOST, destination: HOST };
        let mut payload = Vec::new();
        for (n, tlp) in tlps.iter().enumerate() {
            if n > 0 {
                payload.extend([0; NETTLP_LEN]);
            }
            payload.extend(tlp);
        }
        let mut head = [0; HEADER_LEN];
        emit_header(&mut head, &addresses, port, NettlpHeader::default(), payload.len());
        [&head[..], &payload].concat()
    }

    /// The same frame over IPv6 with 8 bytes of Destination Options. Checksums are those of a sender without offload.
    fn over_ipv6(ipv4: &[u8]) -> Vec<u8> {
        let mut udp = ipv4[34..].to_vec();
        let length = (udp.len() as u16 + 8).to_be_bytes();
        let addresses = [[0xfd; 16], [0xfc; 16]].concat();
        // RFC 8200, section 8.1: the pseudo-header has Length and Next Header in four bytes each.
        let pseudo =
            [&addresses[..], &[0, 0], &(udp.len() as u16).to_be_bytes(), &[0, 0, 0, 17], &udp].concat();
        udp[6..8].copy_from_slice(&internet_checksum(&pseudo).to_be_bytes());
        let head = [0x86, 0xdd, 0x60, 0, 0, 0, length[0], length[1], 60, 64];
        [&ipv4[..12], &head, &addresses, &[17, 0, 1, 4, 0, 0, 0, 0], &udp].concat()
    }

    #[test]
    fn splits_only_merged_datagrams() {
        let (long, short) = (write(8, 1), write(2, 2));
        let mut odd = long.clone();
        odd.push(0);
        let rows = [
            ("one", 0x3000, vec![long.clone()], None),
            ("three", 0x3000, vec![long.clone(); 3], Some(3)),
            ("a shorter last one", 0x400f, vec![long.clone(), long.clone(), short.clone()], Some(3)),
            ("a session", 0x2ffd, vec![long.clone(); 2], Some(2)),
            ("a longer last one", 0x3000, vec![short.clone(), long.clone()], None),
            ("a byte too many", 0x3000, vec![long.clone(), odd], None),
            ("messaging", 0x2fff, vec![long.clone(); 2], None),
            ("no TLP", 0x3000, vec![vec![0xff; 40]; 2], None),
        ];
        for (what, port, tlps, parts) in rows {
            let frame = frame(port, &tlps);
            assert_eq!(Cut::of(&frame).map(|cut| cut.parts()), parts, "{what}");
        }
    }

    /// Reads a frame from a pcap file. For each record: its text, its number, and its bytes captured and on the wire.
    fn records(frame: &[u8], original_len: usize) -> Vec<(String, u64, usize, usize)> {
        let words =
            [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 65535, 1, 0, 0, frame.len() as u32, original_len as u32];
        let mut file: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        file.extend(frame);
        let (mut reader, mut all) = (crate::Reader::new(&file[..]).unwrap(), Vec::new());
        while let Some(record) = reader.next_record().unwrap() {
            let mut line = String::new();
            crate::render::line(&record, &mut line);
            let what = line.rsplit(": ").next().unwrap_or_default().to_owned();
            all.push((what, record.number, record.captured_len, record.original_len));
        }
        all
    }

    /// Captures of other programs have one frame for datagrams that the kernel merged. Each datagram is a record
    /// with the frame's number.
    #[test]
    fn reads_each_merged_datagram_as_record() {
        let (long, short) = (write(8, 1), write(2, 2));
        let (bytes, last) = (42 + 6 + 12 + 32, 42 + 6 + 12 + 8);
        let frame = frame(0x3000, &[long.clone(), long.clone(), short]);
        let whole = records(&frame, frame.len());
        let lens: Vec<_> = whole.iter().map(|r| (r.1, r.2, r.3)).collect();
        assert_eq!(lens, [(1, bytes, bytes), (1, bytes, bytes), (1, last, last)]);
        assert!(whole.iter().all(|r| r.0.starts_with("MWr")), "{whole:?}");
        // A capture with a limit: it has the second header with some data, and nothing of the third datagram.
        let cut = records(&frame[..bytes + 30], frame.len());
        let lens: Vec<_> = cut.iter().map(|r| (r.1, r.2, r.3)).collect();
        assert_eq!(lens, [(1, bytes, bytes), (1, 42 + 30, bytes)]);
        assert!(cut.iter().all(|r| r.0.starts_with("MWr")), "{cut:?}");
    }

    proptest! {
        /// The parts equal the frames that a sender without offload sends.
        #[test]
        fn parts_equal_sent_datagrams(dws in 2_u8..64, count in 2_usize..20, last in 1_u8..64) {
            let last = last.min(dws);
            let mut tlps: Vec<_> = (1..count).map(|n| write(dws, n as u8)).collect();
            tlps.push(write(last, 0xee));
            for convert in [<[u8]>::to_vec, over_ipv6] {
                let whole = convert(&frame(0x3005, &tlps));
                let cut = Cut::of(&whole).unwrap();
                prop_assert_eq!(cut.parts(), tlps.len());
                let mut out = vec![0; whole.len()];
                for (index, tlp) in tlps.iter().enumerate() {
                    let len = cut.write(&whole, index, &mut out);
                    prop_assert_eq!(&out[..len], &convert(&frame(0x3005, std::slice::from_ref(tlp)))[..]);
                }
            }
        }

        #[test]
        fn foreign_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0_usize..100, by in any::<u8>()) {
            let ipv4 = frame(0x3000, &[write(4, 0), write(4, 1)]);
            let mut frames = [bytes, over_ipv6(&ipv4), ipv4];
            for frame in &mut frames[1..] {
                let at = at % frame.len();
                frame[at] = by;
            }
            for bytes in &frames {
                if let Some(cut) = Cut::of(bytes) {
                    let mut out = vec![0; bytes.len()];
                    for index in 0..cut.parts() {
                        let len = cut.write(bytes, index, &mut out);
                        prop_assert!(len <= bytes.len());
                    }
                }
            }
        }
    }
}
