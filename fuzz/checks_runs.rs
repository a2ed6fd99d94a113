// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of runs: datagrams that are sent or received in one call (`UDP_SEGMENT`, `UDP_GRO`). The fuzz target and
//! the tests of `riser-nettlp` call them on every seed and on random bytes. A failed check panics.

use riser_nettlp::stream::{Accepted, Acceptor, AcceptorOptions, Connector, HELLOS, SegmentRun, Session};
use riser_tlp::{Duration, Time};
use std::net::SocketAddr;

/// Bytes of a datagram before its TLP.
const HEADER: usize = 6;
/// Maximum number of datagrams in flight; further ones are lost.
const UNDER_WAY: usize = 400;
const LONGEST: u16 = 600;

fn peer() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 3], 5000))
}

/// A sending client, the server, and the network between them.
struct Path {
    now: Time,
    client: Session,
    server: Acceptor,
    /// Datagrams in the order in which they were sent.
    under_way: Vec<Vec<u8>>,
    sent: u32,
    arrived: u32,
}

/// Runs a script. Each step is a byte for its kind, and its operands. The simulated kernel splits, joins, drops and
/// invents datagrams. Each run must still contain the datagrams that it should, and TLPs must arrive once and in
/// order. Returns the number of TLPs that arrived.
pub(crate) fn runs(mut script: &[u8]) -> u32 {
    let mut path = Path::open();
    while let [step, operand, rest @ ..] = script {
        script = rest;
        match step % 6 {
            0 => path.send(usize::from(*operand)),
            1 => path.transmit(1 + usize::from(*operand) % 70, 100 + usize::from(*operand) * 20),
            2 => path.receive_joined(1 + usize::from(*operand)),
            3 => drop(path.under_way.drain(..usize::from(*operand).min(path.under_way.len()))),
            // Any bytes, cut at any length: from a faulty kernel or an unknown peer.
            4 => {
                let (bytes, behind) = rest.split_at(usize::from(*operand).min(rest.len()));
                script = behind;
                let segment = u16::from(*step) / 6;
                path.receive_made_up(bytes, (segment < 40).then_some(segment));
            }
            _ => path.now += Duration::from_us(1 << (operand % 20)),
        }
        path.take_answers();
    }
    path.arrived
}

impl Path {
    fn open() -> Path {
        let options = AcceptorOptions {
            max_sessions: 1,
            max_per_peer: 1,
            window: 64,
            longest: LONGEST,
            key: None,
            manual_release: false,
        };
        let mut server = Acceptor::new(options, Box::new(|| 77));
        let mut connector = Connector::new(Time::ZERO, 5, 64, LONGEST, None, HELLOS).expect("randomness");
        let hello = connector.poll_transmit(Time::ZERO).expect("a first Hello").expect("at once");
        let Accepted::Reply(Some(answer)) = server.handle(Time::ZERO, None, peer(), &hello) else {
            panic!("no answer to a Hello")
        };
        let client = connector.handle(Time::ZERO, &answer).expect("agreed").expect("a session");
        Path { now: Time::ZERO, client, server, under_way: Vec::new(), sent: 0, arrived: 0 }
    }

    fn send(&mut self, operand: usize) {
        let (number, len) = (self.sent, 12 + operand % 16 * 36);
        let sent = self.client.send(len, |out| {
            out.fill(0);
            out[4..8].copy_from_slice(&number.to_be_bytes());
        });
        self.sent += u32::from(sent.is_ok());
    }

    fn transmit(&mut self, most: usize, most_bytes: usize) {
        while let Some(run) = self.client.poll_transmit(self.now, most, most_bytes) {
            let datagrams: Vec<_> = run.datagrams().collect();
            assert_eq!(datagrams.concat(), run.bytes, "a run consists of its datagrams");
            assert_eq!(datagrams.len(), run.count);
            assert!(run.count <= most.max(1), "{} datagrams, at most {most} expected", run.count);
            assert!(run.count == 1 || run.bytes.len() <= most_bytes);
            let (last, equal) = datagrams.split_last().expect("a run has a datagram");
            assert!(equal.iter().all(|one| one.len() == usize::from(run.segment)));
            assert!(last.len() > HEADER && last.len() <= usize::from(run.segment));
            self.under_way.extend(datagrams.into_iter().map(<[u8]>::to_vec));
        }
        self.under_way.truncate(UNDER_WAY);
    }

    /// Receives waiting datagrams in calls of up to `most`. Joins them as the kernel does: datagrams of equal length, and a
    /// shorter one after them.
    fn receive_joined(&mut self, most: usize) {
        let waiting = std::mem::take(&mut self.under_way);
        let mut rest = &waiting[..];
        while let Some(first) = rest.first() {
            let equal = rest.iter().take(most).take_while(|one| one.len() == first.len()).count();
            let shorter = rest.get(equal).is_some_and(|one| equal < most && one.len() < first.len());
            let (joined, behind) = rest.split_at(equal + usize::from(shorter));
            rest = behind;
            let bytes = joined.concat();
            let segment = (joined.len() > 1).then_some(first.len() as u16);
            let run = SegmentRun::received(&bytes, segment);
            assert!(run.datagrams().eq(joined.iter().map(Vec::as_slice)), "a run is cut where it was joined");
            assert_eq!(run.count, joined.len());
            run.datagrams().for_each(|datagram| self.deliver(datagram, true));
        }
    }

    /// Receives invented datagrams. They do not count as TLPs of this session, because their numbers were not
    /// granted or have already arrived.
    fn receive_made_up(&mut self, bytes: &[u8], segment: Option<u16>) {
        let run = SegmentRun::received(bytes, segment);
        let datagrams: Vec<_> = run.datagrams().collect();
        assert_eq!(datagrams.concat(), bytes);
        assert_eq!(datagrams.len(), run.count);
        assert!(run.count >= 1, "an empty datagram counts");
        for datagram in datagrams {
            let mut copy = datagram.to_vec();
            // Low 16 bits first, then the high 32: a number that no session here reaches.
            if let Some(high) = copy.get_mut(2..HEADER) {
                high[0] = high[0] & 0x7f | 0x40;
            }
            self.deliver(&copy, false);
        }
    }

    fn deliver(&mut self, datagram: &[u8], own: bool) {
        let known = self.server.find(peer());
        let Accepted::Session(index) = self.server.handle(self.now, known, peer(), datagram) else { return };
        let (_, session) = self.server.session(index).expect("the acceptor named this session");
        let (mut scratch, mut got) = (Vec::new(), Vec::new());
        if let Some(next) = session.handle(self.now, datagram, &mut scratch) {
            got.push(next.to_vec());
            while let Some(kept) = session.pop_kept(self.now) {
                got.push(kept.clone());
                session.recycle(kept);
            }
        }
        assert!(own || got.is_empty(), "made-up bytes accepted as a TLP");
        for datagram in got {
            assert_eq!(
                datagram[HEADER + 4..HEADER + 8],
                self.arrived.to_be_bytes(),
                "TLPs arrive once and in order"
            );
            self.arrived += 1;
            assert!(self.arrived <= self.sent);
        }
    }

    /// Delivers the server's answers to the client immediately, because only runs of TLPs are tested.
    fn take_answers(&mut self) {
        let Some(index) = self.server.find(peer()) else { return };
        let Some((_, session)) = self.server.session(index) else { return };
        let mut scratch = Vec::new();
        while let Some(run) = session.poll_transmit(self.now, 4, 2000) {
            for datagram in run.datagrams() {
                assert!(
                    self.client.handle(self.now, datagram, &mut scratch).is_none(),
                    "the server sent no TLP"
                );
            }
        }
    }
}
