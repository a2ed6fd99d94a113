// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of the simple NIC as device software for any host, driver and cable. The fuzz target and the tests of
//! `riser-nettlp` call them on every seed and on random scripts. A failed check panics.

use riser_capture::encap::Origin;
use riser_nettlp::carrier::{Arrival, Carrier, SendError, Wait};
use riser_nettlp::completer::{Completer, CompleterMemory, Completions, Image};
use riser_nettlp::device_host::DeviceLocation;
use riser_nettlp::requester::Rest;
use riser_nettlp::snic::Snic;
use riser_nettlp::wire::messaging::MsixEntry;
use riser_tlp::{Bdf, Body, Duration, MemoryOp, MemoryRequest, Mps, Rcb, Repr, Span, Tag, Time};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::Arc;

const BAR4: u64 = 0xf000_0000;
/// Size of host memory in bytes, from address 0 on.
const MEMORY: u64 = 1 << 16;
/// Address of interrupts, above the memory.
const VECTORS: u64 = 0xfee0_0000;
/// Maximum number of turns until there is no more output. It allows a ring of 256 doorbells with a few transfers each.
const TURNS: u32 = 20_000;
/// A time that is longer than any completion timeout.
const PATIENCE: Duration = Duration::from_ms(500);

/// The path between NIC and host.
#[derive(Default)]
struct Ends {
    is_reliable: bool,
    room: usize,
    to_nic: VecDeque<(Origin, Vec<u8>)>,
    from_nic: VecDeque<Vec<u8>>,
}

#[derive(Clone, Default)]
struct Link(Rc<RefCell<Ends>>);

impl Carrier for Link {
    fn is_reliable(&self) -> bool {
        self.0.borrow().is_reliable
    }

    fn tags(&self) -> RangeInclusive<u16> {
        0..=255
    }

    fn room(&self) -> usize {
        self.0.borrow().room
    }

    fn send(&mut self, _: Origin, _: Tag, len: usize, fill: impl FnOnce(&mut [u8])) -> Result<(), SendError> {
        let mut ends = self.0.borrow_mut();
        ends.room = ends.room.checked_sub(1).ok_or(SendError::NoRoom)?;
        let mut tlp = vec![0xee; len];
        fill(&mut tlp);
        ends.from_nic.push_back(tlp);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn receive(&mut self, _: Wait, mut take: impl FnMut(Arrival<'_>)) -> io::Result<usize> {
        let all = std::mem::take(&mut self.0.borrow_mut().to_nic);
        for (origin, tlp) in &all {
            take(Arrival { origin: *origin, tlp, sequence: 0, timestamp: 0 });
        }
        Ok(all.len())
    }

    fn is_idle(&self) -> bool {
        true
    }
}

/// Completions to the NIC.
impl Completions for Link {
    fn room(&self) -> usize {
        usize::MAX
    }

    fn send(&mut self, len: usize, fill: &mut dyn FnMut(&mut [u8])) {
        let mut tlp = vec![0; len];
        fill(&mut tlp);
        self.0.borrow_mut().to_nic.push_back((Origin::Device, tlp));
    }
}

struct Run {
    nic: Snic<Link>,
    link: Link,
    memory: Arc<Image>,
    completer: Completer,
    now: Time,
    /// Tags of the host's unanswered reads. A tag is used by one read at a time.
    asked: Vec<u8>,
    /// Whether the NIC received only TLPs that the host sends.
    is_sound: bool,
    pushed: u64,
    out: u64,
}

/// Runs a script. Its first byte says whether the path is reliable; each step is then a byte and its arguments. The NIC sends only legal
/// TLPs that are no longer than the path allows, and stops producing output. It answers each register read once, and counts every frame
/// once. Returns the numbers of frames sent and received.
pub(crate) fn snic(script: &[u8]) -> (u64, u64) {
    let Some((first, mut script)) = script.split_first() else { return (0, 0) };
    let mut run = Run::new(first & 1 == 1);
    while let [op, a, rest @ ..] = script {
        script = rest;
        match (op % 8, rest) {
            (0, [value, behind @ ..]) => {
                run.write(*a, *value);
                script = behind;
            }
            (1, _) => run.read(*a),
            (2, _) => {
                let (tlp, behind) = rest.split_at(usize::from(*a).min(rest.len()));
                (run.is_sound, script) = (false, behind);
                run.link.0.borrow_mut().to_nic.push_back((Origin::Host, tlp.to_vec()));
            }
            (3, _) => {
                run.pushed += 1;
                run.nic.cable.frame_from_wire(&vec![*a; usize::from(*a) * 10]);
            }
            (4, [address, length, behind @ ..]) => {
                run.describe(*a, *address, *length);
                script = behind;
            }
            (5, _) => run.now += Duration::from_us(u64::from(*a) * 100),
            (6, _) => {
                // TLPs are lost on the way.
                let mut ends = run.link.0.borrow_mut();
                run.is_sound &= ends.is_reliable || ends.to_nic.is_empty();
                if !ends.is_reliable {
                    ends.to_nic.clear();
                }
            }
            (7, _) => run.link.0.borrow_mut().room = usize::from(*a),
            _ => {}
        }
        run.settle();
    }
    run.end()
}

impl Run {
    fn new(is_reliable: bool) -> Run {
        let link = Link::default();
        link.0.replace(Ends { is_reliable, room: usize::MAX, ..Ends::default() });
        let vectors = std::array::from_fn(|n| MsixEntry { address: VECTORS, data: n as u32 });
        let place = DeviceLocation { id: Bdf::from_bits(0x1b00), address: BAR4, vectors };
        let nic = Snic::with_rest(link.clone(), &place, Rest::LOOPBACK).expect("the NIC accepts its place");
        Run {
            nic,
            link,
            memory: Arc::new(Image::zeroes(MEMORY).expect("a legal size")),
            completer: Completer::new(Bdf::default(), Mps::new(256).expect("a legal size"), Rcb::default()),
            now: Time::ZERO,
            asked: Vec::new(),
            is_sound: true,
            pushed: 0,
            out: 0,
        }
    }

    fn request(&mut self, op: MemoryOp, tag: u8, offset: u64, data: &[u8]) {
        let Ok(span) = Span::covering(BAR4 + offset, 4) else { return };
        let requester = Bdf::default();
        let repr =
            Repr::new(Body::Memory(MemoryRequest { op, requester, tag: Tag::from_bits(tag.into()), span }));
        let mut tlp = vec![0; repr.header_len()];
        repr.emit(&mut tlp);
        // Unaligned data needs one more DW.
        tlp.resize(tlp.len() + span.lead() as usize * usize::from(!data.is_empty()), 0);
        tlp.extend(data);
        let whole = repr.header_len() + if data.is_empty() { 0 } else { span.length_dw() as usize * 4 };
        tlp.resize(whole, 0);
        self.link.0.borrow_mut().to_nic.push_back((Origin::Host, tlp));
    }

    /// Writes ring addresses in units of 16 bytes and other registers as given, and an offset beyond the registers.
    fn write(&mut self, register: u8, value: u8) {
        let offset = [0, 4, 8, 12, 16, 20, 24, 4092][usize::from(register) % 8];
        let value = u32::from(value) * if offset < 16 { 16 } else { 1 };
        self.request(MemoryOp::Write, 0, offset, &value.to_le_bytes());
    }

    fn read(&mut self, register: u8) {
        let tag = self.asked.len() as u8;
        if self.asked.len() < 32 {
            self.asked.push(tag);
            self.request(MemoryOp::Read, tag, u64::from(register) * 4, &[]);
        }
    }

    fn describe(&mut self, at: u8, address: u8, length: u8) {
        let fields = [u64::from(address) * 64, u64::from(length) * 8];
        let bytes = fields.map(u64::to_le_bytes).concat();
        self.memory.write(u64::from(at) * 16, &bytes).expect("memory is large enough");
    }

    /// Runs until neither side has output.
    fn settle(&mut self) {
        for _ in 0..TURNS {
            self.nic.host.receive(Wait::Never).expect("this path has no I/O errors");
            self.nic.host.advance(self.now).expect("this path has no I/O errors");
            while let Some(frame) = self.nic.cable.frame_to_wire() {
                assert!((14..=1518).contains(&frame.len()), "a frame of {} bytes", frame.len());
                self.out += 1;
            }
            let sent = std::mem::take(&mut self.link.0.borrow_mut().from_nic);
            let moved = !sent.is_empty() || !self.link.0.borrow().to_nic.is_empty();
            sent.iter().for_each(|tlp| self.take(tlp));
            if !moved {
                return;
            }
        }
        panic!("output never ends");
    }

    /// Handles a TLP from the NIC.
    fn take(&mut self, tlp: &[u8]) {
        let parsed = Repr::parse(tlp).expect("the NIC sends legal TLPs");
        let data = &tlp[parsed.data.clone()];
        match &parsed.repr.body {
            Body::Completion(c) => {
                let tag = c.tag.bits() as u8;
                let place = self.asked.iter().position(|asked| *asked == tag);
                assert!(place.is_some() || !self.is_sound, "completion without a request");
                place.map(|place| self.asked.swap_remove(place));
            }
            Body::Memory(m) => {
                let most = if m.op.is_read() { 512 } else { 256 };
                assert!(m.span.byte_count() <= most, "{:?}", parsed.repr);
                let done = self.completer.handle(&parsed.repr, data, &mut self.memory, &mut self.link);
                assert!(done.is_ok(), "the path has room");
            }
            Body::Message(_) => {}
            other => panic!("unexpected TLP {other:?}"),
        }
    }

    fn end(mut self) -> (u64, u64) {
        self.link.0.borrow_mut().room = usize::MAX;
        let end = self.now + PATIENCE;
        self.settle();
        while self.now < end {
            self.now = self
                .nic
                .host
                .poll_timeout()
                .map_or(end, |at| at.max(self.now + Duration::from_us(1)))
                .min(end);
            self.settle();
        }
        assert!(self.asked.is_empty() || !self.is_sound, "register read without an answer");
        let (counters, wire) = (self.nic.counters(), self.nic.cable.counters());
        assert_eq!((wire.from_wire, wire.to_wire), (self.pushed, self.out));
        assert_eq!(counters.tx_frames, wire.to_wire + wire.to_wire_lost);
        let waiting = self.nic.cable.inbox().len() as u64;
        let lost = counters.no_buffer + counters.lost + wire.from_wire_lost;
        let accounted = counters.rx_frames + waiting + lost;
        assert!(
            accounted <= self.pushed && accounted + counters.dma_errors >= self.pushed,
            "{counters:?} {wire:?}"
        );
        (counters.tx_frames, counters.rx_frames)
    }
}
