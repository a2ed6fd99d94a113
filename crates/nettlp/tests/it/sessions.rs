// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sessions over real sockets: 127.11.x.y and ::1.

use capture::encap::{NETTLP_LEN, Origin, PORT_SESSION};
use riser_nettlp::auth::Key;
use riser_nettlp::carrier::{Arrival, Carrier, SendError, Wait};
use riser_nettlp::net::{
    AdapterOptions, AdapterSockets, AnyCarrier, ConnectOptions, OpenError, SessionCarrier,
    SessionConnectOptions, TaggedOptions, connect,
};
use riser_nettlp::stream::AcceptorCounters;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;
use tlp::{Duration, Tag};

const PATIENCE: Wait = Wait::AtMost(Duration::from_ms(5_000));

fn ip(x: u8, y: u8) -> IpAddr {
    Ipv4Addr::new(127, 11, x, y).into()
}

fn only_sessions(address: IpAddr) -> AdapterOptions {
    AdapterOptions {
        tags: None,
        host: false,
        messaging: false,
        configuration: false,
        registers: false,
        ..AdapterOptions::new(address)
    }
}

/// An adapter on its own thread that returns received TLPs.
struct Echo {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<AcceptorCounters>>,
}

impl Echo {
    fn start(options: &AdapterOptions) -> Echo {
        Echo::start_after(options, std::time::Duration::ZERO)
    }

    /// Opens the sockets at once, and polls them for the first time after `pause`.
    fn start_after(options: &AdapterOptions, pause: std::time::Duration) -> Echo {
        let mut sockets = AdapterSockets::bind(options).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            std::thread::sleep(pause);
            let mut end = None;
            loop {
                // A carrier that was dropped before the stop has sent its last datagram. It may arrive late on a
                // busy machine.
                if end.is_none() && stopped.load(Ordering::Relaxed) {
                    end = Some(Instant::now() + std::time::Duration::from_millis(500));
                }
                let wait = Wait::AtMost(Duration::from_ms(10));
                sockets
                    .poll(wait, |out, port, from, bytes| match out.send(port, from, bytes) {
                        Ok(()) => true,
                        Err(SendError::NoRoom) => false,
                        Err(error) => panic!("{error}"),
                    })
                    .unwrap();
                sockets.flush().unwrap();
                let counters = sockets.session_counters();
                let none_left = counters.opened == counters.closed + counters.failed + counters.displaced;
                if end.is_some_and(|end| none_left || Instant::now() > end) {
                    return counters;
                }
            }
        });
        Echo { stop, thread: Some(thread) }
    }

    fn stop(mut self) -> AcceptorCounters {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Writes TLP number `index`, which is a completion. All TLPs are different, and they have many lengths.
fn tlp(index: usize, out: &mut [u8]) {
    out.fill(index as u8);
    out[0] = 0x4a;
    out[4..8].copy_from_slice(&(index as u32).to_be_bytes());
}

fn len(index: usize) -> usize {
    12 + if index % 100 < 90 { 256 } else { index % 100 * 40 }
}

/// Sends `count` TLPs, as many at a time as there is room for, and checks the returned ones.
fn exchange(carrier: &mut impl Carrier, count: usize) {
    let (mut sent, mut got) = (0, 0);
    while got < count {
        while sent < count && sent < got + 3000 {
            match carrier.send(Origin::Device, Tag::from_bits(0), len(sent), |out| tlp(sent, out)) {
                Ok(()) => sent += 1,
                Err(SendError::NoRoom) => break,
                Err(error) => panic!("{error}"),
            }
        }
        carrier.flush().unwrap();
        let mut wanted = vec![0; 4096 + 12];
        // The wait also ends when there is room again.
        let was_full = carrier.room() == 0;
        let count = carrier.receive(PATIENCE, |arrival: Arrival<'_>| {
            let wanted = &mut wanted[..len(got)];
            tlp(got, wanted);
            assert_eq!((arrival.origin, arrival.tlp), (Origin::Device, &*wanted), "TLP {got}");
            got += 1;
        });
        assert!(count.unwrap() > 0 || was_full && carrier.room() > 0, "nothing came, {got} of {sent}");
    }
}

#[test]
fn tlps_are_echoed_with_and_without_offload_and_sealing() {
    let key = Key::new([9; 32]);
    for (index, (offload, key)) in
        [(true, None), (false, None), (true, Some(&key)), (false, Some(&key))].into_iter().enumerate()
    {
        let server = ip(10, index as u8);
        let echo = Echo::start(&AdapterOptions { offload, key: key.cloned(), ..only_sessions(server) });
        let options = SessionConnectOptions {
            offload,
            key: key.cloned(),
            ..SessionConnectOptions::new(server, Some(ip(11, index as u8)))
        };
        let mut carrier = SessionCarrier::connect(&options).unwrap();
        exchange(&mut carrier, 20_000);
        let (sockets, session) = (carrier.socket_counters(), carrier.counters());
        assert_eq!((session.received_tlps, session.sent_tlps), (20_000, 20_000));
        assert!(!offload || sockets.send_calls < sockets.sent_datagrams / 2, "{sockets:?}");
        drop(carrier);
        let counters = echo.stop();
        assert_eq!((counters.opened, counters.sessions.received_tlps), (1, 20_000));
        assert_eq!(counters.sessions.malformed + counters.sessions.unauthentic, 0);
    }
}

#[test]
fn session_works_over_ipv6() {
    let localhost: IpAddr = Ipv6Addr::LOCALHOST.into();
    // All tests of this machine share the session port of ::1; the test that has the port serves sessions.
    let echo = match AdapterSockets::bind(&only_sessions(localhost)) {
        Ok(sockets) => {
            drop(sockets);
            Echo::start(&only_sessions(localhost))
        }
        Err(error) => panic!("{error}"),
    };
    let mut carrier = SessionCarrier::connect(&SessionConnectOptions::new(localhost, None)).unwrap();
    exchange(&mut carrier, 5_000);
    drop(carrier);
    assert_eq!(echo.stop().sessions.received_tlps, 5_000);
}

#[test]
fn several_sessions_from_one_address_do_not_mix() {
    let echo = Echo::start(&only_sessions(ip(12, 1)));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(|| {
                let options = SessionConnectOptions::new(ip(12, 1), Some(ip(12, 2)));
                exchange(&mut SessionCarrier::connect(&options).unwrap(), 5_000);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let counters = echo.stop();
    assert_eq!((counters.opened, counters.sessions.received_tlps), (4, 20_000));
}

#[test]
fn falls_back_to_upstream_ports_without_a_session_port() {
    let adapter = AdapterOptions { sessions: false, ..AdapterOptions::new(ip(13, 1)) };
    let echo = Echo::start(&adapter);
    let tagged = TaggedOptions { local: Some(ip(13, 2)), ..TaggedOptions::new(ip(13, 1), 0..=3) };
    let options = ConnectOptions::new(tagged);
    let carrier = connect(&options).unwrap();
    assert!(matches!(carrier, AnyCarrier::Tagged(_)));
    assert!(!carrier.is_reliable());
    drop(carrier);
    // The client also falls back if the port is open, but silent.
    let _silent = UdpSocket::bind((ip(13, 1), PORT_SESSION)).unwrap();
    assert!(matches!(connect(&options).unwrap(), AnyCarrier::Tagged(_)));
    let error = SessionCarrier::connect(&SessionConnectOptions::new(ip(13, 1), None)).unwrap_err();
    assert!(matches!(error, OpenError::NoSession(_)), "{error}");
    drop(echo);
}

#[test]
fn connects_to_an_open_session_port() {
    let echo = Echo::start(&AdapterOptions::new(ip(14, 1)));
    let tagged = TaggedOptions { local: Some(ip(14, 2)), ..TaggedOptions::new(ip(14, 1), 0..=3) };
    let mut carrier = connect(&ConnectOptions::new(tagged)).unwrap();
    assert!(matches!(carrier, AnyCarrier::Session(_)));
    exchange(&mut carrier, 1000);
    drop(carrier);
    assert_eq!(echo.stop().closed, 1);
}

#[test]
fn session_opens_if_adapter_answers_after_a_second() {
    let key = Some(Key::new([7; 32]));
    let options = AdapterOptions { key: key.clone(), ..only_sessions(ip(34, 1)) };
    let echo = Echo::start_after(&options, std::time::Duration::from_secs(1));
    let session = SessionConnectOptions { key, ..SessionConnectOptions::new(ip(34, 1), Some(ip(34, 2))) };
    exchange(&mut SessionCarrier::connect(&session).unwrap(), 10);
    assert_eq!(echo.stop().opened, 1);
}

/// An acknowledgement ends the wait of a dropped carrier. Otherwise each drop would take 100 ms, much longer than
/// all drops together need.
#[test]
fn dropped_carrier_waits_until_all_is_acknowledged() {
    let (here, there) = (ip(33, 2), ip(33, 1));
    let echo = Echo::start(&only_sessions(there));
    let mut drops = [(); 20].map(|()| {
        let mut carrier = SessionCarrier::connect(&SessionConnectOptions::new(there, Some(here))).unwrap();
        exchange(&mut carrier, 1);
        let start = Instant::now();
        drop(carrier);
        start.elapsed()
    });
    // The median is used, since a busy machine delays some drops.
    drops.sort();
    assert!(drops[10] < std::time::Duration::from_millis(100), "{drops:?}");
    assert_eq!(echo.stop().closed, 20);
}

#[test]
fn client_with_a_key_never_falls_back() {
    let key = Some(Key::new([1; 32]));
    let tagged = TaggedOptions { local: Some(ip(15, 2)), ..TaggedOptions::new(ip(15, 1), 0..=3) };
    let session = SessionConnectOptions { key, ..SessionConnectOptions::new(ip(15, 1), Some(ip(15, 2))) };
    let options = ConnectOptions { tagged, session: Some(session.clone()) };
    let rows = [
        (AdapterOptions { sessions: false, ..AdapterOptions::new(ip(15, 1)) }, "does not answer"),
        (AdapterOptions::new(ip(15, 1)), "it has no pre-shared key"),
        (
            AdapterOptions { key: Some(Key::new([2; 32])), ..AdapterOptions::new(ip(15, 1)) },
            "the pre-shared keys differ",
        ),
    ];
    for (adapter, says) in rows {
        let echo = Echo::start(&adapter);
        let error = connect(&options).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        echo.stop();
    }
}

#[test]
fn restarted_adapter_resets_its_peers() {
    let options = only_sessions(ip(16, 1));
    let echo = Echo::start(&options);
    let mut carrier =
        SessionCarrier::connect(&SessionConnectOptions::new(ip(16, 1), Some(ip(16, 2)))).unwrap();
    exchange(&mut carrier, 10);
    echo.stop();
    let _echo = Echo::start(&options);
    carrier.send(Origin::Device, Tag::from_bits(0), 12, |out| out.fill(0)).unwrap();
    // The port may have been closed when the first datagram arrived.
    let error = loop {
        let ended = carrier.flush().and_then(|()| carrier.receive(PATIENCE, |_| ()));
        match ended {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => break error,
            Ok(count) => assert_eq!(count, 0),
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(error.to_string(), "the peer has no such session any more");
}

#[test]
fn absent_peer_gives_connection_refused() {
    let echo = Echo::start(&only_sessions(ip(17, 1)));
    let mut carrier =
        SessionCarrier::connect(&SessionConnectOptions::new(ip(17, 1), Some(ip(17, 2)))).unwrap();
    exchange(&mut carrier, 10);
    echo.stop();
    carrier.send(Origin::Device, Tag::from_bits(0), 12, |out| out.fill(0)).unwrap();
    let ended = carrier.flush().and_then(|()| carrier.receive(PATIENCE, |_| ()));
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn rejected_tlps_are_offered_again_without_new_credits() {
    let mut sockets =
        AdapterSockets::bind(&AdapterOptions { window: Some(8), ..only_sessions(ip(18, 1)) }).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let client = std::thread::spawn(move || {
        let mut carrier =
            SessionCarrier::connect(&SessionConnectOptions::new(ip(18, 1), Some(ip(18, 2)))).unwrap();
        for index in 0..100 {
            carrier.send(Origin::Device, Tag::from_bits(0), 18, |out| tlp(index, out)).unwrap();
        }
        while !stopped.load(Ordering::Relaxed) || !carrier.is_idle() {
            carrier.flush().unwrap();
            carrier.receive(Wait::AtMost(Duration::from_ms(5)), |_| ()).unwrap();
        }
    });
    let mut offered = 0;
    // All TLPs are rejected. The first TLP is offered again and again, and the later TLPs are never offered.
    while offered < 200 {
        sockets
            .poll(Wait::AtMost(Duration::from_ms(1)), |_, _, _, bytes| {
                assert_eq!(bytes[NETTLP_LEN + 7], 0);
                offered += 1;
                false
            })
            .unwrap();
        sockets.flush().unwrap();
    }
    assert!(sockets.session_counters().sessions.received_tlps <= 8);
    let mut next = 0;
    while next < 100 {
        let mut one = true;
        sockets
            .poll(Wait::AtMost(Duration::from_ms(1)), |_, _, _, bytes| {
                assert_eq!(usize::from(bytes[NETTLP_LEN + 7]), next);
                next += usize::from(one);
                std::mem::replace(&mut one, false)
            })
            .unwrap();
        sockets.flush().unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    while !client.is_finished() {
        sockets.poll(Wait::AtMost(Duration::from_ms(1)), |_, _, _, _| unreachable!()).unwrap();
        sockets.flush().unwrap();
    }
    client.join().unwrap();
    let counters = sockets.session_counters().sessions;
    assert_eq!((counters.received_tlps, counters.beyond_credits), (100, 0));
}

#[test]
fn kernel_drops_datagrams_of_strangers_without_cost_to_peers() {
    let peers = vec!["127.11.19.0/30".parse().unwrap()];
    let mut sockets =
        AdapterSockets::bind(&AdapterOptions { peers, ..AdapterOptions::new(ip(19, 1)) }).unwrap();
    let stranger = UdpSocket::bind((ip(19, 9), 0)).unwrap();
    for port in [PORT_SESSION, 0x3000, 0x4000, 0x5001] {
        for _ in 0..1000 {
            stranger.send_to(&[0; 64], (ip(19, 1), port)).unwrap();
        }
    }
    let peer = UdpSocket::bind((ip(19, 2), 0)).unwrap();
    peer.send_to(&[7; 64], (ip(19, 1), 0x3000)).unwrap();
    let mut got = Vec::new();
    let count = sockets
        .poll(PATIENCE, |_, port, from, bytes| {
            got.push((port, from.ip(), bytes.len()));
            true
        })
        .unwrap();
    assert_eq!((count, got), (1, vec![(0x3000, ip(19, 2), 64)]));
    assert_eq!(sockets.poll(Wait::Never, |_, _, _, _| true).unwrap(), 0);
    assert_eq!(sockets.overflowed(), 1000, "those on the port of which a datagram was received later");
}

#[test]
fn kernel_drops_ipv6_datagrams_of_strangers() {
    let localhost: IpAddr = Ipv6Addr::LOCALHOST.into();
    for (peer, comes) in [("::1/128", 1), ("::1/127", 1), ("fd00::/8", 0)] {
        let options = AdapterOptions {
            tags: Some(0x3f8..=0x3f8),
            peers: vec![peer.parse().unwrap()],
            sessions: false,
            ..only_sessions(localhost)
        };
        let mut sockets = AdapterSockets::bind(&options).unwrap();
        let sender = UdpSocket::bind((localhost, 0)).unwrap();
        sender.send_to(&[1; 18], (localhost, 0x33f8)).unwrap();
        // Over the loopback, sent datagrams arrive at once.
        assert_eq!(sockets.poll(Wait::Never, |_, _, _, _| true).unwrap(), comes, "{peer}");
    }
}

#[test]
fn datagrams_dropped_for_lack_of_buffer_space_are_counted() {
    let mut sockets = AdapterSockets::bind(&AdapterOptions::new(ip(20, 1))).unwrap();
    let sender = UdpSocket::bind((ip(20, 2), 0)).unwrap();
    let sent = 40_000u64;
    for _ in 0..sent {
        sender.send_to(&[0; 256], (ip(20, 1), 0x3001)).unwrap();
    }
    let mut received = 0;
    loop {
        let count = sockets.poll(Wait::Never, |_, _, _, _| true).unwrap();
        if count == 0 {
            break;
        }
        received += count as u64;
    }
    // The count is reported with a datagram received after the drop.
    sender.send_to(&[0; 256], (ip(20, 1), 0x3001)).unwrap();
    for _ in 0..70 {
        sender.send_to(&[0; 256], (ip(20, 1), 0x3001)).unwrap();
        received += sockets.poll(PATIENCE, |_, _, _, _| true).unwrap() as u64;
    }
    assert!(sockets.overflowed() > 0);
    assert_eq!(received + sockets.overflowed(), sent + 71);
}

/// A peer that keeps many sessions without transferring TLPs leaves places for others. A key is required, so there
/// is no fallback to ports.
#[test]
fn peer_with_many_idle_sessions_does_not_lock_others_out() {
    let (there, greedy, other) = (ip(60, 1), ip(60, 2), ip(60, 3));
    let key = Key::from_hex(&"07".repeat(32)).unwrap();
    let adapter = Echo::start(&AdapterOptions { key: Some(key.clone()), ..only_sessions(there) });
    let open = |local| {
        let options = SessionConnectOptions::new(there, Some(local));
        SessionCarrier::connect(&SessionConnectOptions { key: Some(key.clone()), ..options })
    };
    let (mut idle, mut refused) = (Vec::new(), 0);
    // The number is low, so that a busy machine finishes before idle sessions are displaced.
    for _ in 0..20 {
        match open(greedy) {
            Ok(mut carrier) => {
                exchange(&mut carrier, 1);
                idle.push(carrier);
            }
            Err(OpenError::Refused { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((idle.len(), refused), (16, 4));
    exchange(&mut open(other).unwrap(), 100);
    drop(idle);
    // If a busy machine answers a Hello late, the Hello is sent and refused again.
    assert!(adapter.stop().refused >= 4);
}
