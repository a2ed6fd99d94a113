// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Like `lossy_path`, over real sockets: a client, a proxy that loses 1 %, duplicates 1 % and delays 5 % of all datagrams,
//! and an adapter whose memory is rewritten all the time. Loopback, 127.12.x.y.
//!
//! 10 million reads of each scheme: 1024 tags that rest for 100 ms allow at most 10,240 reads per second. So on two
//! cores with other load, each scheme with ports takes 19 minutes, and a session takes 7 to 11 minutes. `cargo
//! nextest run --release -p riser-nettlp --profile long --no-capture --run-ignored only lossy_sockets::`

use crate::common::proxy::{Between, Proxy};
use crate::common::rewritten::Rewritten;
use capture::encap::{PORT_DEVICE, PORT_SESSION, PortScheme};
use riser_nettlp::carrier::Carrier;
use riser_nettlp::client::Client;
use riser_nettlp::net::{SessionCarrier, SessionConnectOptions, TaggedCarrier, TaggedOptions};
use riser_nettlp::requester::{Buffers, Counters, RequesterSettings, Rest};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;
use tlp::{Bdf, Duration};

const LONGEST: u64 = 600;

/// Outstanding reads, with the versions that they may return.
struct Reads {
    slots: Vec<Slot>,
    free: Vec<u64>,
}

#[derive(Clone, Default)]
struct Slot {
    address: u64,
    data: Vec<u8>,
    oldest: [u32; 2],
}

impl Buffers for Reads {
    fn place(&mut self, token: u64, offset: u64, len: usize) -> Option<&mut [u8]> {
        self.slots[token as usize].data.get_mut(offset as usize..offset as usize + len)
    }

    fn data(&self, _: u64, _: u64, _: usize) -> Option<&[u8]> {
        None
    }
}

#[derive(Debug, Default)]
struct Outcome {
    reads: u64,
    failed: u64,
    wrong: u64,
    seconds: f64,
    counters: Counters,
}

/// Reads until `reads` have ended, or `enough` returns true.
fn run<C: Carrier>(
    client: &mut Client<C>,
    memory: &Rewritten,
    at_once: usize,
    reads: u64,
    enough: impl Fn(&Outcome) -> bool,
) -> Outcome {
    let begun_at = Instant::now();
    let (mut outcome, mut begun, mut dice) = (Outcome::default(), 0, 0x5eed_u64);
    let mut slots = Reads { slots: vec![Slot::default(); at_once], free: (0..at_once as u64).collect() };
    while outcome.reads < reads && !enough(&outcome) {
        while begun < reads
            && let Some(token) = slots.free.pop()
        {
            begin(client, memory, &mut slots.slots[token as usize], token, &mut dice);
            begun += 1;
        }
        client.turn(&mut slots, &mut (), Duration::from_ms(10)).unwrap();
        while let Some(done) = client.requester().poll_done() {
            let slot = &slots.slots[done.token as usize];
            outcome.reads += 1;
            outcome.failed += u64::from(done.result.is_err());
            let is_current = memory.is_current(slot.address, &slot.data, slot.oldest);
            outcome.wrong += u64::from(done.result.is_ok() && !is_current);
            slots.free.push(done.token);
        }
    }
    Outcome { seconds: begun_at.elapsed().as_secs_f64(), counters: *client.counters(), ..outcome }
}

// Three of four reads are like those of tlpperf, whose answers all have the same form. The others have any address
// and length.
fn begin<C: Carrier>(
    client: &mut Client<C>,
    memory: &Rewritten,
    slot: &mut Slot,
    token: u64,
    dice: &mut u64,
) {
    let mut roll = |sides: u64| {
        *dice ^= *dice << 13;
        *dice ^= *dice >> 7;
        *dice ^= *dice << 17;
        (*dice >> 16) % sides
    };
    let (address, len) = match roll(4) {
        0 => (roll(Rewritten::BYTES - LONGEST), 1 + roll(LONGEST)),
        _ => (roll(Rewritten::BYTES / 256) * 256, 256),
    };
    slot.address = address;
    slot.data.clear();
    slot.data.resize(len as usize, 0);
    slot.oldest = memory.oldest(address, len as usize);
    client.requester().read(address, len, token).unwrap();
}

/// Returns the addresses of the client, of the proxy toward it and toward the adapter, and of the adapter.
fn addresses(test: u8) -> [IpAddr; 4] {
    [1, 2, 3, 4].map(|host| Ipv4Addr::new(127, 12, test, host).into())
}

/// Rest times and timeout. They are far longer than the proxy's delay, since threads may also wait for a core.
struct Patience {
    rest: Rest,
    timeout: Duration,
}

impl Patience {
    const fn of(ms: u64) -> Patience {
        let span = Duration::from_ms(ms);
        Patience { rest: Rest { lost: span, duplicate: span }, timeout: span }
    }
}

fn settings(tags: u16, patience: &Patience) -> RequesterSettings {
    let settings = RequesterSettings::unreliable(Bdf::from_bits(0x1a00), 0..=tags - 1, patience.rest);
    RequesterSettings { timeout: patience.timeout, retries: 20, ..settings }
}

fn tagged(
    test: u8,
    scheme: PortScheme,
    tags: u16,
    patience: &Patience,
    reads: u64,
    enough: impl Fn(&Outcome) -> bool,
) -> Outcome {
    let [here, front, back, there] = addresses(test);
    let memory = Rewritten::start(there, back, tags - 1);
    let last = if scheme == PortScheme::Paper { tags.min(16) } else { tags } - 1;
    let ports = (0..=last).map(|tag| PORT_DEVICE + tag).collect();
    let proxy = Proxy::start(&Between { front, back, adapter: there, ports, same_port: true }, 42);
    let options = TaggedOptions { local: Some(here), scheme, ..TaggedOptions::new(front, 0..=tags - 1) };
    let carrier = TaggedCarrier::connect(&options).unwrap();
    let mut client = Client::new(carrier, settings(tags, patience));
    let outcome = run(&mut client, &memory, usize::from(tags), reads, enough);
    println!("{outcome:?}, {:.0} reads/s\n{:?}", outcome.reads as f64 / outcome.seconds, proxy.stop());
    outcome
}

fn check(outcome: &Outcome) {
    assert_eq!((outcome.wrong, outcome.failed), (0, 0), "{outcome:?}");
}

// Duplicated, lost and delayed datagrams must have occurred.
fn check_faults(outcome: &Outcome) {
    let counters = &outcome.counters;
    assert!(counters.retried > 0 && counters.copies + counters.strays.total() > 0, "{counters:?}");
}

#[test]
fn reads_return_current_data_with_a_port_per_tag() {
    let outcome = tagged(1, PortScheme::Tagged, 128, &Patience::of(100), 4000, |_| false);
    check(&outcome);
    check_faults(&outcome);
}

#[test]
fn reads_return_current_data_in_the_papers_scheme() {
    let outcome = tagged(2, PortScheme::Paper, 256, &Patience::of(100), 6000, |_| false);
    check(&outcome);
    check_faults(&outcome);
}

#[test]
fn late_completions_give_wrong_data_without_rest() {
    let patience = Patience { rest: Rest::OFF, timeout: Duration::from_ms(100) };
    let outcome = tagged(3, PortScheme::Tagged, 4, &patience, 1_000_000, |so_far| so_far.wrong > 0);
    assert!(outcome.wrong > 0, "nothing was wrong although no tag rests: {outcome:?}");
}

#[test]
#[ignore = "10 million reads: run with --release -- --ignored --nocapture --test-threads 1"]
fn ten_million_reads_return_current_data_with_a_port_per_tag() {
    check(&tagged(11, PortScheme::Tagged, 1024, &Patience::of(100), 10_000_000, |_| false));
}

#[test]
#[ignore = "10 million reads: run with --release -- --ignored --nocapture --test-threads 1"]
fn ten_million_reads_return_current_data_in_the_papers_scheme() {
    check(&tagged(12, PortScheme::Paper, 1024, &Patience::of(100), 10_000_000, |_| false));
}

fn session(test: u8, reads: u64) {
    let [here, front, back, there] = addresses(test);
    let memory = Rewritten::start(there, back, 0);
    let ports = vec![PORT_SESSION];
    let proxy = Proxy::start(&Between { front, back, adapter: there, ports, same_port: false }, 42);
    let carrier = SessionCarrier::connect(&SessionConnectOptions::new(front, Some(here))).unwrap();
    let settings = RequesterSettings::for_carrier(&carrier, Bdf::from_bits(0x1a00), Rest::OFF);
    let mut client = Client::new(carrier, settings);
    let outcome = run(&mut client, &memory, 256, reads, |_| false);
    println!("{outcome:?}, {:.0} reads/s\n{:?}", outcome.reads as f64 / outcome.seconds, proxy.stop());
    check(&outcome);
    assert_eq!(outcome.counters.retried + outcome.counters.strays.total(), 0, "{outcome:?}");
}

#[test]
#[ignore = "of .ci/long sockets"]
fn reads_return_current_data_in_a_session() {
    session(4, 5_000);
}

#[test]
#[ignore = "10 million reads: run with --release -- --ignored --nocapture --test-threads 1"]
fn ten_million_reads_return_current_data_in_a_session() {
    session(14, 10_000_000);
}
