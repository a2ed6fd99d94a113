// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of sessions for any datagrams. The fuzz targets and the tests of `riser-nettlp` call them on every seed
//! and on random bytes. A failed check panics.

use riser_nettlp::auth::Key;
use riser_nettlp::stream::record::{self, CONTROL_BIT, Datagram, RecordBytes};
use riser_nettlp::stream::{Accepted, Acceptor, AcceptorOptions, Connector, HELLOS, RING_DATAGRAMS, Session};
use riser_tlp::{Duration, Time};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Checks that a datagram is either refused, or emitted as it was parsed.
#[allow(dead_code, reason = "each target uses one of them")]
pub(crate) fn record(bytes: &[u8]) {
    match record::parse(bytes) {
        Some(Datagram::Control { count, session, record }) => {
            let written = RecordBytes::new(count, session, &record);
            assert_eq!(record::parse(&written), Some(Datagram::Control { count, session, record }));
        }
        Some(Datagram::Data { sequence, tlp }) => {
            assert!(sequence < CONTROL_BIT && tlp.len() + 6 == bytes.len());
        }
        None => {}
    }
}

fn peer() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 2], 5000))
}

/// Two ends, and the network between them.
struct Pair {
    now: Time,
    client: Session,
    acceptor: Acceptor,
    /// Datagrams in flight: whether to the server, and their bytes.
    under_way: VecDeque<(bool, Vec<u8>)>,
    /// Numbers of TLPs sent and arrived: to the client, to the server.
    sent: [u32; 2],
    arrived: [u32; 2],
    /// True if each arriving TLP must have been sent, because no peer without keys has written into an open session.
    is_true: bool,
}

/// Returns a session that was just opened.
fn open(key: Option<&Key>) -> Pair {
    let options = AcceptorOptions {
        max_sessions: 1,
        max_per_peer: 1,
        window: 16,
        longest: 600,
        key: key.cloned(),
        manual_release: false,
    };
    let mut acceptor = Acceptor::new(options, Box::new(|| 77));
    let mut connector = Connector::new(Time::ZERO, 5, 16, 600, key, HELLOS).expect("randomness");
    let hello = connector.poll_transmit(Time::ZERO).expect("a first Hello").expect("at once");
    let Accepted::Reply(Some(answer)) = acceptor.handle(Time::ZERO, None, peer(), &hello) else {
        panic!("no answer to a Hello")
    };
    let client = connector.handle(Time::ZERO, &answer).expect("agreed").expect("a session");
    let is_true = true;
    Pair {
        now: Time::ZERO,
        client,
        acceptor,
        under_way: VecDeque::new(),
        sent: [0; 2],
        arrived: [0; 2],
        is_true,
    }
}

impl Pair {
    fn server(&mut self) -> Option<&mut Session> {
        let index = self.acceptor.find(peer())?;
        self.acceptor.session(index).map(|(_, session)| session)
    }

    fn send(&mut self, to_server: bool) {
        let number = self.sent[usize::from(to_server)];
        let session = if to_server { Some(&mut self.client) } else { self.server() };
        let len = 12 + number as usize % 5 * 30;
        let sent = session.is_some_and(|session| {
            session.send(len, |out| {
                out.fill(0);
                out[4..8].copy_from_slice(&number.to_be_bytes());
            }) == Ok(())
        });
        self.sent[usize::from(to_server)] += u32::from(sent);
    }

    fn transmit(&mut self) {
        let now = self.now;
        let mut out = Vec::new();
        while let Some(run) = self.client.poll_transmit(now, 4, 2000) {
            out.extend(run.datagrams().map(|datagram| (true, datagram.to_vec())));
        }
        if let Some(server) = self.server() {
            while let Some(run) = server.poll_transmit(now, 4, 2000) {
                out.extend(run.datagrams().map(|datagram| (false, datagram.to_vec())));
            }
        }
        assert!(out.len() <= 4 * RING_DATAGRAMS, "too many datagrams at once");
        self.under_way.extend(out);
        self.under_way.truncate(1000);
    }

    fn deliver(&mut self, to_server: bool, datagram: &[u8]) {
        let now = self.now;
        let mut got = Vec::new();
        if to_server {
            let known = self.acceptor.find(peer());
            match self.acceptor.handle(now, known, peer(), datagram) {
                Accepted::Session(index) => {
                    let (_, session) = self.acceptor.session(index).expect("the acceptor named this session");
                    take(session, now, datagram, &mut got);
                }
                Accepted::Reply(Some(reply)) => {
                    assert!(reply.len() <= datagram.len(), "answer longer than its request");
                    self.under_way.push_back((false, reply.to_vec()));
                }
                Accepted::Reply(None) => {}
            }
        } else {
            take(&mut self.client, now, datagram, &mut got);
        }
        for tlp in got.iter().filter(|_| self.is_true) {
            let number = &mut self.arrived[usize::from(to_server)];
            assert_eq!(tlp[4..8], number.to_be_bytes(), "TLPs arrive once and in order");
            *number += 1;
            assert!(*number <= self.sent[usize::from(to_server)]);
        }
    }
}

fn take(session: &mut Session, now: Time, datagram: &[u8], got: &mut Vec<Vec<u8>>) {
    let mut scratch = Vec::new();
    let Some(next) = session.handle(now, datagram, &mut scratch) else { return };
    got.push(next[6..].to_vec());
    while let Some(kept) = session.pop_kept(now) {
        got.push(kept[6..].to_vec());
        session.recycle(kept);
    }
}

/// Runs a script. The first byte says whether the session is sealed. Each step is then a byte for its kind, and its
/// operands. TLPs arrive once and in order, unless a peer without keys wrote into an open session. No answer is longer
/// than its request. Returns the numbers of TLPs that arrived at the client and at the server.
#[allow(dead_code, reason = "each target uses one of them")]
pub(crate) fn session(script: &[u8]) -> [u32; 2] {
    let Some((&first, mut rest)) = script.split_first() else { return [0; 2] };
    let key = (first & 1 != 0).then(|| Key::new([3; 32]));
    let mut pair = open(key.as_ref());
    while let Some((&step, after)) = rest.split_first() {
        let to_server = step & 0x80 != 0;
        let operand = after.first().copied().unwrap_or(0);
        rest = after;
        let at = usize::from(operand) % pair.under_way.len().max(1);
        match step & 7 {
            0 => pair.send(to_server),
            1 => pair.transmit(),
            2 => {
                if let Some((to_server, datagram)) = pair.under_way.pop_front() {
                    pair.deliver(to_server, &datagram);
                }
            }
            // The datagram overtakes another one, is duplicated, or is lost.
            3 => {
                if let Some((to_server, datagram)) = pair.under_way.remove(at) {
                    pair.deliver(to_server, &datagram);
                }
            }
            4 => pair.under_way.extend(pair.under_way.get(at).cloned()),
            5 => drop(pair.under_way.remove(at)),
            6 => pair.now += Duration::from_us(100 << (operand % 16)),
            _ => {
                pair.is_true &= key.is_some();
                let len = usize::from(operand).min(after.len());
                match pair.under_way.get_mut(at) {
                    // The datagram is altered on the way, or invented.
                    Some((_, datagram)) if step & 8 != 0 => {
                        let place = usize::from(operand) % datagram.len();
                        datagram[place] ^= step | 1;
                    }
                    _ => pair.deliver(to_server, &after[..len]),
                }
                rest = &after[len..];
            }
        }
    }
    pair.arrived
}
