// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Carriers and an adapter's sockets over the loopback: 127.11.x.y and ::1.

use capture::encap::{Origin, PORT_CONFIG, PortScheme};
use riser_nettlp::carrier::{Carrier, SendError, Wait};
use riser_nettlp::net::{AdapterOptions, AdapterSockets, OpenError, TaggedCarrier, TaggedOptions};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use tlp::{Duration, Tag};

/// Timeout that is long enough for every machine. It expires only if a test fails.
const PATIENCE: Wait = Wait::AtMost(Duration::from_ms(5_000));

fn ip(x: u8, y: u8) -> IpAddr {
    Ipv4Addr::new(127, 11, x, y).into()
}

/// Receives one batch, sends each datagram back, and returns the ports.
fn echo(adapter: &mut AdapterSockets) -> Vec<u16> {
    let mut ports = Vec::new();
    adapter
        .poll(PATIENCE, |out, port, from, bytes| {
            ports.push(port);
            out.send(port, from, bytes).unwrap();
            true
        })
        .unwrap();
    adapter.flush().unwrap();
    ports
}

fn receive_one(carrier: &mut impl Carrier) -> (Origin, Vec<u8>) {
    let mut got = None;
    assert_eq!(carrier.receive(PATIENCE, |a| got = Some((a.origin, a.tlp.to_vec()))).unwrap(), 1);
    got.unwrap()
}

#[test]
fn tlp_uses_the_port_of_its_tag_and_so_does_its_answer() {
    let mut adapter = AdapterSockets::bind(&AdapterOptions::new(ip(1, 1))).unwrap();
    let options = TaggedOptions { local: Some(ip(1, 2)), host: true, ..TaggedOptions::new(ip(1, 1), 3..=5) };
    let mut carrier = TaggedCarrier::connect(&options).unwrap();
    for (origin, tag, port) in
        [(Origin::Device, 3, 0x3003), (Origin::Device, 5, 0x3005), (Origin::Host, 0x12, 0x4002)]
    {
        carrier.send(origin, Tag::from_bits(tag), 12, |out| out.fill(tag as u8)).unwrap();
        carrier.flush().unwrap();
        assert_eq!(echo(&mut adapter), [port]);
        assert_eq!(receive_one(&mut carrier), (origin, vec![tag as u8; 12]));
    }
    assert_eq!(carrier.send(Origin::Device, Tag::from_bits(6), 12, |_| ()), Err(SendError::Tag(6)));
}

/// A connected socket takes the datagrams of its peer from the same port, and no others. It is read with a blocking call, one datagram
/// or several at a time.
#[test]
fn connected_socket_serves_only_its_peer() {
    let (there, port) = (ip(75, 1), 0x300f);
    let mut listening = AdapterSockets::bind(&AdapterOptions::new(there)).unwrap();
    let mut adapter = listening.connect(port, ip(75, 2)).unwrap();
    assert!(listening.connect(0x1234, ip(75, 2)).is_none());
    // Not reachable from 127.11.75.1.
    for peer in ["::1", "192.0.2.1"] {
        assert!(listening.connect(port, peer.parse().unwrap()).is_none());
    }
    let [peer, other_port, other] =
        [(ip(75, 2), port), (ip(75, 2), 0), (ip(75, 3), port)].map(|at| UdpSocket::bind(at).unwrap());
    let check = |adapter: &mut AdapterSockets, peer: &UdpSocket, count: usize, byte: u8| {
        (0..count).for_each(|_| _ = peer.send_to(&[byte; 18], (there, port)).unwrap());
        let mut answered = 0;
        while answered < count {
            answered += echo(adapter).len();
        }
        let mut answer = [0; 64];
        for _ in 0..count {
            assert_eq!(peer.recv_from(&mut answer).unwrap(), (18, (there, port).into()));
            assert_eq!(answer[..18], [byte; 18]);
        }
    };
    for wait in [Wait::Never, Wait::AtMost(Duration::from_us(10)), Wait::AtMost(Duration::from_ms(3))] {
        assert_eq!(adapter.poll(wait, |_, _, _, _| true).unwrap(), 0);
        (0..80).for_each(|round| check(&mut adapter, &peer, 1 + usize::from(round % 40 == 0), round));
        check(&mut listening, &other_port, 1, 0xa0);
        check(&mut listening, &other, 2, 0xa1);
    }
    assert_eq!(adapter.counters().received_datagrams, 3 * 82);
    // No other socket can share the port.
    let shared = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
    shared.set_reuse_address(true).unwrap();
    let error = shared.bind(&std::net::SocketAddr::new(there, port).into()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
}

#[test]
fn scheme_of_paper_maps_tags_to_sixteen_ports() {
    let mut adapter = AdapterSockets::bind(&AdapterOptions::new(ip(2, 1))).unwrap();
    let options = TaggedOptions {
        local: Some(ip(2, 2)),
        scheme: PortScheme::Paper,
        ..TaggedOptions::new(ip(2, 1), 0..=63)
    };
    let mut carrier = TaggedCarrier::connect(&options).unwrap();
    // On the same port, a CplD is an answer to this side, and an MRd is a request of the host.
    for (first, origin) in [(0x4a, Origin::Device), (0x00, Origin::Host)] {
        let mut tlp = [0; 12];
        (tlp[0], tlp[10]) = (first, 0x35);
        carrier.send(Origin::Device, Tag::from_bits(0x35), 12, |out| out.copy_from_slice(&tlp)).unwrap();
        carrier.flush().unwrap();
        assert_eq!(echo(&mut adapter), [0x3005]);
        assert_eq!(receive_one(&mut carrier), (origin, tlp.to_vec()));
    }
}

#[test]
fn error_names_a_used_port_and_its_rule() {
    let only = AdapterOptions {
        tags: None,
        host: false,
        messaging: false,
        registers: false,
        sessions: false,
        ..AdapterOptions::new(ip(3, 1))
    };
    let _first = AdapterSockets::bind(&only).unwrap();
    let error = AdapterSockets::bind(&only).unwrap_err();
    assert!(matches!(error, OpenError::Taken { port: PORT_CONFIG, rule: "configuration", .. }));
    assert_eq!(
        error.to_string(),
        "UDP port 0x5001 (20481) of 127.11.3.1 is used by another socket; it is needed for configuration"
    );
}

#[test]
fn ports_work_over_ipv6() {
    let localhost: IpAddr = std::net::Ipv6Addr::LOCALHOST.into();
    // Plain sockets on the other side, since both sides would need the same port of the one
    // address.
    let tags = 0x3f0..=0x3f0;
    let peer = std::net::UdpSocket::bind((localhost, 0)).unwrap();
    let options = AdapterOptions {
        tags: Some(tags),
        host: false,
        messaging: false,
        configuration: false,
        registers: false,
        sessions: false,
        ..AdapterOptions::new(localhost)
    };
    let mut adapter = AdapterSockets::bind(&options).unwrap();
    peer.send_to(&[1; 18], (localhost, 0x33f0)).unwrap();
    assert_eq!(echo(&mut adapter), [0x33f0]);
    let mut answer = [0; 64];
    assert_eq!(peer.recv_from(&mut answer).unwrap(), (18, (localhost, 0x33f0).into()));
}

/// One socket delivers a datagram in every turn. At another socket, a datagram waits all the time.
#[test]
fn busy_port_does_not_starve_others() {
    for (n, wait) in
        [Wait::AtMost(Duration::from_ms(1)), Wait::Busy(Duration::from_ms(1))].into_iter().enumerate()
    {
        let (there, here) = (ip(70, 2 * n as u8 + 1), ip(70, 2 * n as u8 + 2));
        #[expect(clippy::reversed_empty_ranges, reason = "it has no requests of its own")]
        let options = TaggedOptions { local: Some(here), host: true, ..TaggedOptions::new(there, 1..=0) };
        let mut carrier = TaggedCarrier::connect(&options).unwrap();
        let host = [0x4000, 0x4001].map(|port| {
            let socket = UdpSocket::bind((there, port)).unwrap();
            socket.connect((here, port)).unwrap();
            socket
        });
        // NetTLP header and MRd of one DW, the tag in its seventh byte.
        let ask = |tag: u8| {
            let read = [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, tag, 0xf, 0, 0, 0, 0];
            host[usize::from(tag)].send(&read).unwrap();
        };
        let turn = |carrier: &mut TaggedCarrier| {
            let mut cold = false;
            ask(0);
            carrier.receive(wait, |arrival| cold |= arrival.tlp[6] == 1).unwrap();
            cold
        };
        assert!(!turn(&mut carrier));
        ask(1);
        assert!((0..20).any(|_| turn(&mut carrier)), "{wait:?}: one port starves the other");
    }
}
