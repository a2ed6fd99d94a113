// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ethernet, IP, UDP and the NetTLP header: frames that are read, and errors of frames that are not.

use crate::common::mrd_frame;
use riser_capture::encap::{
    Addresses, Datagram, EncapError, Foreign, HEADER_LEN, NettlpHeader, Origin, Parsed, PortScheme, PortUse,
    emit_header, internet_checksum, parse,
};
use riser_capture::{Direction, Frame, Interface, Kind, Mark, Resolution, Timestamp, decode};
use tlp::Tag;

fn ethernet() -> Interface {
    Interface::new(1, Resolution::NANOSECONDS, 0)
}

/// The content of a frame in words.
fn verdict(bytes: &[u8], original_len: usize) -> String {
    let interface = ethernet();
    let frame = Frame {
        number: 1,
        timestamp: Timestamp::ZERO,
        has_time: true,
        interface_id: 0,
        interface: &interface,
        bytes,
        original_len,
        mark: Mark::default(),
        direction: None,
        text: None,
    };
    match decode::decode(&frame).kind {
        Kind::Tlp(tlp) => {
            format!("{} with {} of {} bytes", tlp.repr.name(), tlp.data.len(), tlp.payload_bytes)
        }
        Kind::Dllp(dllp) => dllp.to_string(),
        Kind::Other(other) => other.to_string(),
        Kind::Bad(bad) => format!("{}: {bad}", bad.layer()),
    }
}

fn datagram(frame: &[u8]) -> Datagram<'_> {
    match parse(frame, frame.len()) {
        Ok(Parsed::Datagram(datagram)) => datagram,
        other => panic!("{other:?}"),
    }
}

fn changed(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut frame = mrd_frame();
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    frame
}

fn spliced(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut frame = mrd_frame();
    frame.splice(at..at, bytes.iter().copied());
    frame
}

/// The frame with IPv4 `options`.
fn with_options(options: &[u8]) -> Vec<u8> {
    let mut frame = spliced(34, options);
    frame[14] = 0x45 + (options.len() / 4) as u8;
    frame[17] += options.len() as u8;
    frame
}

#[test]
fn reads_every_field_of_datagram() {
    let frame = mrd_frame();
    let d = datagram(&frame);
    assert_eq!(
        (d.source.to_string(), d.destination.to_string()),
        ("192.168.10.3".into(), "192.168.10.1".into())
    );
    assert_eq!((d.source_port, d.destination_port, d.payload_len), (0x3003, 0x3003, 18));
    assert_eq!(d.payload, &frame[42..]);
    let (nettlp, tlp) = NettlpHeader::parse(&[0x00, 0x39, 0x3e, 0xf2, 0xd0, 0xcc, 0xaa]).unwrap();
    assert_eq!((nettlp.sequence, nettlp.timestamp, tlp), (0x39, 0x3ef2_d0cc, &[0xaa][..]));
}

#[test]
fn reads_802_1q_tags() {
    let rows: [(&[u8], &[u16]); 3] = [
        (&[0x81, 0, 0, 100], &[100]),
        (&[0x88, 0xa8, 0xe0, 0x64, 0x81, 0, 0xf, 0xff], &[100, 4095]),
        (&[0x81, 0, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3, 0x81, 0, 0, 4], &[1, 2, 3, 4]),
    ];
    for (tags, ids) in rows {
        let frame = spliced(12, tags);
        assert_eq!(datagram(&frame).vlans.ids(), ids);
        assert_eq!(verdict(&frame, frame.len()), "MRd with 0 of 0 bytes");
    }
}

#[test]
fn reports_content_or_error_of_each_frame() {
    let whole = |frame: Vec<u8>| {
        let len = frame.len();
        (frame, len)
    };
    let cut = |len: usize| (mrd_frame()[..len].to_vec(), 60);
    let rows = [
        (whole(mrd_frame()), "MRd with 0 of 0 bytes"),
        (whole(with_options(&[1, 1, 1, 0])), "MRd with 0 of 0 bytes"),
        (whole(with_options(&[0; 40])), "MRd with 0 of 0 bytes"),
        // Padding after the datagram, as Ethernet adds it.
        (whole(spliced(60, &[0; 9])), "MRd with 0 of 0 bytes"),
        (whole(changed(12, &[0x08, 0x06])), "ARP"),
        (whole(changed(12, &[0x86, 0xdd])), "IPv6: IPv6: version 4, expected 6"),
        (whole(changed(12, &[0x88, 0xcc])), "EtherType 0x88cc"),
        (whole(changed(23, &[1])), "IP protocol 1"),
        (whole(changed(36, &[0, 53])), "UDP of others"),
        (whole(changed(36, &[0x34, 0x00])), "UDP of others"),
        (whole(changed(36, &[0x40, 0x10])), "UDP of others"),
        (whole(changed(36, &[0x2f, 0xff])), "NetTLP messaging"),
        (whole(changed(36, &[0x50, 0x01])), "NetTLP configuration"),
        (whole(changed(36, &[0x50, 0x02])), "NetTLP adapter registers"),
        (whole(changed(36, &[0x40, 0x01])), "MRd with 0 of 0 bytes"),
        (cut(3), "Ethernet: Ethernet: header needs 14 bytes, the capture holds 3"),
        (cut(33), "IPv4: IPv4: header needs 20 bytes, the capture holds 19"),
        (cut(41), "UDP: UDP: header needs 8 bytes, the capture holds 7"),
        (cut(47), "NetTLP header: NetTLP header: header needs 6 bytes, the capture holds 5"),
        (cut(59), "TLP: truncated TLP: 11 bytes, expected 12 up to the end of its header"),
        (whole(spliced(12, &[0x81, 0, 0, 1].repeat(5))), "802.1Q tag: 802.1Q tag: more than 4 stacked tags"),
        (
            (spliced(12, &[0x81, 0, 0, 1])[..16].to_vec(), 64),
            "802.1Q tag: 802.1Q tag: header needs 4 bytes, the capture holds 2",
        ),
        (whole(changed(14, &[0x65])), "IPv4: IPv4: version 6, expected 4"),
        (whole(changed(14, &[0x44])), "IPv4: IPv4: header length of 4 DW, expected 5 to 15"),
        (whole(changed(16, &[0, 19])), "IPv4: IPv4: total length 19, expected 20 to 46 bytes"),
        (whole(changed(16, &[0, 47])), "MRd with 0 of 0 bytes"),
        (whole(changed(20, &[0x20, 0])), "IPv4: IPv4: fragment at byte 0; fragments are not reassembled"),
        (
            whole(changed(20, &[0x00, 0xb9])),
            "IPv4: IPv4: fragment at byte 1480; fragments are not reassembled",
        ),
        (whole(changed(38, &[0, 7])), "UDP: UDP: length 7, expected 8 to 26 bytes"),
        (whole(changed(38, &[0, 27])), "UDP: UDP: length 27, expected 8 to 26 bytes"),
        (
            whole(changed(38, &[0, 13])),
            "NetTLP header: NetTLP header: header needs 6 bytes, the capture holds 5",
        ),
        // A write of four DW, in a datagram without data.
        (whole(changed(48, &[0x40])), "TLP: TLP of 12 bytes, expected 28 by its header"),
        (
            whole(changed(48, &[0xff])),
            "TLP: malformed TLP: Fmt 111b, expected 000b to 100b (PCIe 5.0 §2.2.1, rule reserved-fmt)",
        ),
        (whole(changed(36, &[0x2f, 0xfe])), "DLLP: DLLP of 12 bytes: expected 6"),
    ];
    for ((frame, original_len), text) in rows {
        let verdict = verdict(&frame, original_len);
        assert_eq!(verdict, text);
    }
}

/// The same datagram over IPv6 with extension headers. `next` is the first Next Header.
fn over_ipv6(next: u8, extensions: &[u8]) -> Vec<u8> {
    let mrd = mrd_frame();
    let mut frame = mrd[..12].to_vec();
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 26 + extensions.len() as u8, next, 64]);
    for end in [3, 1] {
        frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, end]);
    }
    frame.extend(extensions);
    frame.extend(&mrd[34..]);
    frame
}

/// RFC 8200, section 4: each extension header has the type of the next one, and its own length.
#[test]
fn reads_ipv6_with_extension_headers() {
    let plain = over_ipv6(17, &[]);
    let d = datagram(&plain);
    assert_eq!((d.source.to_string(), d.destination.to_string()), ("fd00::3".into(), "fd00::1".into()));
    assert_eq!((d.source_port, d.payload_len, d.payload_at), (0x3003, 18, 62));
    let options = |next: u8, units: u8| [vec![next, units], vec![0; 6 + 8 * usize::from(units)]].concat();
    let authentication = [vec![17, 1, 0, 0], vec![0; 8]].concat();
    let fragment = |next: u8, offset_and_more: u16| {
        let [high, low] = offset_and_more.to_be_bytes();
        vec![next, 0, high, low, 0, 0, 0, 9]
    };
    let set = |at: usize, bytes: &[u8]| {
        let mut frame = plain.clone();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        frame
    };
    const MRD: &str = "MRd with 0 of 0 bytes";
    const FIRST: &str = "IPv6: IPv6: fragment at byte 0; fragments are not reassembled";
    const LATER: &str = "IPv6: IPv6: fragment at byte 1448; fragments are not reassembled";
    let rows: [(Vec<u8>, &str); 16] = [
        (plain.clone(), MRD),
        (over_ipv6(0, &options(17, 0)), MRD),
        (over_ipv6(0, &[options(60, 1), options(43, 0), options(17, 2)].concat()), MRD),
        (over_ipv6(51, &authentication), MRD),
        // A fragment that contains the whole datagram (RFC 6946).
        (over_ipv6(44, &fragment(17, 0)), MRD),
        (over_ipv6(44, &fragment(17, 1)), FIRST),
        (over_ipv6(44, &[fragment(60, 1), options(17, 0)].concat()), FIRST),
        (over_ipv6(44, &fragment(17, 1448)), LATER),
        (over_ipv6(44, &fragment(6, 1448)), "IP protocol 6"),
        (over_ipv6(58, &[]), "IP protocol 58"),
        (over_ipv6(59, &[]), "IP protocol 59"),
        (over_ipv6(0, &options(0, 0).repeat(9)), "IPv6: IPv6: more than 8 extension headers"),
        (over_ipv6(0, &options(17, 9)[..8]), "UDP: UDP: header needs 8 bytes, the capture holds 0"),
        (set(14, &[0x50]), "IPv6: IPv6: version 5, expected 6"),
        (set(18, &[0, 27]), "MRd with 0 of 0 bytes"),
        (set(18, &[0, 7]), "UDP: UDP: header needs 8 bytes, the capture holds 7"),
    ];
    for (frame, expected) in rows {
        assert_eq!(verdict(&frame, frame.len()), expected, "{frame:02x?}");
    }
    let cut =
        [(over_ipv6(17, &[])[..53].to_vec(), 40, 39), (over_ipv6(60, &options(17, 0))[..61].to_vec(), 8, 7)];
    for (frame, needs, holds) in cut {
        let expected = format!("IPv6: IPv6: header needs {needs} bytes, the capture holds {holds}");
        assert_eq!(verdict(&frame, 88), expected);
    }
    let ports = |frame: &[u8]| match parse(frame, frame.len()) {
        Err(EncapError::Fragment { ports, .. }) => ports,
        other => panic!("{other:?}"),
    };
    assert_eq!(ports(&over_ipv6(44, &fragment(17, 1))), Some((0x3003, 0x3003)));
    assert_eq!(ports(&over_ipv6(44, &fragment(17, 1448))), None);
    assert_eq!(ports(&changed(20, &[0x20, 0])), Some((0x3003, 0x3003)));
    assert_eq!(ports(&changed(20, &[0x00, 0xb9])), None);
}

/// `psmem` and configuration both use 0x4001. Configuration has six bytes; its answer is padded with zeros to 18.
#[test]
fn recognizes_configuration_on_old_port() {
    let mut request = changed(36, &[0x40, 0x01]);
    request[38..40].copy_from_slice(&[0, 14]);
    assert_eq!(verdict(&request, 60), "NetTLP configuration");
    let mut answer = changed(36, &[0x40, 0x01]);
    answer[42..].fill(0);
    answer[42] = 0x3c;
    assert_eq!(verdict(&answer, 60), "NetTLP configuration");
}

/// LibTLP pads writes of one and two bytes to three.
#[test]
fn reads_write_with_three_bytes_of_data() {
    let mut frame = changed(48, &[0x40, 0, 0, 1, 0x1b, 0, 3, 0x3]);
    frame.extend([1, 2, 3]);
    frame[17] += 3;
    frame[39] += 3;
    assert_eq!(verdict(&frame, frame.len()), "MWr with 3 of 4 bytes");
}

/// All other TLPs must have as much data as their header gives: a write of two DW, a completion, a deferrable
/// write, a configuration write, an AtomicOp.
#[test]
fn rejects_missing_data_byte_in_other_tlps() {
    for header in [[0x40, 0, 0, 2], [0x4a, 0, 0, 1], [0x5b, 0, 0, 1], [0x44, 0, 0, 1], [0x4c, 0, 0, 1]] {
        let (bytes, have) = (usize::from(header[3]) * 4, usize::from(header[3]) * 4 - 1);
        let be = if bytes == 8 { 0xff } else { 0xf };
        let mut frame = changed(48, &[header[0], 0, 0, header[3], 0x1b, 0, 0, be]);
        frame.extend(vec![1; have]);
        frame[17] += have as u8;
        frame[39] += have as u8;
        let expected = format!("TLP: TLP of {} bytes, expected {} by its header", 12 + have, 12 + bytes);
        assert_eq!(verdict(&frame, frame.len()), expected, "{header:x?}");
    }
}

#[test]
fn accepts_snap_length() {
    let mut frame = changed(48, &[0x40, 0, 0, 64]);
    let total = (20 + 26 + 256u16).to_be_bytes();
    frame[16..18].copy_from_slice(&total);
    frame[38..40].copy_from_slice(&(26 + 256u16).to_be_bytes());
    assert_eq!(verdict(&frame, 316), "MWr with 0 of 256 bytes");
    frame.extend([0; 68]);
    assert_eq!(verdict(&frame, 316), "MWr with 68 of 256 bytes");
}

/// Both port schemes, of NetTLP's captures and of today's programs.
#[test]
fn ports_match_tags_in_both_schemes() {
    let tag = |n| Tag::new(n).unwrap();
    let rows = [
        (PortScheme::Paper, Origin::Device, 3, 0x3003),
        (PortScheme::Paper, Origin::Device, 0x13, 0x3003),
        (PortScheme::Paper, Origin::Host, 0x13, 0x3003),
        (PortScheme::Tagged, Origin::Device, 0x13, 0x3013),
        (PortScheme::Tagged, Origin::Device, 1023, 0x33ff),
        (PortScheme::Tagged, Origin::Host, 0x13, 0x4003),
        (PortScheme::Tagged, Origin::Host, 1023, 0x400f),
    ];
    for (scheme, origin, number, port) in rows {
        assert_eq!(scheme.port(origin, tag(number)), port);
        assert!(matches!(PortUse::of(port), PortUse::Tlp(_)));
    }
    assert_eq!(PortUse::of(0x2ffe), PortUse::Dllp);
    assert_eq!(PortUse::of(0x2ffd), PortUse::Session);
    assert_eq!(PortUse::between(0x2ffd, 50_000), PortUse::Session);
    assert_eq!(PortUse::between(0x2ffd, 0x2fff), PortUse::Nettlp("messaging"));
    for port in [0x2ffc, 0x3400, 0x3fff, 0x4010, 53] {
        assert_eq!(PortUse::of(port), PortUse::Foreign, "{port:#x}");
    }
}

#[test]
fn parses_emitted_headers() {
    for link in [0, 7, 0x1234] {
        for direction in [Direction::Downstream, Direction::Upstream] {
            let addresses = Addresses::of_link(link, direction);
            let nettlp = NettlpHeader { sequence: 0xabcd, timestamp: 0x0123_4567 };
            let mut head = [0xee; HEADER_LEN];
            emit_header(&mut head, &addresses, 0x33ff, nettlp, 12);
            let mut frame = head.to_vec();
            frame.extend([0x5a; 12]);
            assert_eq!(internet_checksum(&frame[14..34]), 0);
            let d = datagram(&frame);
            let ends = (addresses.source.ip.into(), addresses.destination.ip.into());
            assert_eq!((d.source, d.destination), ends);
            assert_eq!((d.source_port, d.destination_port), (0x33ff, 0x33ff));
            assert_eq!(NettlpHeader::parse(d.payload), Ok((nettlp, &[0x5a; 12][..])));
            assert!(matches!(parse(&frame, frame.len()), Ok(Parsed::Datagram(_))));
        }
    }
    let arp = changed(12, &[0x08, 0x06]);
    assert_eq!(parse(&arp, 60), Ok(Parsed::Foreign(Foreign::EtherType(0x0806))));
}

/// Between two riser processes, TLPs are shown as TLPs, control records have names, and sealed datagrams are called
/// sealed.
#[test]
fn recognizes_sessions_by_number_and_first_byte() {
    let mrd = [0, 0, 0, 1, 0x1b, 0, 3, 0xf, 0, 0, 0x10, 0];
    let cpl = [0x0a, 0, 0, 0, 0, 0, 0x20, 4, 0x1b, 0, 3, 0];
    let rows: [(bool, &[u8], &[u8], &str); 10] = [
        (true, &[0, 1, 0, 0, 0, 0], &mrd, "device"),
        (false, &[0, 1, 0, 0, 0, 0], &mrd, "host"),
        (true, &[0, 2, 0, 0, 0, 0], &cpl, "host"),
        (false, &[0, 2, 0, 0, 0, 0], &cpl, "device"),
        (true, &[0, 0, 0x80, 0, 0, 0], &[0xff, 1, 0, 0], "NetTLP session Hello"),
        (false, &[0, 0, 0x80, 0, 0, 0], &[0xff, 4, 0, 0], "NetTLP session Ack"),
        (false, &[0, 0, 0x80, 0, 0, 0], &[0xff, 99], "NetTLP session control, unknown"),
        (false, &[0, 0, 0x80, 0, 0, 0], &[0x12, 0x34], "NetTLP session control, sealed"),
        (true, &[0, 1, 0, 0, 0, 0], &[0x4a; 50], "NetTLP session, sealed or no TLP"),
        (true, &[0, 1, 0], &[], "NetTLP header: NetTLP header: header needs 6 bytes, the capture holds 3"),
    ];
    for (to_adapter, number, rest, expected) in rows {
        let payload = [number, rest].concat();
        let mut frame = mrd_frame()[..42].to_vec();
        let ports = if to_adapter { [0xc3, 0x50, 0x2f, 0xfd] } else { [0x2f, 0xfd, 0xc3, 0x50] };
        frame[34..38].copy_from_slice(&ports);
        frame[16..18].copy_from_slice(&(28 + payload.len() as u16).to_be_bytes());
        frame[38..40].copy_from_slice(&(8 + payload.len() as u16).to_be_bytes());
        frame.extend(payload);
        let interface = ethernet();
        let (bytes, original_len) = (&frame[..], frame.len());
        let (number, timestamp, mark) = (1, Timestamp::ZERO, Mark::default());
        let whole = Frame {
            number,
            timestamp,
            has_time: true,
            interface_id: 0,
            interface: &interface,
            bytes,
            original_len,
            mark,
            direction: None,
            text: None,
        };
        let found = match decode::decode(&whole).kind {
            Kind::Tlp(tlp) if tlp.origin == Origin::Device => "device".to_owned(),
            Kind::Tlp(_) => "host".to_owned(),
            _ => verdict(&frame, frame.len()),
        };
        assert_eq!(found, expected);
    }
}

/// The frame is shorter than its IP length. With a complete TLP header, it counts as a truncated TLP.
/// Otherwise the error of the IP length is reported.
#[test]
fn marks_frames_truncated_on_the_wire() {
    // MWr of 16 DW to 0x1000, over IPv4, and the same over IPv6.
    let tlp = [&[0x40, 0, 0, 16, 0, 0, 0, 0xff, 0, 0, 0x10, 0][..], &[7; 64]].concat();
    let nettlp = NettlpHeader::default();
    let mut head = [0; HEADER_LEN];
    let host = |n| riser_capture::encap::Host { mac: [n; 6], ip: [10, 0, 0, n].into() };
    let addresses = Addresses { source: host(1), destination: host(2) };
    emit_header(&mut head, &addresses, 0x3000, nettlp, tlp.len());
    let ipv4 = [&head[..], &tlp].concat();
    let udp = (ipv4.len() as u16 - 34).to_be_bytes();
    let ipv6 = [&ipv4[..12], &[0x86, 0xdd, 0x60, 0, 0, 0, udp[0], udp[1], 17, 64], &[0xfd; 32], &ipv4[34..]]
        .concat();
    for (version, frame, headers) in [("IPv4", &ipv4, 42), ("IPv6", &ipv6, 62)] {
        let header_end = headers + 6 + 12;
        for (kept, expected) in [
            (frame.len(), "MWr with 64 of 64 bytes".to_owned()),
            (header_end + 10, "MWr with 10 of 64 bytes".to_owned()),
            (header_end, "MWr with 0 of 64 bytes".to_owned()),
        ] {
            assert_eq!(verdict(&frame[..kept], kept), expected, "{version}, {kept}");
        }
        for kept in [header_end - 1, headers + 3, headers - 3] {
            let said = verdict(&frame[..kept], kept);
            assert!(said.contains("length ") && said.starts_with(version), "{version}, {kept}: {said}");
        }
        // Bytes that are missing only in the capture are no fault.
        let interface = ethernet();
        let mark = |bytes: &[u8], original_len| {
            let (number, timestamp, interface_id, mark) = (1, Timestamp::ZERO, 0, Mark::default());
            let frame = Frame {
                number,
                timestamp,
                has_time: true,
                interface_id,
                interface: &interface,
                bytes,
                original_len,
                mark,
                direction: None,
                text: None,
            };
            let record = decode::decode(&frame);
            let mut line = String::new();
            riser_capture::render::line(&record, &mut line);
            (record.truncated, line.ends_with(" [truncated on the wire]"))
        };
        assert_eq!(mark(&frame[..header_end], frame.len()), (false, false));
        assert_eq!(mark(&frame[..header_end], header_end + 4), (true, true));
    }
}

/// Questions go to the messaging port from any port. Answers come from the messaging port.
#[test]
fn names_messages() {
    let message = |source: u16, destination: u16, payload: &[u8]| {
        let mut frame = mrd_frame();
        frame.truncate(42);
        frame[34..36].copy_from_slice(&source.to_be_bytes());
        frame[36..38].copy_from_slice(&destination.to_be_bytes());
        frame[38..40].copy_from_slice(&(payload.len() as u16 + 8).to_be_bytes());
        frame[16..18].copy_from_slice(&(payload.len() as u16 + 28).to_be_bytes());
        frame.extend(payload);
        verdict(&frame, frame.len())
    };
    for (request, question, answer_len, answer) in [
        (1, "where is BAR4?", 8, "where BAR4 is"),
        (2, "which device is it?", 2, "which device it is"),
        (3, "what is in the MSI-X table?", 192, "the MSI-X table"),
    ] {
        assert_eq!(message(40_000, 0x2fff, &[request, 0, 0, 0]), format!("NetTLP messaging, {question}"));
        assert_eq!(message(0x2fff, 40_000, &vec![0; answer_len]), format!("NetTLP messaging, {answer}"));
    }
    assert_eq!(message(40_000, 0x2fff, &[9, 0, 0, 0]), "NetTLP messaging");
    assert_eq!(message(0x2fff, 40_000, &[0; 7]), "NetTLP messaging");
    // Answers of configuration and adapter registers may also go to any port.
    assert_eq!(message(0x5001, 40_000, &[0x3c, 0, 0, 0, 0, 0]), "NetTLP configuration");
    assert_eq!(message(0x5002, 40_000, &[0; 6]), "NetTLP adapter registers");
}
