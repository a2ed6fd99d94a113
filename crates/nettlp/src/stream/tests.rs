// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests two ends over a bad network, in virtual time. Deterministic: a seed reproduces a run.

use super::acceptor::IDLE;
use super::*;
use crate::auth::Key;
use crate::carrier::SendError;
use crate::dropped::DropReason;
use capture::encap::NETTLP_LEN;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tlp::Time;

/// SplitMix64.
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.next() % 100 < chance
    }
}

#[derive(Clone, Copy, Debug)]
struct Faults {
    loss: u64,
    doubling: u64,
    reordering: u64,
}

const NONE: Faults = Faults { loss: 0, doubling: 0, reordering: 0 };
const CLIENT: usize = 0;
const SERVER: usize = 1;
const LATENCY: Duration = Duration::from_us(20);

/// Datagrams in flight, and the faults that the network causes.
struct Network {
    faults: Faults,
    random: Random,
    under_way: BTreeMap<(Time, u64), (usize, Vec<u8>)>,
    count: u64,
    /// All datagrams that were sent to each end.
    log: [Vec<Vec<u8>>; 2],
}

impl Network {
    fn new(seed: u64, faults: Faults) -> Network {
        Network { faults, random: Random(seed), under_way: BTreeMap::new(), count: 0, log: [vec![], vec![]] }
    }

    fn send(&mut self, now: Time, to: usize, bytes: &[u8]) {
        self.log[to].push(bytes.to_vec());
        if self.random.percent(self.faults.loss) {
            return;
        }
        let copies = if self.random.percent(self.faults.doubling) { 2 } else { 1 };
        for _ in 0..copies {
            let late = self.random.percent(self.faults.reordering);
            let delay = LATENCY * if late { 1 + self.random.next() % 50 } else { 1 };
            self.count += 1;
            self.under_way.insert((now + delay, self.count), (to, bytes.to_vec()));
        }
    }

    fn run(&mut self, now: Time, to: usize, run: SegmentRun<'_>) {
        for datagram in run.datagrams() {
            self.send(now, to, datagram);
        }
    }
}

fn address() -> SocketAddr {
    "127.0.0.2:5000".parse().unwrap()
}

fn options() -> AcceptorOptions {
    AcceptorOptions {
        max_sessions: 2,
        max_per_peer: 2,
        window: 64,
        longest: 600,
        key: None,
        manual_release: false,
    }
}

fn acceptor(options: AcceptorOptions) -> Acceptor {
    let mut random = Random(99);
    Acceptor::new(options, Box::new(move || random.next()))
}

/// Two ends in virtual time.
struct World {
    now: Time,
    network: Network,
    connector: Option<Connector>,
    client: Option<Session>,
    acceptor: Acceptor,
    /// TLPs that arrived at each end.
    arrived: [Vec<Vec<u8>>; 2],
    /// Number of TLPs that the server's consumer has not released yet, if release is manual.
    unreleased: usize,
    most_unreleased: usize,
    connect_error: Option<ConnectError>,
}

impl World {
    fn new(
        seed: u64,
        faults: Faults,
        window: u16,
        client_key: Option<&Key>,
        options: AcceptorOptions,
    ) -> World {
        let connector = Connector::new(Time::ZERO, seed ^ 0xabcd, window, 600, client_key, HELLOS).unwrap();
        World {
            now: Time::ZERO,
            network: Network::new(seed, faults),
            connector: Some(connector),
            client: None,
            acceptor: acceptor(options),
            arrived: [vec![], vec![]],
            unreleased: 0,
            most_unreleased: 0,
            connect_error: None,
        }
    }

    fn server(&mut self) -> Option<&mut Session> {
        let index = self.acceptor.find(address())?;
        self.acceptor.session(index).map(|(_, session)| session)
    }

    fn session(&mut self, end: usize) -> Option<&mut Session> {
        if end == CLIENT { self.client.as_mut() } else { self.server() }
    }

    /// Sends what is due at both ends.
    fn transmit(&mut self) {
        let now = self.now;
        if let Some(connector) = &mut self.connector {
            match connector.poll_transmit(now) {
                Ok(Some(hello)) => self.network.send(now, SERVER, &hello),
                Ok(None) => {}
                Err(error) => (self.connect_error, self.connector) = (Some(error), None),
            }
        }
        if let Some(client) = &mut self.client {
            while let Some(run) = client.poll_transmit(now, 16, 4000) {
                self.network.run(now, SERVER, run);
            }
        }
        for index in self.acceptor.indices() {
            let Some((_, session)) = self.acceptor.session(index) else { continue };
            while let Some(run) = session.poll_transmit(now, 16, 4000) {
                self.network.run(now, CLIENT, run);
            }
            self.acceptor.reap(index);
        }
    }

    /// Returns the time of the next event.
    fn next_time(&mut self) -> Option<Time> {
        let arrival = self.network.under_way.keys().next().map(|key| key.0);
        let connector = self.connector.as_ref().map(Connector::poll_timeout);
        let client = self.client.as_ref().and_then(Session::poll_timeout);
        let server = self.server().and_then(|session| session.poll_timeout());
        [arrival, connector, client, server].into_iter().flatten().min()
    }

    /// Handles one arrival or timer. Returns true if there was one.
    fn step(&mut self) -> bool {
        self.transmit();
        let Some(next) = self.next_time() else { return false };
        self.now = self.now.max(next);
        while let Some(entry) = self.network.under_way.first_entry().filter(|e| e.key().0 <= self.now) {
            let (to, datagram) = entry.remove();
            if to == CLIENT { self.at_client(&datagram) } else { self.at_server(&datagram) }
        }
        true
    }

    fn at_client(&mut self, datagram: &[u8]) {
        if let Some(connector) = &mut self.connector {
            match connector.handle(self.now, datagram) {
                Ok(None) => return,
                Ok(Some(session)) => self.client = Some(session),
                Err(error) => self.connect_error = Some(error),
            }
            self.connector = None;
            return;
        }
        if let Some(client) = &mut self.client {
            deliver(self.now, client, datagram, &mut self.arrived[CLIENT]);
        }
    }

    fn at_server(&mut self, datagram: &[u8]) {
        let known = self.acceptor.find(address());
        match self.acceptor.handle(self.now, known, address(), datagram) {
            Accepted::Session(index) => {
                let (_, session) = self.acceptor.session(index).unwrap();
                let count = deliver(self.now, session, datagram, &mut self.arrived[SERVER]);
                self.unreleased += count;
                self.most_unreleased = self.most_unreleased.max(self.unreleased);
            }
            Accepted::Reply(Some(reply)) => {
                assert!(reply.len() <= datagram.len(), "no answer is longer than its request");
                self.network.send(self.now, CLIENT, &reply);
            }
            Accepted::Reply(None) => {}
        }
    }

    fn connect(&mut self) {
        while self.connector.is_some() && self.step() {}
    }
}

fn deliver(now: Time, session: &mut Session, datagram: &[u8], arrived: &mut Vec<Vec<u8>>) -> usize {
    let mut scratch = Vec::new();
    let Some(next) = session.handle(now, datagram, &mut scratch) else { return 0 };
    arrived.push(next[NETTLP_LEN..].to_vec());
    let mut count = 1;
    while let Some(kept) = session.pop_kept(now) {
        arrived.push(kept[NETTLP_LEN..].to_vec());
        session.recycle(kept);
        count += 1;
    }
    count
}

/// Returns TLP `index` of an end: all are different, and lengths vary.
fn tlp(end: usize, index: usize) -> Vec<u8> {
    let mut bytes = vec![end as u8; 12 + index % 7 * 40];
    bytes[4..8].copy_from_slice(&(index as u32).to_be_bytes());
    bytes
}

/// Sends `count` TLPs from each end as room permits, and checks that all arrive exactly once and in order.
/// Returns the time.
fn exchange(world: &mut World, count: usize) -> Time {
    let mut sent = [0, 0];
    let deadline = world.now + Duration::from_ms(60_000);
    while world.arrived.iter().any(|arrived| arrived.len() < count) {
        for end in [CLIENT, SERVER] {
            while sent[end] < count {
                let bytes = tlp(end, sent[end]);
                let Some(session) = world.session(end) else { break };
                if session.send(bytes.len(), |out| out.copy_from_slice(&bytes)).is_err() {
                    break;
                }
                sent[end] += 1;
            }
        }
        assert!(world.step(), "no event is due, but TLPs are missing");
        assert!(world.now < deadline, "in bounded time");
        assert_eq!(world.client.as_ref().and_then(Session::failure), None);
    }
    for (end, arrived) in world.arrived.iter().enumerate() {
        assert_eq!(arrived.len(), count);
        assert!(arrived.iter().enumerate().all(|(index, bytes)| *bytes == tlp(1 - end, index)));
    }
    world.now
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// With a loss of 26 %, a few of a thousand cases have 13 consecutive timeouts, which correctly end a session.
    #[test]
    fn every_tlp_arrives_once_and_in_order(
        seed: u64, loss in 0u64..15, doubling in 0u64..30, reordering in 0u64..60, sealed: bool, window in 1u16..100,
    ) {
        let key = sealed.then(|| Key::new([seed as u8; 32]));
        let options = AcceptorOptions { window, key: key.clone(), ..options() };
        let mut world = World::new(seed, NONE, 64, key.as_ref(), options);
        world.connect();
        world.network.faults = Faults { loss, doubling, reordering };
        exchange(&mut world, 400);
        let client = world.client.as_ref().unwrap().counters();
        let server = world.server().unwrap().counters();
        prop_assert_eq!((client.beyond_credits, server.beyond_credits), (0, 0));
        prop_assert_eq!((client.unauthentic, client.malformed), (0, 0));
        prop_assert_eq!(client.received_tlps, 400);
        if loss == 0 && doubling == 0 && reordering == 0 {
            prop_assert_eq!((client.retransmitted, server.retransmitted), (0, 0));
        }
    }

    #[test]
    fn handshake_survives_a_bad_network_or_fails(seed: u64, loss in 0u64..50, doubling in 0u64..50, sealed: bool) {
        let key = sealed.then(|| Key::new([3; 32]));
        let faults = Faults { loss, doubling, reordering: 30 };
        let mut world = World::new(seed, faults, 64, key.as_ref(), AcceptorOptions { key: key.clone(), ..options() });
        world.connect();
        prop_assert!(world.now <= Time::ZERO + Duration::from_ms(2_540));
        match world.connect_error {
            Some(error) => prop_assert_eq!(error, ConnectError::Silent),
            None => drop(exchange(&mut world, 20)),
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_disturb_a_session(
        seed: u64, junk in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 1..40), sealed: bool,
    ) {
        let key = sealed.then(|| Key::new([3; 32]));
        let mut world = World::new(seed, NONE, 64, key.as_ref(), AcceptorOptions { key: key.clone(), ..options() });
        world.connect();
        exchange(&mut world, 3);
        let before = world.arrived.clone();
        for mut bytes in junk {
            if !sealed && bytes.len() >= NETTLP_LEN {
                // Without keys, a sender that guesses a number can write TLPs. This bit makes the datagram a
                // control record.
                bytes[2] |= 0x80;
            }
            world.at_client(&bytes);
            world.at_server(&bytes);
        }
        prop_assert_eq!(&before, &world.arrived);
        world.arrived = [vec![], vec![]];
        exchange(&mut world, 10);
    }
}

#[test]
fn equal_seeds_send_equal_datagrams() {
    let run = || {
        let mut world = World::new(5, NONE, 64, None, options());
        world.connect();
        world.network.faults = Faults { loss: 10, doubling: 5, reordering: 20 };
        let end = exchange(&mut world, 300);
        (end, world.network.log)
    };
    assert_eq!(run(), run());
}

#[test]
fn lost_tlp_is_detected_by_the_bitmap_before_the_timer() {
    let mut world = World::new(1, NONE, 64, None, options());
    world.connect();
    let client = world.client.as_mut().unwrap();
    for index in 0..10 {
        let bytes = tlp(CLIENT, index);
        client.send(bytes.len(), |out| out.copy_from_slice(&bytes)).unwrap();
    }
    world.transmit();
    // The Confirm is first in the queue; the TLP after it is lost.
    let lost = *world.network.under_way.keys().nth(1).unwrap();
    world.network.under_way.remove(&lost);
    while world.arrived[SERVER].len() < 10 && world.step() {}
    assert!(world.now < Time::ZERO + MIN_RTO, "at {}", world.now);
    assert_eq!(world.client.unwrap().counters().retransmitted, 1);
}

#[test]
fn session_detects_peer_that_has_gone() {
    for sealed in [false, true] {
        let key = sealed.then(|| Key::new([3; 32]));
        let mut world =
            World::new(2, NONE, 64, key.as_ref(), AcceptorOptions { key: key.clone(), ..options() });
        world.connect();
        exchange(&mut world, 5);
        world.network.faults.loss = 100;
        let start = world.now;
        world.client.as_mut().unwrap().send(12, |out| out.fill(0)).unwrap();
        // After the step in which the session fails, there is no more work.
        while world.step() {
            assert!(world.now < start + Duration::from_ms(6_000));
        }
        let client = world.client.as_mut().unwrap();
        assert_eq!(client.failure(), Some(SessionError::Silent));
        assert_eq!(client.counters().timeouts, u64::from(MAX_TIMEOUTS) + 1);
        assert_eq!(client.send(12, |_| ()), Err(SendError::NoRoom));
    }
}

#[test]
fn idle_client_detects_peer_that_has_gone() {
    let mut world = World::new(3, NONE, 64, None, options());
    world.connect();
    exchange(&mut world, 5);
    world.network.faults.loss = 100;
    let start = world.now;
    while world.step() {
        assert!(world.now < start + KEEP_ALIVE + Duration::from_ms(6_000));
    }
    assert_eq!(world.client.unwrap().failure(), Some(SessionError::Silent));
}

#[test]
fn idle_session_stays_open() {
    let mut world = World::new(3, NONE, 64, None, options());
    world.connect();
    exchange(&mut world, 5);
    let later = world.now + Duration::from_ms(60_000);
    while world.now < later {
        assert!(world.step());
    }
    world.arrived = [vec![], vec![]];
    exchange(&mut world, 5);
}

#[test]
fn withheld_credits_stop_the_sender() {
    let mut world =
        World::new(4, NONE, 64, None, AcceptorOptions { manual_release: true, window: 16, ..options() });
    world.connect();
    world.network.faults = Faults { loss: 10, doubling: 10, reordering: 10 };
    let mut sent = 0;
    for round in 0..50 {
        // The consumer releases three TLPs every 10 ms.
        let until = world.now + Duration::from_ms(10);
        while world.now < until {
            while sent < 100 {
                let bytes = tlp(CLIENT, sent);
                let client = world.client.as_mut().unwrap();
                client.send(bytes.len(), |out| out.copy_from_slice(&bytes)).unwrap();
                sent += 1;
            }
            assert!(world.step());
        }
        assert!(world.arrived[SERVER].len() <= 16 + 3 * round, "no more TLPs than were released");
        let released = world.unreleased.min(3);
        world.unreleased -= released;
        world.server().unwrap().release(released);
    }
    assert_eq!(world.arrived[SERVER].len(), 100);
    assert!(world.most_unreleased <= 16);
    assert_eq!(world.server().unwrap().counters().beyond_credits, 0);
}

#[test]
fn ignores_tlps_beyond_the_credits() {
    let mut world =
        World::new(4, NONE, 64, None, AcceptorOptions { manual_release: true, window: 4, ..options() });
    world.connect();
    exchange_from_client(&mut world, 4);
    let next = record::number(world.network.log[SERVER].last().unwrap()).unwrap();
    assert_eq!(next & record::CONTROL_BIT, 0);
    let mut beyond = vec![0; 18];
    record::put_number(&mut beyond, next + 1);
    world.at_server(&beyond);
    assert_eq!(world.arrived[SERVER].len(), 4);
    assert_eq!(world.server().unwrap().counters().beyond_credits, 1);
    let drops: Vec<_> = world.server().unwrap().drops().iter().map(ToString::to_string).collect();
    let [beyond] = drops.as_slice() else { panic!("{drops:?}") };
    assert!(beyond.starts_with("1 dropped, beyond_credits: the TLP exceeds the granted credits; first at "));
    assert!(beyond.ends_with(" ns: TLP 00000000 00000000 00000000"), "{beyond}");
}

fn exchange_from_client(world: &mut World, count: usize) {
    for index in 0..count {
        let bytes = tlp(CLIENT, index);
        world.client.as_mut().unwrap().send(bytes.len(), |out| out.copy_from_slice(&bytes)).unwrap();
    }
    while world.arrived[SERVER].len() < count {
        assert!(world.step());
    }
}

#[test]
fn replayed_and_altered_datagrams_do_not_affect_a_sealed_session() {
    let key = Key::new([3; 32]);
    let mut world =
        World::new(6, NONE, 64, Some(&key), AcceptorOptions { key: Some(key.clone()), ..options() });
    world.connect();
    exchange(&mut world, 50);
    let before = world.server().unwrap().counters();
    let sent = world.network.log[SERVER].clone();
    let data = sent.iter().filter(|d| record::number(d).unwrap() & record::CONTROL_BIT == 0).count() as u64;
    for datagram in &sent {
        world.at_server(datagram);
    }
    let after = world.server().unwrap().counters();
    assert_eq!(after.received_tlps, before.received_tlps);
    assert_eq!(after.duplicates - before.duplicates, data);
    // The count includes all control records except the Hello.
    assert_eq!(after.replayed - before.replayed, sent.len() as u64 - data - 1);
    for datagram in &sent[1..] {
        let mut altered = datagram.clone();
        *altered.last_mut().unwrap() ^= 1;
        world.at_server(&altered);
        world.at_server(&datagram[..datagram.len() - 1]);
    }
    let end = world.server().unwrap().counters();
    assert_eq!(end.unauthentic - after.unauthentic, 2 * (sent.len() as u64 - 1));
    let session = world.server().unwrap();
    let drops: Vec<_> = session.drops().iter().map(|d| (d.reason, d.count)).collect();
    assert_eq!(drops, [(DropReason::Unauthentic, end.unauthentic)]);
    let first = session.drops().iter().next().unwrap().to_string();
    assert!(first.contains("fails authentication with the keys of the session"), "{first}");
    assert!(first.contains(&format!("datagram of {} bytes", sent[1].len())), "{first}");
    assert_eq!(end.received_tlps, before.received_tlps);
}

#[test]
fn handshake_requires_equal_keys() {
    let (a, b) = (Key::new([1; 32]), Key::new([2; 32]));
    let rows = [
        (Some(&a), Some(&b), ConnectError::Refused(record::Refusal::WrongKey)),
        (Some(&a), None, ConnectError::Refused(record::Refusal::NoKey)),
        (None, Some(&b), ConnectError::Refused(record::Refusal::WantsKey)),
    ];
    for (client, server, error) in rows {
        let mut world =
            World::new(7, NONE, 64, client, AcceptorOptions { key: server.cloned(), ..options() });
        world.connect();
        assert_eq!(world.connect_error, Some(error));
        assert_eq!(world.acceptor.counters().refused, 1);
    }
}

#[test]
fn unknown_session_is_reset() {
    let mut world = World::new(8, NONE, 64, None, options());
    world.connect();
    exchange(&mut world, 5);
    world.acceptor = acceptor(options());
    // The shortest possible TLP, 18 bytes with its number, is answered too.
    world.client.as_mut().unwrap().send(12, |out| out.fill(0)).unwrap();
    while world.client.as_ref().unwrap().failure().is_none() {
        assert!(world.step());
    }
    assert_eq!(world.client.as_ref().unwrap().failure(), Some(SessionError::Reset));
    assert_eq!(world.acceptor.counters().resets, 1);
}

#[test]
fn bye_frees_the_place_at_once() {
    let mut world = World::new(8, NONE, 64, None, options());
    world.connect();
    exchange(&mut world, 5);
    let bye = world.client.take().unwrap().close().bytes.to_vec();
    world.at_server(&bye);
    world.transmit();
    assert!(world.acceptor.is_empty());
    assert_eq!(world.acceptor.counters().closed, 1);
    assert_eq!(world.acceptor.counters().sessions.received_tlps, 5);
}

/// Opens a session by hand, for the client at `from`.
fn open(acceptor: &mut Acceptor, now: Time, from: SocketAddr, nonce: u64) -> Result<Session, ConnectError> {
    let mut connector = Connector::new(now, nonce, 64, 600, None, HELLOS)?;
    let hello = connector.poll_transmit(now)?.unwrap();
    let Accepted::Reply(Some(answer)) = acceptor.handle(now, acceptor.find(from), from, &hello) else {
        panic!("no answer to a Hello")
    };
    let mut session = connector.handle(now, &answer)?.unwrap();
    let confirm = session.poll_transmit(now, 1, 600).unwrap().bytes.to_vec();
    let accepted = acceptor.handle(now, acceptor.find(from), from, &confirm);
    assert!(matches!(accepted, Accepted::Session(_)));
    Ok(session)
}

#[test]
fn only_idle_sessions_are_displaced() {
    let mut acceptor = acceptor(options());
    let peer = |port| SocketAddr::from(([127, 0, 0, 2], port));
    for port in [1, 2] {
        open(&mut acceptor, Time::ZERO, peer(port), u64::from(port)).unwrap();
    }
    let full = open(&mut acceptor, Time::ZERO, peer(3), 3).unwrap_err();
    assert_eq!(full, ConnectError::Refused(record::Refusal::Full));
    open(&mut acceptor, Time::ZERO + IDLE, peer(3), 3).unwrap();
    assert_eq!((acceptor.len(), acceptor.find(peer(1))), (2, None), "the one that was idle the longest");
    assert_eq!(acceptor.counters().displaced, 1);
}

/// A session without TLPs is idle, even if its peer keeps it alive. A TLP in either direction keeps the place of a
/// session.
#[test]
fn one_peer_cannot_take_places_of_all_sessions() {
    let mut acceptor = acceptor(AcceptorOptions { max_sessions: 6, max_per_peer: 4, ..options() });
    let peer = |host, port| SocketAddr::from(([10, 0, 0, host], port));
    let mut first = open(&mut acceptor, Time::ZERO, peer(1, 1), 1).unwrap();
    for port in 2..=4 {
        open(&mut acceptor, Time::ZERO, peer(1, port), u64::from(port)).unwrap();
    }
    let full = open(&mut acceptor, Time::ZERO, peer(1, 5), 5).unwrap_err();
    assert_eq!(full, ConnectError::Refused(record::Refusal::Full), "maximum per peer");
    for host in [2, 3] {
        open(&mut acceptor, Time::ZERO, peer(host, 1), 100 + u64::from(host)).unwrap();
    }
    let full = open(&mut acceptor, Time::ZERO, peer(4, 1), 104).unwrap_err();
    assert_eq!(full, ConnectError::Refused(record::Refusal::Full), "maximum of sessions");
    // One session of the first peer transfers a TLP. Its other sessions are displaced before those of peers
    // that have fewer.
    let later = Time::ZERO + IDLE;
    first.send(20, |tlp| tlp.fill(0)).unwrap();
    let index = acceptor.find(peer(1, 1)).unwrap();
    let mut came = 0;
    // The session sends its repeated Confirm, and the TLP.
    while let Some(run) = first.poll_transmit(later, 1, 100) {
        let datagram = run.bytes.to_vec();
        let session = acceptor.session(index).unwrap().1;
        came += u32::from(session.handle(later, &datagram, &mut Vec::new()).is_some());
    }
    assert_eq!(came, 1);
    for host in [4, 5, 6] {
        open(&mut acceptor, later, peer(host, 1), 100 + u64::from(host)).unwrap();
    }
    let left: Vec<u16> = (1..=4).filter(|port| acceptor.find(peer(1, *port)).is_some()).collect();
    assert_eq!((left, acceptor.len(), acceptor.counters().displaced), (vec![1], 6, 3));
    // If a peer has its maximum number of sessions, a new session displaces one of these sessions.
    open(&mut acceptor, later + IDLE, peer(2, 2), 202).unwrap();
    assert_eq!(acceptor.len(), 6);
}

#[test]
fn restarted_client_displaces_its_own_session() {
    let mut acceptor = acceptor(AcceptorOptions { max_sessions: 1, ..options() });
    let first = open(&mut acceptor, Time::ZERO, address(), 1).unwrap();
    let second = open(&mut acceptor, Time::ZERO, address(), 2).unwrap();
    assert_ne!(first.id(), second.id());
    let index = acceptor.find(address()).unwrap();
    assert_eq!(acceptor.session(index).unwrap().1.id(), second.id());
    assert_eq!(acceptor.len(), 1);
}

#[test]
fn time_between_hellos_doubles_until_peer_counts_as_silent() {
    let rows: [(u32, &[u64], u64); 2] =
        [(HELLOS, &[0, 20, 60, 140, 300, 620, 1260], 2540), (FEW_HELLOS, &[0, 20, 60, 140], 300)];
    for (hellos, at_ms, silent_ms) in rows {
        let mut connector = Connector::new(Time::ZERO, 1, 64, 600, None, hellos).unwrap();
        for &ms in at_ms {
            let now = Time::ZERO + Duration::from_ms(ms);
            assert_eq!(connector.poll_timeout(), now);
            assert!(connector.poll_transmit(now).unwrap().is_some());
            assert_eq!(connector.poll_transmit(now), Ok(None));
        }
        assert_eq!(connector.poll_timeout(), Time::ZERO + Duration::from_ms(silent_ms));
        assert_eq!(connector.poll_transmit(connector.poll_timeout()), Err(ConnectError::Silent));
    }
}

#[test]
fn late_answer_to_first_hello_opens_session() {
    let mut connector = Connector::new(Time::ZERO, 1, 64, 600, None, HELLOS).unwrap();
    let first = connector.poll_transmit(Time::ZERO).unwrap().unwrap();
    let now = Time::ZERO + Duration::from_ms(2_000);
    while connector.poll_timeout() < now {
        connector.poll_transmit(connector.poll_timeout()).unwrap();
    }
    let Accepted::Reply(Some(answer)) = acceptor(options()).handle(now, None, address(), &first) else {
        panic!("no answer to a Hello")
    };
    assert!(connector.handle(now, &answer).unwrap().is_some());
}

#[test]
fn hello_flood_uses_bounded_memory_and_displaces_no_session() {
    let mut acceptor = acceptor(options());
    let served = open(&mut acceptor, Time::ZERO, address(), 1).unwrap();
    for port in 6000..=u16::MAX {
        let from = SocketAddr::from(([127, 0, 0, 3], port));
        let mut connector = Connector::new(Time::ZERO, u64::from(port), 64, 600, None, HELLOS).unwrap();
        let hello = connector.poll_transmit(Time::ZERO).unwrap().unwrap();
        assert!(matches!(acceptor.handle(Time::ZERO, None, from, &hello), Accepted::Reply(Some(_))));
    }
    assert_eq!(acceptor.counters().abandoned, u64::from(u16::MAX - 6000) + 1 - MAX_OPENING as u64);
    assert_eq!(acceptor.len(), 1);
    let index = acceptor.find(address()).unwrap();
    assert_eq!(acceptor.session(index).unwrap().1.id(), served.id());
}

#[test]
fn number_of_resets_is_limited() {
    let mut acceptor = acceptor(options());
    let mut resets = 0;
    for port in 1..2000 {
        let from = SocketAddr::from(([127, 0, 0, 3], port));
        let accepted = acceptor.handle(Time::ZERO, None, from, &[0; 18]);
        resets += u64::from(matches!(accepted, Accepted::Reply(Some(_))));
    }
    assert_eq!((resets, acceptor.counters().resets, acceptor.counters().strays), (100, 100, 1999));
}

#[test]
fn sender_and_receiver_use_bounded_memory() {
    let mut world = World::new(9, NONE, 1024, None, AcceptorOptions { window: 1024, ..options() });
    world.connect();
    let client = world.client.as_mut().unwrap();
    let mut accepted = 0;
    while client.send(400, |out| out.fill(1)).is_ok() {
        accepted += 1;
    }
    assert_eq!(accepted, RING_DATAGRAMS);
    assert_eq!(client.room(), 0);
    // All TLPs except the first arrive. The receiver keeps as many TLPs as the window, and not more.
    world.transmit();
    let lost = *world.network.under_way.keys().nth(1).unwrap();
    world.network.under_way.remove(&lost);
    let (mut most, mut steps) = ((0, 0), 0);
    while world.arrived[SERVER].len() < accepted {
        assert!(world.step());
        let held = world.server().map(|server| footprint(&server.receive)).unwrap_or_default();
        most = (most.0.max(held.0), most.1.max(held.1));
        steps += 1;
    }
    assert!(steps > 2 && (900..1024).contains(&most.0), "{most:?}");
    assert!(most.1 <= 1024 * 600, "{most:?}");
}

#[test]
fn receiver_acknowledges_at_once_unless_it_answers() {
    for answers in [false, true] {
        let mut world = World::new(10, NONE, 64, None, options());
        world.connect();
        exchange_from_client(&mut world, 1);
        // The first TLP is acknowledged together with the Confirm.
        world.transmit();
        let bytes = tlp(CLIENT, 1);
        world.client.as_mut().unwrap().send(bytes.len(), |out| out.copy_from_slice(&bytes)).unwrap();
        while world.arrived[SERVER].len() < 2 {
            assert!(world.step());
        }
        let server = world.server().unwrap();
        let before = server.counters().acks_sent;
        if answers {
            server.send(12, |out| out.fill(0)).unwrap();
        }
        server.prompt();
        world.transmit();
        let acks = world.server().unwrap().counters().acks_sent - before;
        assert_eq!(acks, u64::from(!answers));
    }
}

/// Returns the number of kept datagrams, and the capacity of all buffers in bytes.
fn footprint(receive: &super::receive::Receive) -> (usize, usize) {
    let bytes = receive.ahead.iter().chain(&receive.spare).map(Vec::capacity).sum();
    (receive.kept, bytes)
}
