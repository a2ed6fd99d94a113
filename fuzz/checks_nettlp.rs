// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of NetTLP's adapter and its peers for any datagrams. The fuzz targets and the tests of `riser-nettlp`
//! call them on every seed and on random bytes. A failed check panics.

#![allow(dead_code, reason = "each fuzz target uses one of the functions")]

use riser_capture::encap::{NettlpHeader, PortScheme};
use riser_nettlp::adapter::{Adapter, AdapterSettings, Datagrams, Function, MemoryBackend, Registers};
use riser_nettlp::allow::{AllowList, Rule};
use riser_nettlp::carrier::SendError;
use riser_nettlp::completer::{CompleterMemory, Image, Incoming};
use riser_nettlp::wire::config::ConfigMessage;
use riser_nettlp::wire::messaging::{Question, REPLY_MAX, Reply, Request};
use riser_nettlp::wire::registers::RegisterMessage;
use riser_tlp::{Bdf, Body, Mps, Repr, Time};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// Checks that messaging in both directions is emitted as it was parsed.
pub(crate) fn messaging(bytes: &[u8]) {
    if let Ok(question) = Question::parse(bytes) {
        assert_eq!(question.emit(), bytes);
    }
    for request in [Request::Bar4Start, Request::DeviceId, Request::MsixTable] {
        match Reply::parse(request, bytes) {
            Ok(reply) => {
                let mut out = [0; REPLY_MAX];
                let len = reply.emit(&mut out);
                assert_eq!(&out[..len], bytes);
            }
            Err(error) => assert!(bytes.len() != request.reply_len(), "{error}"),
        }
    }
}

/// Checks that configuration and adapter registers are emitted as they were parsed, except padding.
pub(crate) fn registers(bytes: &[u8]) {
    if let Ok(message) = ConfigMessage::parse(bytes) {
        assert_eq!(message.emit(), bytes);
        assert!(message.register_dw < 1024 && message.byte_enables < 16);
    }
    if let Ok(message) = ConfigMessage::parse_reply(bytes) {
        assert_eq!(message.emit(), bytes[..6]);
        assert!(bytes.len() <= 18);
    }
    if let Ok(message) = RegisterMessage::parse(bytes) {
        assert_eq!(message.emit(), bytes);
    }
}

/// Checks that a TLP accepted from a datagram has a legal header and all its data, in every form that is accepted.
pub(crate) fn incoming(bytes: &[u8]) {
    let Ok((_, tlp)) = NettlpHeader::parse(bytes) else {
        assert!(bytes.len() < 6);
        return;
    };
    let mut scratch = [0xee; 4];
    let strict = Repr::parse(tlp);
    match Incoming::parse(tlp, &mut scratch) {
        Ok(incoming) => {
            assert_eq!(incoming.data.len(), incoming.repr.data_dw() as usize * 4);
            assert!(strict.is_ok() || incoming.is_mended);
            if let Some((span, data)) = incoming.rest {
                assert!(span.address().is_multiple_of(4096));
                let Body::Memory(m) = incoming.repr.body else { panic!("only memory requests are trimmed") };
                let end = m.span.first_byte() + u64::from(m.span.byte_count());
                assert_eq!(
                    (end, span.first_byte()),
                    (span.address(), span.address()),
                    "a contiguous range of bytes"
                );
                let is_read = m.op.is_read();
                assert_eq!(data.len(), if is_read { 0 } else { span.length_dw() as usize * 4 });
            }
            let mut header = [0; 16];
            assert_eq!(incoming.repr.emit(&mut header), incoming.repr.header_len());
        }
        Err(_) => assert!(strict.is_err()),
    }
}

/// Memory of the adapter below. Peers may read and write the middle, but not the bytes before and after it.
const MEMORY: u64 = 12288;
const WINDOW: std::ops::Range<u64> = 4096..8192;
/// Maximum number of TLPs that answer one datagram. Peers may request up to 4 KiB.
const ANSWERS_MAX: usize = 33;

struct Sent {
    room: usize,
    datagrams: Vec<(u16, SocketAddr, Vec<u8>)>,
}

impl Datagrams for Sent {
    fn room(&self, _: u16, _: SocketAddr) -> usize {
        self.room - self.datagrams.len()
    }

    fn send(
        &mut self,
        port: u16,
        to: SocketAddr,
        len: usize,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), SendError> {
        if self.room(port, to) == 0 {
            return Err(SendError::NoRoom);
        }
        let mut bytes = vec![0; len];
        fill(&mut bytes);
        self.datagrams.push((port, to, bytes));
        Ok(())
    }

    fn has_session(&self, _: SocketAddr) -> bool {
        true
    }
}

fn peer(number: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, number).into()
}

fn adapter(image: &Arc<Image>) -> Adapter<MemoryBackend> {
    let rules = ["10.0.0.1,4096+4096,rw", "10.0.0.2,4096+4096,r"];
    let rules = rules.map(|rule| rule.parse::<Rule>().expect("a rule"));
    let allow = AllowList::new(rules).expect("few rules");
    let id = Bdf::from_bits(0x1b00);
    let function = Arc::new(Function::new(Registers::new(id)).expect("a legal function"));
    let backend = MemoryBackend::new(Arc::clone(image), function, Mps::default());
    Adapter::new(AdapterSettings { allow, id, device: Some(peer(1)), scheme: PortScheme::Tagged }, backend)
}

/// Delivers datagrams to any ports from any peers. Each has one byte for the peer, two for the port
/// (little-endian), one for the space for answers, two for its length (little-endian), and its bytes. Memory
/// outside the window is never written, and its content has no effect on answers. Only known peers get answers. An
/// answer goes to the peer that sent the request.
pub(crate) fn adapter_run(bytes: &[u8]) {
    assert!(run(bytes, 0xa5) == run(bytes, 0x5a), "memory outside the window changes an answer");
}

fn run(mut bytes: &[u8], secret: u8) -> Vec<Vec<(u16, SocketAddr, Vec<u8>)>> {
    let mut image = Arc::new(Image::zeroes(MEMORY).expect("a legal size"));
    let secret = [secret; WINDOW.start as usize];
    for outside in [0, WINDOW.end] {
        image.write(outside, &secret).expect("the image is writable");
    }
    let (mut adapter, mut all) = (adapter(&image), Vec::new());
    let mut now = Time::ZERO;
    while let [from, p0, p1, room, l0, l1, rest @ ..] = bytes {
        let len = usize::from(u16::from_le_bytes([*l0, *l1])).min(rest.len());
        let (datagram, behind) = rest.split_at(len);
        let port = u16::from_le_bytes([*p0, *p1]);
        let from = SocketAddr::new(peer(from % 4), port);
        let mut sent = Sent { room: usize::from(*room), datagrams: Vec::new() };
        let taken = adapter.handle(now, port, from, datagram, &mut sent);
        assert!(taken || port == 0x2ffd, "only a session offers a datagram again");
        answers(&sent, port, from, taken);
        all.push(sent.datagrams);
        now += riser_tlp::Duration::from_us(1);
        bytes = behind;
    }
    for address in [0, WINDOW.end] {
        let mut outside = [0; WINDOW.start as usize];
        image.read(address, &mut outside);
        assert!(outside == secret, "memory outside the window was written");
    }
    all
}

fn answers(sent: &Sent, port: u16, from: SocketAddr, taken: bool) {
    assert!(sent.datagrams.len() <= ANSWERS_MAX);
    assert!(taken || sent.datagrams.is_empty(), "answer to a datagram that was not taken");
    for (from_port, to, bytes) in &sent.datagrams {
        assert_eq!((*from_port, *to), (port, from));
        assert!([peer(1), peer(2)].contains(&to.ip()), "answer to an unknown peer");
        assert!(bytes.len() <= 6 + 12 + 128 || port == 0x2fff);
        if let Some(tlp) = bytes.get(6..).filter(|_| !matches!(port, 0x2fff | 0x4001 | 0x5001 | 0x5002)) {
            let parsed = Repr::parse(tlp).expect("an answer is legal");
            assert!(matches!(parsed.repr.body, Body::Completion(_)));
        }
    }
}
