// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of pseudo memory for any TLPs. The fuzz target and the tests of `riser-nettlp` call them on every seed
//! and on random bytes. A failed check panics.

#[path = "../crates/nettlp/tests/it/common/memo.rs"]
pub(crate) mod memo;

use memo::Memo;
use riser_capture::encap::Origin;
use riser_nettlp::carrier::Arrival;
use riser_nettlp::completer::{CompleterMemory, Image, Incoming};
use riser_nettlp::psmem::{Psmem, Window};
use riser_tlp::{AddressType, Attributes, Bdf, Body, MemoryOp, Mps, Repr, Span, Status, Time};
use std::collections::VecDeque;
use std::sync::Arc;

const BASE: u64 = 0x0010_0f00;
const BYTES: usize = 5000;
const MPS: u32 = 128;

/// A request that needs an answer.
struct Asked {
    origin: Origin,
    repr: Repr,
    /// Requested bytes of a read, if memory has all of them: first address and number.
    data: Option<(u64, u32)>,
}

struct Run {
    psmem: Psmem<Window>,
    image: Arc<Image>,
    /// Expected content of memory.
    shadow: Vec<u8>,
    asked: VecDeque<Asked>,
}

/// Delivers TLPs. Each has a byte for the room for answers with the issuer in its highest bit, one for its length in units of two
/// bytes, and its bytes. Each request that needs an answer is answered once, in order, with the bytes of memory. Only writes change
/// memory, and only bytes that they enable. Returns the number of requests answered with data.
pub(crate) fn psmem(mut script: &[u8]) -> u64 {
    let mut image = Arc::new(Image::zeroes(BYTES as u64).expect("a legal size"));
    let shadow: Vec<u8> = (0..BYTES).map(|n| (n % 251) as u8).collect();
    image.write(0, &shadow).expect("the image is writable");
    let window = Window { base: BASE, image: Arc::clone(&image) };
    let psmem = Psmem::new(Bdf::from_bits(0x1b00), Mps::new(MPS).expect("a legal size"), window);
    let mut run = Run { psmem, image, shadow, asked: VecDeque::new() };
    while let [room, len, rest @ ..] = script {
        let (tlp, behind) = rest.split_at((usize::from(*len) * 2).min(rest.len()));
        script = behind;
        let origin = if room & 0x80 == 0 { Origin::Host } else { Origin::Device };
        run.arrive(origin, tlp);
        run.answer(usize::from(room & 0x7f));
    }
    // A request takes up to 4 KiB in pieces of MPS, and one more piece.
    run.answer(run.asked.len() * (4096 / MPS as usize + 1));
    assert_eq!((run.asked.len(), run.psmem.waiting()), (0, 0), "request without an answer");
    run.psmem.completer_counters().reads
}

impl Run {
    fn arrive(&mut self, origin: Origin, tlp: &[u8]) {
        let mut scratch = [0; 4];
        if let Ok(incoming) = Incoming::parse(tlp, &mut scratch)
            && !incoming.is_digest_wrong
        {
            self.expect(origin, &incoming);
        }
        self.psmem.handle(Time::ZERO, &Arrival { origin, tlp, sequence: 0, timestamp: 0 });
        let mut now = vec![0; BYTES];
        self.image.read(0, &mut now);
        assert!(now == self.shadow, "memory differs from the writes");
    }

    fn expect(&mut self, origin: Origin, incoming: &Incoming<'_>) {
        let repr = incoming.repr;
        let is_translation = repr.at == AddressType::TranslationRequest;
        let data = match &repr.body {
            Body::Completion(_) | Body::Message(_) => return,
            Body::Memory(m) if m.op == MemoryOp::Write => {
                self.write(repr.ep, m.span, incoming.data);
                if let Some((span, data)) = incoming.rest {
                    self.write(repr.ep, span, data);
                }
                return;
            }
            Body::Memory(m) if m.op == MemoryOp::Read && !is_translation && incoming.rest.is_none() => {
                let (address, bytes) = (m.span.first_byte(), m.span.byte_count());
                within(address, bytes).map(|_| (address, bytes))
            }
            _ => None,
        };
        self.asked.push_back(Asked { origin, repr, data });
    }

    fn write(&mut self, is_poisoned: bool, span: Span, data: &[u8]) {
        let (Some(at), false) = (within(span.first_byte(), span.byte_count()), is_poisoned) else { return };
        for index in (0..span.byte_count()).filter(|index| span.is_enabled(*index)) {
            self.shadow[at + index as usize] = data[(span.lead() + index) as usize];
        }
    }

    fn answer(&mut self, room: usize) {
        let mut kept = Memo::with_room(room);
        self.psmem.answer(&mut kept);
        assert!(kept.sent.len() <= room, "more answers than room");
        let mut sent = kept.sent.into_iter().peekable();
        while sent.peek().is_some() {
            let asked = self.asked.pop_front().expect("each answer has a request");
            match asked.data {
                None => refused(&asked, sent.next()),
                Some((mut address, mut remaining)) => {
                    while remaining > 0 {
                        let piece = self.data(&asked, (address, remaining), sent.next());
                        (address, remaining) = (address + u64::from(piece), remaining - piece);
                    }
                }
            }
        }
        assert_eq!(self.asked.len(), self.psmem.waiting());
    }

    /// Checks a completion with data: the next bytes of a read, cut at a Read Completion Boundary.
    fn data(
        &self,
        asked: &Asked,
        (address, remaining): (u64, u32),
        sent: Option<(Origin, u16, Vec<u8>)>,
    ) -> u32 {
        let (repr, data) = completion(asked, sent);
        let Body::Completion(c) = repr.body else { unreachable!("checked") };
        assert_eq!((c.status, c.locked), (Status::Success, false));
        assert_eq!((u32::from(c.byte_count), u64::from(c.lower_address)), (remaining, address & 0x7f));
        let lead = (address & 3) as usize;
        let piece = remaining.min((data.len() - lead) as u32);
        assert!(data.len() <= MPS as usize);
        assert!(piece == remaining || (address + u64::from(piece)).is_multiple_of(64), "cut elsewhere");
        let at = (address - BASE) as usize;
        let (asked_for, padding) = data[lead..].split_at(piece as usize);
        assert!(asked_for == &self.shadow[at..at + piece as usize], "data differs from memory");
        assert!(data[..lead].iter().chain(padding).all(|byte| *byte == 0), "padding is not zero");
        piece
    }
}

/// Returns the offset of these bytes in memory, or `None` if it does not have all of them.
fn within(address: u64, bytes: u32) -> Option<usize> {
    let at = address.checked_sub(BASE)?;
    (at + u64::from(bytes) <= BYTES as u64).then_some(at as usize)
}

fn refused(asked: &Asked, sent: Option<(Origin, u16, Vec<u8>)>) {
    let (repr, data) = completion(asked, sent);
    let Body::Completion(c) = repr.body else { unreachable!("checked") };
    assert_eq!(c.status, Status::UnsupportedRequest);
    assert!(data.is_empty() && c.length_dw.is_none());
}

/// Parses what was sent as a completion for the requester.
fn completion(asked: &Asked, sent: Option<(Origin, u16, Vec<u8>)>) -> (Repr, Vec<u8>) {
    let (origin, tag, bytes) = sent.expect("all completions of a request are sent together");
    let parsed = Repr::parse(&bytes).expect("an answer is legal");
    let (requester, asked_tag) = asked.repr.transaction();
    assert_eq!(
        (origin, tag),
        (asked.origin, asked_tag.bits()),
        "completion with the request's origin and tag"
    );
    let Body::Completion(c) = parsed.repr.body else { panic!("answer is not a completion") };
    assert_eq!((c.requester, c.tag), (requester, asked_tag));
    // Only a function can enable ID-based Ordering of completions (`PCIe 5.0 §7.5.3.16`), and memory has no function.
    let attr = asked.repr.attr - Attributes::ID_BASED_ORDERING;
    assert_eq!((parsed.repr.tc, parsed.repr.attr), (asked.repr.tc, attr));
    (parsed.repr, bytes[parsed.data].to_vec())
}
