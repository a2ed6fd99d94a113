// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An adapter with memory, and clients that behave like upstream's, over the loopback: 127.13.x.y and ::1.

use crate::common::upstream;
use crate::common::upstream::{Config, Failed, Nettlp, message};
use capture::encap::Origin;
use capture::encap::PortScheme;
use riser_nettlp::adapter::{Adapter, AdapterSettings, Datagrams, Function, MemoryBackend, Registers};
use riser_nettlp::allow::AllowList;
use riser_nettlp::carrier::{Carrier, SendError, Wait};
use riser_nettlp::completer::{CompleterMemory, Image};
use riser_nettlp::net::{SessionCarrier, SessionConnectOptions};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use testkit::served::{ID, Served};
use tlp::{Mps, Time};

fn ip(x: u8, y: u8) -> IpAddr {
    Ipv4Addr::new(127, 13, x, y).into()
}

fn rule(peer: IpAddr, window: &str, directions: &str) -> String {
    format!("{peer},{window},{directions}")
}

/// Returns the byte at each address.
fn byte(address: usize) -> u8 {
    (address % 251) as u8
}

fn zeroes(bytes: u64) -> Image {
    Image::zeroes(bytes).unwrap()
}

fn fill(image: &Arc<Image>, bytes: usize) {
    let data: Vec<u8> = (0..bytes).map(byte).collect();
    Arc::clone(image).write(0, &data).unwrap();
}

fn contents(image: &Arc<Image>, address: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    Arc::clone(image).read(address, &mut out);
    out
}

#[test]
fn dma_read_and_dma_write_reach_memory() {
    let (here, there) = (ip(1, 2), ip(1, 1));
    let served = Served::start(there, zeroes(1 << 20), &[&rule(here, "all", "rw")], 256, false);
    fill(&served.image, 16384);
    let nettlp = Nettlp::init(here, there, 0x21, false);
    for (address, len) in
        [(0, 4), (0x1000, 256), (0x1001, 3), (0x1003, 250), (0x2000, 1024), (0x3000, 4096), (0x2f9d, 700)]
    {
        let mut out = vec![0xee; len];
        assert_eq!(nettlp.dma_read(address, &mut out), Ok(len));
        assert_eq!(
            out,
            (address as usize..).take(len).map(byte).collect::<Vec<_>>(),
            "{len} at {address:#x}"
        );
    }
    for (address, data) in [
        (0x8000, &b"four"[..]),
        (0x8010, b"1"),
        (0x8015, b"2"),
        (0x8018, b"34"),
        (0x8020, b"unaligned"),
        (0x8ffe, b"across"),
    ] {
        nettlp.dma_write(address, data);
        // A read after a write on the same port sees the write.
        let mut out = vec![0; data.len()];
        nettlp.dma_read(address & !0xfff | address & 0xff0, &mut [0; 4]).unwrap();
        assert_eq!(contents(&served.image, address, data.len()), data, "{address:#x}");
        assert_eq!(nettlp.dma_read(address, &mut out), Ok(data.len()));
        assert_eq!(out, data);
    }
    let counted = served.stop();
    let peer = counted.peers[&here];
    assert_eq!((peer.reads, peer.writes, peer.malformed), (7 + 6 + 6, 6 + 1, 0));
    // These are the writes of one and two bytes, whose payloads have three bytes; one write and two reads across 4
    // KiB; and the read of 1024 DW.
    assert_eq!(peer.mended, 7);
}

#[test]
fn answer_comes_from_the_requested_port_with_the_adapters_own_header() {
    let (here, there) = (ip(2, 2), ip(2, 1));
    let served = Served::start(there, zeroes(4096), &[&rule(here, "all", "rw")], 256, false);
    // Tag 0x13 is on port 0x3003 in the paper's scheme, and on 0x3013 in today's; connected sockets accept no other
    // port.
    for (paper, sequence) in [(true, 0), (false, 1)] {
        let nettlp = Nettlp::init(here, there, 0x13, paper);
        nettlp.send_raw(&[0, 0, 0, 1, 0x1a, 0, 0x13, 0x0f, 0, 0, 0, 0x40]);
        let answer = nettlp.receive_raw().unwrap();
        let ticks = u32::from_be_bytes(answer[2..6].try_into().unwrap());
        assert_eq!(answer[..2], [0, sequence]);
        assert!(ticks > 0, "the adapter's clock runs");
        assert_eq!(answer[6..], [0x4a, 0, 0, 1, 0x1b, 0, 0, 4, 0x1a, 0, 0x13, 0x40, 0, 0, 0, 0]);
    }
    // The host's ports accept an MWr too: the simple NIC's interrupt comes from 0x4003.
    let nic = Nettlp::on_port(here, there, 3, 0x4003);
    nic.dma_write(0x80, b"msix");
    nic.dma_read(0x80, &mut [0; 4]).unwrap();
    assert_eq!(contents(&served.image, 0x80, 4), b"msix");
}

#[test]
fn ipv6_is_served_like_ipv4() {
    let here = IpAddr::V6(Ipv6Addr::LOCALHOST);
    let served = Served::start(here, zeroes(1 << 16), &[&rule(here, "0+64K", "rw")], 256, true);
    fill(&served.image, 256);
    // Both ends cannot bind the same port on one address. So the client uses another port, and is answered there.
    let client = UdpSocket::bind(SocketAddr::new(here, 0)).unwrap();
    client.set_read_timeout(Some(upstream::WAIT)).unwrap();
    client.send_to(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x1a, 0, 5, 0xf, 0, 0, 0, 8], (here, 0x3005)).unwrap();
    let mut answer = [0; 64];
    let (len, from) = client.recv_from(&mut answer).unwrap();
    assert_eq!((len, from), (6 + 12 + 4, SocketAddr::new(here, 0x3005)));
    assert_eq!(answer[18..22], [8, 9, 10, 11]);
}

#[test]
fn messaging_and_configuration_answer_upstream_clients() {
    let (here, there) = (ip(3, 2), ip(3, 1));
    let served = Served::start(there, zeroes(4096), &[&rule(here, "all", "rw")], 256, false);
    assert_eq!(message(here, there, 1).unwrap(), 0xf000_0000_u64.to_le_bytes());
    assert_eq!(message(here, there, 2).unwrap(), ID.bits().to_le_bytes());
    assert_eq!(message(here, there, 3).unwrap().len(), 192);
    for port in [0x4001, 0x5001] {
        let config = Config::init(here, there, port);
        assert_eq!(config.read(0), 0x8022_3776, "device and vendor");
        assert_eq!(config.read(2) >> 8, 0xff_0000, "class");
        assert_eq!(config.read(1) & 0x7, 0x6);
        config.write(1, 0x3, 0x0007);
        assert_eq!(config.read(1) & 0x7, 0x7, "as in the example in the facts about the wire");
        config.write(1, 0x3, 0x0006);
        config.write(0, 0xf, 0xffff_ffff);
        assert_eq!(config.read(0), 0x8022_3776, "read-only");
        // BAR0 is 4 KiB: writing all ones reads back its size.
        let bar = config.read(4);
        config.write(4, 0xf, 0xffff_ffff);
        assert_eq!(config.read(4), 0xffff_f000);
        config.write(4, 0xf, bar);
        assert_eq!(config.read(4), bar);
    }
    let counted = served.stop().peers[&here];
    assert_eq!((counted.messaging, counted.config_reads, counted.config_writes), (3, 16, 10));
}

// Opcode 0x10 reads, 0x11 writes; DW 0 is the magic, 5 an address, 0x10 the requester ID.
#[test]
fn only_a_writer_can_change_registers() {
    let (writer, reader, there) = (ip(8, 2), ip(8, 3), ip(8, 1));
    let rules = [rule(writer, "all", "rw"), rule(reader, "all", "r")];
    let served = Served::start(there, zeroes(4096), &[&rules[0], &rules[1]], 256, true);
    let open = |local| {
        let socket = UdpSocket::bind(SocketAddr::new(local, 0x5002)).unwrap();
        socket.connect(SocketAddr::new(there, 0x5002)).unwrap();
        socket.set_read_timeout(Some(upstream::WAIT)).unwrap();
        socket
    };
    let read = |socket: &UdpSocket, dw: u8| {
        socket.send(&[0x10, dw, 0, 0, 0, 0]).unwrap();
        let mut reply = [0; 32];
        assert_eq!(socket.recv(&mut reply).unwrap(), 6);
        assert_eq!(reply[..2], [0x10, dw]);
        u32::from_be_bytes(reply[2..6].try_into().unwrap())
    };
    let (of_writer, of_reader) = (open(writer), open(reader));
    assert_eq!([0, 0x10, 0x40].map(|dw| read(&of_reader, dw)), [0x0123_4567, u32::from(ID.bits()), 0]);
    of_writer.send(&[0x11, 5, 192, 168, 10, 3]).unwrap();
    assert_eq!(read(&of_writer, 5), 0xc0a8_0a03);
    of_reader.send(&[0x11, 5, 1, 1, 1, 1]).unwrap();
    assert_eq!(read(&of_reader, 5), 0xc0a8_0a03, "a reader cannot write");
    let counted = served.stop();
    assert_eq!(
        (counted.peers[&writer].register_writes, counted.peers[&reader].refused_register_writes),
        (1, 1)
    );
}

#[test]
fn dma_without_bus_master_enable_is_refused() {
    let (here, there) = (ip(4, 2), ip(4, 1));
    let served = Served::start(there, zeroes(4096), &[&rule(here, "all", "rw")], 256, false);
    let (nettlp, config) = (Nettlp::init(here, there, 0, false), Config::init(here, there, 0x5001));
    config.write(1, 0x3, 0x2);
    assert_eq!(config.read(1) & 0x7, 0x2);
    assert_eq!(nettlp.dma_read(0, &mut [0; 4]), Err(Failed::NoData(1)));
    nettlp.dma_write(0, b"lost");
    config.write(1, 0x3, 0x6);
    assert_eq!(config.read(1) & 0x7, 0x6);
    let mut out = [0xee; 4];
    assert_eq!(nettlp.dma_read(0, &mut out), Ok(4));
    assert_eq!(out, [0; 4]);
    drop(served);
}

/// A Command write that clears Bus Master Enable would stop the DMA of all peers. An address window never permits
/// this write, for any directions.
#[test]
fn address_window_does_not_allow_configuration_writes() {
    let (narrow, wide, configurer, reader, there) = (ip(15, 2), ip(15, 3), ip(15, 4), ip(15, 5), ip(15, 1));
    let rules = [
        rule(narrow, "0+4", "rw"),
        rule(wide, "memory", "rw"),
        rule(configurer, "cfg", "rw"),
        rule(reader, "cfg", "r"),
    ];
    let rules = rules.each_ref().map(String::as_str);
    let served = Served::start(there, zeroes(4096), &rules, 256, false);
    for (peer, may) in [(narrow, false), (wide, false), (reader, false), (configurer, true)] {
        let config = Config::init(peer, there, 0x5001);
        config.write(1, 0x3, 0x2);
        assert_eq!(config.read(1) & 0x7, if may { 0x2 } else { 0x6 }, "{peer}");
        config.write(1, 0x3, 0x6);
        assert_eq!(config.read(1) & 0x7, 0x6, "{peer}");
    }
    assert_eq!(Nettlp::init(wide, there, 1, false).dma_read(0xffc, &mut [0; 4]), Ok(4));
    let nettlp = Nettlp::init(configurer, there, 2, false);
    assert_eq!(nettlp.dma_read(0, &mut [0; 4]), Err(Failed::NoData(1)), "and it is no window of memory");
    let counted = served.stop().peers;
    let refused = [narrow, wide, reader, configurer].map(|peer| counted[&peer].refused_register_writes);
    assert_eq!(refused, [2, 2, 2, 0]);
}

#[test]
fn each_peer_has_access_only_by_its_windows_and_directions() {
    let (reader, writer, stranger, there) = (ip(5, 2), ip(5, 3), ip(5, 4), ip(5, 1));
    let rules = [rule(reader, "0x1000+4K", "r"), rule(writer, "0x2000+4K", "w")];
    let served = Served::start(there, zeroes(1 << 16), &[&rules[0], &rules[1]], 256, false);
    fill(&served.image, 0x4000);
    let nettlp = Nettlp::init(reader, there, 1, false);
    let mut out = [0; 8];
    assert_eq!(nettlp.dma_read(0x1ff8, &mut out), Ok(8));
    for address in [0xff8, 0xffc, 0x1ffc, 0x2000, 0xffff_fff0] {
        assert_eq!(nettlp.dma_read(address, &mut out), Err(Failed::NoData(1)), "{address:#x}");
    }
    nettlp.dma_write(0x1000, b"no");
    assert_eq!(nettlp.dma_read(0x1000, &mut out), Ok(8));
    assert_eq!(out.to_vec(), (0x1000..0x1008).map(byte).collect::<Vec<_>>());
    let nettlp = Nettlp::init(writer, there, 2, false);
    nettlp.dma_write(0x2000, b"yes.");
    nettlp.dma_write(0x1000, b"no.");
    assert_eq!(nettlp.dma_read(0x2000, &mut out), Err(Failed::NoData(1)));
    assert_eq!(contents(&served.image, 0x2000, 4), b"yes.");
    assert_eq!(contents(&served.image, 0x1000, 8), out);
    let nettlp = Nettlp::init(stranger, there, 3, false);
    nettlp.dma_write(0x1000, b"strange.");
    assert_eq!(nettlp.dma_read(0x1000, &mut out), Err(Failed::TimedOut));
    assert_eq!(message(stranger, there, 1), None);
    // The kernel sends LibTLP's messaging requests on the loopback from this address.
    let kernels = IpAddr::from(Ipv4Addr::LOCALHOST);
    assert_eq!(message(kernels, there, 2).unwrap(), ID.bits().to_le_bytes());
    assert_eq!(message(kernels, there, 9), None);
    let counted = served.stop();
    let reader = counted.peers[&reader];
    assert_eq!((reader.reads, reader.refused_reads, reader.refused_writes), (2, 5, 1));
    let writer = counted.peers[&writer];
    assert_eq!((writer.writes, writer.refused_writes, writer.refused_reads), (1, 1, 1));
    let strangers = counted.strangers;
    assert_eq!((strangers.datagrams, strangers.messaging, strangers.last), (4, 1, Some(kernels)));
}

#[test]
fn two_threads_of_a_load_generator_read_correct_data() {
    let (here, there) = (ip(6, 2), ip(6, 1));
    let served = Served::start(there, zeroes(1 << 20), &[&rule(here, "all", "r")], 256, true);
    fill(&served.image, 1 << 18);
    let load = |tag: u8| {
        let nettlp = Nettlp::init(here, there, tag, false);
        let mut out = [0; 256];
        for n in 0..2000_u64 {
            let address = (n * 256 + u64::from(tag) * 4096) % (1 << 18);
            assert_eq!(nettlp.dma_read(address, &mut out), Ok(256));
            assert!(out.iter().enumerate().all(|(i, b)| *b == byte(address as usize + i)), "{address:#x}");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| load(0));
        scope.spawn(|| load(1));
    });
    let counted = served.stop();
    assert_eq!((counted.peers[&here].reads, counted.completer.read_bytes), (4000, 4000 * 256));
}

/// Returns the tag of a CplD, and the number of its data bytes.
fn completed(tlp: &[u8]) -> (u16, usize) {
    let parsed = tlp::Repr::parse(tlp).unwrap();
    let tlp::Body::Completion(c) = parsed.repr.body else { panic!("no completion") };
    assert_eq!(c.status, tlp::Status::Success);
    (c.tag.bits(), parsed.data.len())
}

/// A device requests more than it receives: 200 reads of 4 KiB have 6400 completions of 128 bytes, far more than a
/// window. The adapter then accepts no more requests. It continues when the device receives again.
#[test]
fn session_that_does_not_receive_is_stalled_without_loss() {
    const READS: u16 = 200;
    let (here, there) = (ip(7, 2), ip(7, 1));
    let served = Served::start(there, zeroes(1 << 20), &[&rule(here, "all", "rw")], 128, true);
    let options = SessionConnectOptions::new(there, Some(here));
    let mut carrier = SessionCarrier::connect(&options).unwrap();
    let read = |tag: u16| {
        let fields = tlp::MemoryRequest {
            op: tlp::MemoryOp::Read,
            requester: tlp::Bdf::from_bits(0x1a00),
            tag: tlp::Tag::from_bits(tag),
            span: tlp::Span::covering(u64::from(tag) * 4096, 4096).unwrap(),
        };
        tlp::Repr::new(tlp::Body::Memory(fields))
    };
    // In each turn, the client sends as many requests as credits allow before it receives answers.
    let (mut sent, mut bytes) = (0, vec![0; usize::from(READS)]);
    let patience = Wait::AtMost(tlp::Duration::from_ms(5_000));
    while bytes.iter().any(|got| *got < 4096) {
        while sent < READS && carrier.room() > 0 {
            let repr = read(sent);
            carrier
                .send(Origin::Device, tlp::Tag::from_bits(sent), repr.header_len(), |slot| {
                    repr.emit(slot);
                })
                .unwrap();
            sent += 1;
        }
        carrier.flush().unwrap();
        let count = carrier
            .receive(patience, |arrival| {
                let (tag, len) = completed(arrival.tlp);
                bytes[usize::from(tag)] += len;
            })
            .unwrap();
        assert!(count > 0, "{sent} sent, {} complete", bytes.iter().filter(|got| **got == 4096).count());
    }
    assert_eq!(bytes, vec![4096; usize::from(READS)]);
    let counted = served.stop();
    let peer = counted.peers[&here];
    assert_eq!((peer.reads, peer.no_room, peer.sent_tlps), (200, 0, 6400));
}

/// The kernel reports drops together with a later datagram. In this test, no later datagram of a served peer arrives.
#[test]
fn datagrams_of_strangers_are_counted_at_the_end() {
    let (here, there, stranger) = (ip(20, 2), ip(20, 1), ip(20, 3));
    let served = Served::start(there, zeroes(4096), &[&rule(here, "all", "rw")], 256, true);
    let socket = UdpSocket::bind(SocketAddr::new(stranger, 0)).unwrap();
    for port in [0x3000, 0x3000, 0x30ff, 0x5001, 0x2ffd] {
        socket.send_to(&[0; 32], SocketAddr::new(there, port)).unwrap();
    }
    let counted = served.stop();
    assert_eq!((counted.sockets.kernel_drops, counted.sockets.received_datagrams), (5, 0));
}

/// An output that has no room.
struct NoRoom;

impl Datagrams for NoRoom {
    fn room(&self, _port: u16, _peer: SocketAddr) -> usize {
        0
    }

    fn has_session(&self, _peer: SocketAddr) -> bool {
        false
    }

    fn send(
        &mut self,
        _port: u16,
        _peer: SocketAddr,
        _len: usize,
        _fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), SendError> {
        Err(SendError::NoRoom)
    }
}

#[test]
fn report_of_dropped_datagrams_names_first_datagram_and_its_peer() {
    let peer = ip(60, 2);
    let allow = AllowList::new([rule(peer, "all", "rw").parse().unwrap()]).unwrap();
    let settings = AdapterSettings { allow, id: ID, device: None, scheme: PortScheme::Tagged };
    let function = Arc::new(Function::new(Registers::new(ID)).unwrap());
    let backend = MemoryBackend::new(Arc::new(zeroes(4096)), function, Mps::default());
    let mut adapter = Adapter::new(settings, backend);
    let from = SocketAddr::new(peer, 0x3001);
    let read = [&[0; 6][..], &[0, 0, 0, 1, 0x1a, 0, 1, 0x0f, 0, 0, 0, 0x40]].concat();
    for (at, datagram) in [(1, &read[..]), (2, &read), (3, &[1, 2, 3])] {
        adapter.handle(Time::from_ps(1000 * at), 0x3001, from, datagram, &mut NoRoom);
    }
    let drops: Vec<String> = adapter.drops().iter().map(ToString::to_string).collect();
    assert_eq!(
        drops,
        [
            "2 dropped, no_room: no room for the TLP or its answer; only sessions have credits that prevent this; first at \
             1.000 ns from 127.13.60.2:12289: MRd, len 1, requester 1a:00.0, tag 0x01, last 0x0, first 0xf, Addr \
             0x00000040",
            "1 dropped, malformed: the datagram is not a NetTLP datagram; first at 3.000 ns from 127.13.60.2:12289: datagram \
             of 3 bytes 010203",
        ]
    );
    let counters = adapter.peers().next().unwrap().1;
    assert_eq!((counters.no_room, counters.malformed), (2, 1));
}
