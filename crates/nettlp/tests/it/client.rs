// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests a client, on the loopback with an adapter that has memory (127.12.x.y), and with a carrier in memory.

use crate::checks_psmem::memo::Memo;
use capture::encap::Origin;
use riser_nettlp::client::control::{Config, ConfigPort, ControlError, Messaging};
use riser_nettlp::client::{Callbacks, Client, ClientError, Incoming, Replies, Transfer};
use riser_nettlp::completer::{CompleterMemory, Image};
use riser_nettlp::net::{TaggedCarrier, TaggedOptions};
use riser_nettlp::requester::{Fault, Nowhere, RequesterSettings, Rest};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::ops::RangeInclusive;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use testkit::served::{ID, Served};
use tlp::{Bdf, Body, Completion, Duration, Mrrs, Repr, RuleId, Status, Tag};

const US: Bdf = Bdf::from_bits(0x1a00);
const BYTES: u64 = 1 << 20;

fn ip(test: u8, host: u8) -> IpAddr {
    Ipv4Addr::new(127, 12, test, host).into()
}

fn byte(address: u64) -> u8 {
    (address % 251) as u8
}

fn bytes(address: u64, len: usize) -> Vec<u8> {
    (address..).take(len).map(byte).collect()
}

/// Starts an adapter with [`byte`]s in its memory, and a client of this adapter that uses `tags`.
fn both(test: u8, tags: RangeInclusive<u16>) -> (Served, Client<TaggedCarrier>) {
    let (here, there) = (ip(test, 2), ip(test, 1));
    let rule = format!("{here},all,rw");
    let served = Served::start(there, Image::zeroes(BYTES).unwrap(), &[&rule], 256, false);
    Arc::clone(&served.image).write(0, &bytes(0, 64 << 10)).unwrap();
    let options = TaggedOptions { local: Some(here), ..TaggedOptions::new(there, tags) };
    let carrier = TaggedCarrier::connect(&options).unwrap();
    let settings = RequesterSettings::for_carrier(&carrier, US, Rest::LOOPBACK);
    // On a busy machine an answer may take long.
    let settings = RequesterSettings { timeout: Duration::from_ms(2000), ..settings };
    (served, Client::new(carrier, settings))
}

#[test]
fn reads_and_writes_any_address_and_length() {
    let (served, mut client) = both(21, 0..=15);
    for (address, len) in [(0, 1), (1, 2), (3, 4), (0xffd, 6), (0x1001, 4096), (7, 20_000), (0x1000, 256)] {
        let mut data = vec![0xee; len];
        client.read(address, &mut data).unwrap();
        assert_eq!(data, bytes(address, len), "{len} at {address:#x}");
    }
    for (address, len) in [(0x2_0001, 1), (0x2_0ffe, 4), (0x3_0003, 10_000)] {
        let data = bytes(9, len);
        client.write(address, &data).unwrap();
        // Datagrams of one port stay in order, and all writes share one port, so a read with the first tag arrives
        // after the writes. Reads with other tags may overtake the writes, so the loop repeats until the first tag
        // is used.
        let mut found = vec![0; len];
        while found != data {
            client.read(address, &mut found).unwrap();
        }
    }
    client.read(0, &mut []).unwrap();
    client.write(0, &[]).unwrap();
    assert_eq!((client.counters().timed_out, client.counters().strays.total()), (0, 0));
    drop(served);
}

/// Returns the datagram of a completion with 256 B, all of the value `byte`.
fn completion(tag: u8, byte: u8) -> Vec<u8> {
    let body = Completion {
        locked: false,
        completer: ID,
        requester: US,
        tag: Tag::from_bits(tag.into()),
        status: Status::Success,
        bcm: false,
        byte_count: 256,
        lower_address: 0,
        length_dw: Some(64),
    };
    let mut datagram = vec![byte; 6 + 12 + 256];
    datagram[..6].fill(0);
    Repr::new(Body::Completion(body)).emit(&mut datagram[6..18]);
    datagram
}

/// The adapter answers the read of tag 0 with a completion of tag 1, and then both reads correctly.
#[test]
fn completion_at_the_port_of_another_tag_is_dropped() {
    let (here, there) = (ip(25, 2), ip(25, 1));
    let ports = [0x3000, 0x3001].map(|port| {
        let socket = UdpSocket::bind((there, port)).unwrap();
        socket.connect((here, port)).unwrap();
        socket
    });
    let options = TaggedOptions { local: Some(here), ..TaggedOptions::new(there, 0..=1) };
    let carrier = TaggedCarrier::connect(&options).unwrap();
    let settings = RequesterSettings::for_carrier(&carrier, US, Rest::LOOPBACK);
    let mrrs = Mrrs::new(256).unwrap();
    let settings = RequesterSettings { mrrs, timeout: Duration::from_ms(20_000), ..settings };
    let mut client = Client::new(carrier, settings);
    let mut data = vec![0; 512];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            ports.iter().for_each(|port| _ = port.recv(&mut [0; 64]).unwrap());
            ports[0].send(&completion(1, 0xee)).unwrap();
            ports[0].send(&completion(0, 0x10)).unwrap();
            // The client reads the first port before the second one.
            std::thread::sleep(std::time::Duration::from_millis(100));
            ports[1].send(&completion(1, 0x11)).unwrap();
        });
        client.read(0x4000, &mut data).unwrap();
    });
    assert!(data[..256] == [0x10; 256] && data[256..] == [0x11; 256], "{data:x?}");
    let drops: Vec<_> = client.carrier().drops().iter().map(ToString::to_string).collect();
    let text = "1 dropped, wrong_port: the completion has other UDP ports than its request; first at ";
    let ports = "from 127.12.25.1:12288: UDP port 0x3000 to 0x3000, expected 0x3001 to 0x3001 of 127.12.25.1: CplD, len 64, ";
    assert!(drops.len() == 1 && drops[0].starts_with(text) && drops[0].contains(ports), "{drops:?}");
    assert_eq!(client.counters().strays.total(), 0);
}

/// Both TLPs of a read beyond the memory are refused. The second completion comes after the read has failed, not after a timeout.
#[test]
fn completion_of_failed_read_is_not_late() {
    let (_served, mut client) = both(29, 0..=31);
    client.read(BYTES + 4096 - 16, &mut [0; 64]).unwrap_err();
    client.read(0, &mut [0; 64]).unwrap();
    let rules: Vec<_> = client.refusals().iter().map(|refusal| refusal.violation.rule).collect();
    assert_eq!(rules, [RuleId::UnsupportedRequest]);
}

#[test]
fn each_transfer_ends_with_its_own_result() {
    let (_served, mut client) = both(22, 0..=31);
    let mut rooms = vec![[0; 300]; 100];
    let address = |n: usize| if n % 10 == 3 { BYTES - 100 } else { n as u64 * 7 };
    let mut transfers: Vec<Transfer<'_>> =
        rooms.iter_mut().enumerate().map(|(n, data)| Transfer::Read { address: address(n), data }).collect();
    let mut ended = vec![None; 100];
    client.transfer(&mut transfers, |n, result| assert_eq!(ended[n].replace(result), None)).unwrap();
    for (n, room) in rooms.iter().enumerate() {
        match ended[n].unwrap() {
            Ok(300) if n % 10 != 3 => assert_eq!(room[..], bytes(address(n), 300), "{n}"),
            Err(Fault::UnsupportedRequest(at)) if n % 10 == 3 => assert!(at >= BYTES - 100, "{at:#x}"),
            other => panic!("{n}: {other:?}"),
        }
    }
    let refused = client.read(BYTES, &mut [0; 4]).unwrap_err();
    assert_eq!(refused.to_string(), "read at 0x100000 was refused: Unsupported Request");
    // An invalid request does not affect the client.
    let beyond = client.read(u64::MAX, &mut [0; 2]).unwrap_err();
    assert!(matches!(beyond, ClientError::Request(_)), "{beyond}");
    client.read(0, &mut [0; 4]).unwrap();
}

// Upstream's dma_read returns 1 here, without data.
#[test]
fn absent_peer_gives_connection_refused() {
    let options = TaggedOptions { local: Some(ip(23, 2)), ..TaggedOptions::new(ip(23, 1), 0..=3) };
    let carrier = TaggedCarrier::connect(&options).unwrap();
    let settings = RequesterSettings::for_carrier(&carrier, US, Rest::LOOPBACK);
    let mut client = Client::new(carrier, settings);
    let error = client.read(0, &mut [0; 4]).unwrap_err();
    assert!(matches!(&error, ClientError::Io(e) if e.kind() == io::ErrorKind::ConnectionRefused), "{error}");
    assert_eq!((client.requester().under_way(), client.requester().outstanding()), (0, 0));
}

#[test]
fn program_with_many_futures_has_many_outstanding_requests() {
    let (_served, mut client) = both(24, 0..=15);
    let program = |io: riser_nettlp::client::Io| async move {
        let mut reads: Vec<_> = (0..40).map(|n| Box::pin(io.read(n * 100, 50 + n as usize))).collect();
        let mut results = vec![None; 40];
        poll_fn(|cx| {
            for (read, result) in reads.iter_mut().zip(&mut results) {
                if result.is_none()
                    && let Poll::Ready(data) = read.as_mut().poll(cx)
                {
                    *result = Some(data.unwrap());
                }
            }
            if results.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        for (n, data) in results.into_iter().enumerate() {
            assert_eq!(data.unwrap(), bytes(n as u64 * 100, 50 + n));
        }
        // One future is polled once and dropped.
        {
            let mut dropped = pin!(io.read(0, 4000));
            let is_pending = poll_fn(|cx| Poll::Ready(dropped.as_mut().poll(cx).is_pending())).await;
            assert!(is_pending);
        }
        io.write(0x4_0000, b"written".to_vec()).await.unwrap();
        while io.read(0x4_0000, 7).await.unwrap() != b"written" {}
        assert_eq!(io.read(5, 0).await.unwrap(), b"");
        let refused = io.read(BYTES, 1).await.unwrap_err();
        assert!(matches!(refused, ClientError::Fault(Fault::UnsupportedRequest(BYTES))), "{refused}");
        io.read(u64::MAX, 2).await.unwrap_err().to_string()
    };
    let said = client.block_on(&mut (), program).unwrap();
    assert_eq!(said, "2 bytes at 0xffffffffffffffff exceed the end of the address space");
    assert_eq!(client.requester().under_way(), 0);
    client.read(0, &mut [0; 4]).unwrap();
}

/// Callbacks of a device with one register. Records each call.
#[derive(Default)]
struct Registers {
    register: [u8; 4],
    calls: Vec<&'static str>,
}

impl Callbacks for Registers {
    fn mrd(&mut self, tlp: &Incoming<'_>, replies: &mut Replies) {
        self.calls.push("mrd");
        let Body::Memory(m) = tlp.parsed.repr.body else { panic!("no memory request") };
        let completion = Completion {
            lower_address: m.span.first_byte() as u8 & 0x7f,
            length_dw: Some(1),
            ..Completion::new(US, m.requester, m.tag)
        };
        replies.push(tlp.origin, &Repr::new(Body::Completion(completion)), &self.register).unwrap();
    }

    fn mwr(&mut self, tlp: &Incoming<'_>, _: &mut Replies) {
        self.calls.push("mwr");
        self.register.copy_from_slice(tlp.data());
    }

    fn cpld(&mut self, _: &Incoming<'_>, _: &mut Replies) {
        self.calls.push("cpld");
    }

    fn cpl(&mut self, _: &Incoming<'_>, _: &mut Replies) {
        self.calls.push("cpl");
    }

    fn other(&mut self, _: &Incoming<'_>, _: &mut Replies) {
        self.calls.push("other");
    }
}

// First DWs after `PCIe 5.0 Table 2-3`: MWr 40, MRd 00, CplD 4a, Cpl 0a, Msg 34 (Vendor_Defined, code 7f).
#[test]
fn each_tlp_of_the_peer_reaches_its_callback() {
    let arriving = [
        &[0x40, 0, 0, 1, 0, 0, 0, 0x0f, 0xf0, 0, 0, 0, 1, 2, 3, 4][..],
        &[0x00, 0, 0, 1, 0, 0, 0x23, 0x0f, 0xf0, 0, 0, 4],
        &[0x4a, 0, 0, 1, 0, 0, 0, 4, 0x1a, 0, 9, 0, 0, 0, 0, 0],
        &[0x0a, 0, 0, 0, 0, 0, 0x20, 4, 0x1a, 0, 9, 0],
        &[0x34, 0, 0, 0, 0, 0, 0, 0x7f, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0xff; 20],
    ]
    .map(|tlp| (Origin::Host, tlp.to_vec()));
    let settings = || RequesterSettings::reliable(US, 0..=255);
    let carrier = || Memo { arriving: arriving.clone().into(), ..Memo::with_room(8) };
    let mut client = Client::new(carrier(), settings());
    let mut registers = Registers::default();
    assert_eq!(client.turn(&mut Nowhere, &mut registers, Duration::ZERO).unwrap(), 6);
    assert_eq!(registers.calls, ["mwr", "mrd", "cpld", "cpl", "other"]);
    let answer = vec![0x4a, 0, 0, 1, 0x1a, 0, 0, 4, 0, 0, 0x23, 4, 1, 2, 3, 4];
    assert_eq!(client.carrier().sent, [(Origin::Host, 0x23, answer)]);
    assert_eq!((client.unserved(), client.counters().strays.total()), (0, 3));

    // Without callbacks, requests and messages are counted.
    let mut client = Client::new(carrier(), settings());
    client.turn(&mut Nowhere, &mut (), Duration::ZERO).unwrap();
    assert_eq!((client.unserved(), client.counters().strays.total()), (3, 3));
}

#[test]
fn replies_wait_for_room() {
    let mrd = vec![0x00, 0, 0, 1, 0, 0, 0x23, 0x0f, 0xf0, 0, 0, 4];
    let carrier = Memo { arriving: vec![(Origin::Host, mrd); 3].into(), ..Memo::with_room(2) };
    let room = Rc::clone(&carrier.room);
    let mut client = Client::new(carrier, RequesterSettings::reliable(US, 0..=0));
    for (more, sent) in [(0, 2), (0, 2), (5, 3), (0, 3)] {
        room.set(room.get() + more);
        client.turn(&mut Nowhere, &mut Registers::default(), Duration::ZERO).unwrap();
        assert_eq!((client.carrier().sent.len(), client.unserved()), (sent, 0));
    }
}

#[test]
fn messaging_and_configuration_receive_answers() {
    let (_served, _) = both(25, 0..=0);
    let (here, there) = (ip(25, 2), ip(25, 1));
    let mut driver = Messaging::open(there, Some(here)).unwrap();
    assert_eq!(driver.bar4_start().unwrap(), 0xf000_0000);
    assert_eq!(driver.device_id().unwrap(), ID);
    assert_eq!(driver.msix_table().unwrap()[3].data, 3);
    for port in [ConfigPort::New, ConfigPort::Old] {
        let mut config = Config::open(there, Some(here), port).unwrap();
        assert_eq!(config.read(0).unwrap(), 0x8022_3776);
        config.write(15, 0x1, 0x55).unwrap();
        assert_eq!(config.read(15).unwrap() & 0xff, 0x55);
        config.write(15, 0x1, 0).unwrap();
        assert_eq!(config.read(15).unwrap() & 0xff, 0);
        let error = config.read(1024).unwrap_err();
        assert_eq!(error.to_string(), "configuration register DW 1024; expected 0 to 1023");
    }
}

#[test]
fn absent_adapter_is_detected_at_once() {
    let error = Messaging::open(ip(26, 1), Some(ip(26, 2))).unwrap().device_id().unwrap_err();
    let ControlError::NoAnswer { source, port: 0x2fff, .. } = &error else { panic!("{error}") };
    assert_eq!(source.kind(), io::ErrorKind::ConnectionRefused);
    let mut config = Config::open(ip(26, 1), Some(ip(26, 2)), ConfigPort::New).unwrap();
    let text = config.read(0).unwrap_err().to_string();
    assert!(text.contains("0x5001") && text.contains("connection refused"), "{text}");
}

// A real adapter pads its replies to 18 bytes; the answer to an earlier request comes first.
#[test]
fn answer_to_an_earlier_request_is_ignored() {
    let adapter = UdpSocket::bind((ip(27, 1), 0x5001)).unwrap();
    let served = std::thread::spawn(move || {
        let mut question = [0; 64];
        let (len, from) = adapter.recv_from(&mut question).unwrap();
        assert_eq!(question[..len], [0x3c, 5, 0, 0, 0, 0]);
        for answer in [&[0x3c, 4, 1, 1, 1, 1][..], &[0x3c], &[0x7c, 5, 2, 2, 2, 2]] {
            adapter.send_to(answer, from).unwrap();
        }
        let mut padded = [0; 18];
        padded[..6].copy_from_slice(&[0x3c, 5, 0x12, 0x34, 0x56, 0x78]);
        adapter.send_to(&padded, from).unwrap();
        assert_eq!(from.port(), 0x5001, "a real adapter answers only this port");
    });
    let mut config = Config::open(ip(27, 1), Some(ip(27, 2)), ConfigPort::New).unwrap();
    assert_eq!(config.read(5).unwrap(), 0x1234_5678);
    served.join().unwrap();
}
