// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of a requester for any datagrams at any times. The fuzz target and the tests of `riser-nettlp` call them
//! on every seed and on random bytes. A failed check panics.

use riser_nettlp::requester::{Buffers, Requester, RequesterSettings, Rest};
use riser_tlp::{Bdf, Body, Completion, Duration, Repr, Status, Tag, Time};
use std::collections::BTreeMap;

const REST: Duration = Duration::from_us(300);
const TIMEOUT: Duration = Duration::from_us(100);
const RETRIES: u8 = 2;

/// The received bytes of each read.
#[derive(Default)]
struct Seen(BTreeMap<u64, Vec<bool>>, Vec<u8>);

impl Buffers for Seen {
    fn place(&mut self, token: u64, offset: u64, len: usize) -> Option<&mut [u8]> {
        let seen = self.0.get_mut(&token).expect("only reads in progress get data");
        seen[offset as usize..offset as usize + len].fill(true);
        self.1.resize(len, 0);
        Some(&mut self.1)
    }

    fn data(&self, _: u64, _: u64, _: usize) -> Option<&[u8]> {
        None
    }
}

struct Run {
    requester: Requester,
    seen: Seen,
    now: Time,
    tokens: u64,
    /// Last MRd of each tag, and the time when it was sent.
    asked: BTreeMap<u16, (Time, Vec<u8>)>,
}

/// Runs a script. Each step is a byte for its kind, and its operands. Every request ends once, and a successful one has
/// all its bytes. A tag is not reused before its rest period is over. No request waits forever.
pub(crate) fn requester(mut bytes: &[u8]) {
    let rest = Rest { lost: REST, duplicate: REST };
    let settings = RequesterSettings::unreliable(Bdf::from_bits(0x1a00), 0..=7, rest);
    let settings = RequesterSettings { timeout: TIMEOUT, retries: RETRIES, requests: 16, ..settings };
    let requester = Requester::new(settings);
    let mut run =
        Run { requester, seen: Seen::default(), now: Time::ZERO, tokens: 0, asked: BTreeMap::new() };
    while let [step, rest @ ..] = bytes {
        bytes = run.step(*step, rest);
        run.gather();
    }
    run.end();
}

impl Run {
    fn step<'a>(&mut self, step: u8, bytes: &'a [u8]) -> &'a [u8] {
        match (step % 6, bytes) {
            (0, [address, high, len, rest @ ..]) => {
                self.ask(u64::from(*address) << 4 | u64::from(*high) << 30, u64::from(*len) * 9, step > 127);
                rest
            }
            (1, rest) => {
                self.transmit();
                rest
            }
            (2, [len, rest @ ..]) => {
                let (datagram, rest) = rest.split_at(usize::from(*len).min(rest.len()));
                let _ = self.requester.handle(self.now, datagram, &mut self.seen);
                rest
            }
            (3, [tag, skip, spoil, rest @ ..]) => {
                self.answer(u16::from(*tag % 8), *skip, *spoil);
                rest
            }
            (4, [us, rest @ ..]) => {
                self.pass(Duration::from_us(u64::from(*us)));
                rest
            }
            (5, rest) => {
                self.requester.cancel_all(self.now);
                rest
            }
            (_, _) => &[],
        }
    }

    fn ask(&mut self, address: u64, len: u64, is_write: bool) {
        let token = self.tokens;
        self.tokens += 1;
        let asked = match is_write {
            true => self.requester.write(address, len, token),
            false => self.requester.read(address, len, token),
        };
        if asked.is_ok() {
            self.seen.0.insert(token, vec![is_write; len as usize]);
        }
    }

    fn transmit(&mut self) {
        let Some(outgoing) = self.requester.poll_transmit() else { return };
        let mut tlp = vec![0xee; outgoing.tlp_len()];
        outgoing.emit(&self.seen, &mut tlp);
        self.requester.sent(self.now, &outgoing);
        let parsed = Repr::parse(&tlp).expect("the requester sends legal TLPs");
        if outgoing.is_write() {
            return;
        }
        assert!(parsed.data.is_empty());
        let before = self.asked.insert(outgoing.tag().bits(), (self.now, tlp));
        // A tag rests after each read, so two reads with the same tag are at least a rest period apart.
        assert!(before.is_none_or(|(then, _)| then + REST <= self.now), "tag reused during its rest period");
    }

    /// Delivers a completion for the last MRd of a tag from byte `skip` on, possibly spoiled.
    fn answer(&mut self, tag: u16, skip: u8, spoil: u8) {
        let Some((_, mrd)) = self.asked.get(&tag) else { return };
        let Ok(Body::Memory(m)) = Repr::parse(mrd).map(|parsed| parsed.repr.body) else { return };
        let skip = u32::from(skip) * 2 % m.span.byte_count();
        let (address, len) = (m.span.first_byte() + u64::from(skip), m.span.byte_count() - skip);
        let dws = ((address % 4) as u32 + len).div_ceil(4);
        // Bit 6: fewer DWs than remain.
        let dws = if spoil & 64 == 0 { dws } else { 1 + dws / 2 };
        let header = Repr::new(Body::Completion(Completion {
            status: Status::from_bits(if spoil & 16 == 0 { 0 } else { spoil & 7 }),
            byte_count: len as u16,
            lower_address: address as u8 & 0x7f ^ (spoil >> 3 & 1),
            length_dw: Some(dws as u16),
            ..Completion::new(Bdf::from_bits(0), m.requester, Tag::from_bits(tag ^ u16::from(spoil >> 5 & 1)))
        }));
        let mut tlp = vec![0x5a; header.tlp_len()];
        header.emit(&mut tlp);
        let _ = self.requester.handle(self.now, &tlp, &mut self.seen);
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.requester.handle_timeout(self.now);
        assert!(self.requester.poll_timeout().is_none_or(|at| at > self.now), "timer due again immediately");
    }

    fn gather(&mut self) {
        while let Some(done) = self.requester.poll_done() {
            let seen = self.seen.0.remove(&done.token).expect("a request ends once");
            if let Ok(bytes) = done.result {
                assert_eq!(bytes, seen.len() as u64);
                assert!(seen.iter().all(|seen| *seen), "successful read without all bytes");
            }
        }
    }

    // 16 requests of up to 8 pieces on 8 tags, each sent up to 3 times.
    fn end(mut self) {
        for _ in 0..16 * 8 * (u32::from(RETRIES) + 1) {
            while self.requester.poll_transmit().is_some() {
                self.transmit();
                self.gather();
            }
            let Some(at) = self.requester.poll_timeout() else { break };
            self.pass(at.since(self.now));
            self.gather();
        }
        assert_eq!((self.requester.under_way(), self.seen.0.len()), (0, 0), "request that never ends");
    }
}
