// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures what a session costs in addition to the loopback's own datagrams, without TLP work on either side: rates, and
//! CPU time of both ends. One client thread, one adapter thread.
//!
//! ```text
//! cargo run --release -p riser-nettlp --example session_speed [SECONDS]
//! ```

use capture::encap::Origin;
use nix::poll::{PollFd, PollFlags, poll};
use nix::time::{ClockId, clock_gettime};
use riser_nettlp::adapter::Datagrams;
use riser_nettlp::auth::Key;
use riser_nettlp::carrier::{Carrier, Wait};
use riser_nettlp::net::{
    AdapterOptions, AdapterSockets, SessionCarrier, SessionConnectOptions, TaggedCarrier, TaggedOptions,
    ceiling,
};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tlp::Tag;

const ADAPTER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 11, 200, 1));
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 11, 200, 2));
/// An MRd of 3 DW.
const REQUEST: usize = 12;
const PATIENCE: Wait = Wait::AtMost(tlp::Duration::from_ms(1_000));

fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}

/// Result of a measurement.
struct Outcome {
    transfers: u64,
    elapsed: Duration,
    client_cpu: Duration,
    adapter_cpu: Duration,
    calls: u64,
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2.0);
    let span = Duration::from_secs_f64(seconds);
    let ps = tlp::Duration::from_ms(span.as_millis() as u64);
    let has = |word: &str| std::env::args().any(|argument| argument == word);
    for _ in 0..if has("rates") { 0 } else { 3 } {
        println!("latency of plain sockets: {:?}", plain_latency(span / 2));
        println!("latency of upstream's ports: {:?}", tagged_latency(span / 2));
        println!("latency of a session: {:?}", session_latency(span / 2, PATIENCE));
    }
    let busy = Wait::Busy(tlp::Duration::from_ms(1_000));
    println!("latency of a session, busy client: {:?}", session_latency(span / 2, busy));
    if has("latency") {
        return;
    }
    for bytes in [18, 274, 278, 534] {
        let found = ceiling(ADAPTER, bytes, ps).unwrap();
        println!(
            "ceiling, {bytes} B one way: {:.0} k/s batched, {:.0} k/s one by one",
            found.batched_per_s / 1e3,
            found.single_per_s / 1e3
        );
    }
    for (offload, key) in configurations() {
        let how = format!("offload {offload}, key {key}");
        for (answer, outstanding) in [(268, 1), (268, 16), (268, 256), (268, 512), (528, 256)] {
            let what = format!("{how}: {} B reads, {outstanding} outstanding", answer - 12);
            show(&what, &reads(span, offload, key, answer, outstanding));
        }
        show(&format!("{how}: 256 B writes"), &writes(span, offload, key));
    }
}

/// Sends one request at a time over plain sockets, with the system calls of LibTLP: send, poll, receive. The other end
/// receives and sends, and sleeps in poll between these calls. Returns median and 99th percentile.
fn plain_latency(span: Duration) -> (Duration, Duration) {
    let server = UdpSocket::bind((ADAPTER, 0)).unwrap();
    let client = UdpSocket::bind((CLIENT, 0)).unwrap();
    client.connect(server.local_addr().unwrap()).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let thread = std::thread::spawn(move || {
        let mut bytes = [0; 300];
        while !stopped.load(Ordering::Relaxed) {
            if readable(&server) {
                let (_, from) = server.recv_from(&mut bytes).unwrap();
                server.send_to(&bytes[..274], from).unwrap();
            }
        }
    });
    let mut times = Vec::new();
    let mut bytes = [0; 300];
    let start = Instant::now();
    while start.elapsed() < span {
        let begun = Instant::now();
        client.send(&bytes[..18]).unwrap();
        while !readable(&client) {}
        client.recv(&mut bytes).unwrap();
        times.push(begun.elapsed());
    }
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    percentiles(times)
}

fn readable(socket: &UdpSocket) -> bool {
    let mut polled = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    poll(&mut polled, 20u8).unwrap() > 0
}

fn percentiles(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() * 99 / 100])
}

/// Measures one request at a time in a session.
fn session_latency(span: Duration, wait: Wait) -> (Duration, Duration) {
    let mut found = None;
    with_adapter(true, false, 268, |mut carrier| {
        let (start, cpu_start) = (Instant::now(), cpu());
        let mut times = Vec::new();
        while start.elapsed() < span {
            let begun = Instant::now();
            carrier.send(Origin::Device, Tag::from_bits(0), REQUEST, request).unwrap();
            carrier.flush().unwrap();
            while carrier.receive(wait, |_| ()).unwrap() == 0 {}
            times.push(begun.elapsed());
        }
        let count = times.len() as u64;
        found = Some(percentiles(times));
        outcome(count, start, cpu_start, &carrier)
    });
    found.unwrap()
}

/// Measures one request at a time on upstream's ports, each under the next of 16 tags.
fn tagged_latency(span: Duration) -> (Duration, Duration) {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let mut sockets = AdapterSockets::bind(&AdapterOptions::new(ADAPTER)).unwrap();
    let thread = std::thread::spawn(move || serve(&mut sockets, 268, &stopped));
    let options = TaggedOptions { local: Some(CLIENT), ..TaggedOptions::new(ADAPTER, 0..=15) };
    let mut carrier = TaggedCarrier::connect(&options).unwrap();
    let (start, mut times) = (Instant::now(), Vec::new());
    while start.elapsed() < span {
        let begun = Instant::now();
        let tag = Tag::from_bits(times.len() as u16 % 16);
        carrier.send(Origin::Device, tag, REQUEST, request).unwrap();
        carrier.flush().unwrap();
        while carrier.receive(PATIENCE, |_| ()).unwrap() == 0 {}
        times.push(begun.elapsed());
    }
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    percentiles(times)
}

/// Returns the combinations to measure. Each tells whether offload is used, and whether the session is sealed.
fn configurations() -> Vec<(bool, bool)> {
    if std::env::args().any(|argument| argument == "offload") {
        return vec![(true, false)];
    }
    vec![(true, false), (false, false), (true, true)]
}

fn show(what: &str, outcome: &Outcome) {
    let each = |cpu: Duration| cpu.as_nanos() as f64 / outcome.transfers as f64;
    println!(
        "{what}: {:.0} k/s ({:.0} k/s if each end has its own core), CPU {:.0} ns at the client, {:.0} ns at the adapter, {:.2} us each, {:.2} calls each",
        outcome.transfers as f64 / outcome.elapsed.as_secs_f64() / 1e3,
        1e6 / each(outcome.client_cpu.max(outcome.adapter_cpu)),
        each(outcome.client_cpu),
        each(outcome.adapter_cpu),
        outcome.elapsed.as_micros() as f64 / outcome.transfers as f64,
        outcome.calls as f64 / outcome.transfers as f64,
    );
}

/// Runs an adapter that answers each TLP with `answer` bytes, or not at all. Returns its CPU time.
fn adapter(offload: bool, key: Option<Key>, answer: usize, stop: &AtomicBool) -> Duration {
    let options = AdapterOptions {
        tags: None,
        host: false,
        messaging: false,
        configuration: false,
        registers: false,
        offload,
        key,
        ..AdapterOptions::new(ADAPTER)
    };
    let mut sockets = AdapterSockets::bind(&options).unwrap();
    serve(&mut sockets, answer, stop)
}

/// Answers until `stop` is set. Returns the CPU time.
fn serve(sockets: &mut AdapterSockets, answer: usize, stop: &AtomicBool) -> Duration {
    let begun = cpu();
    while !stop.load(Ordering::Relaxed) {
        let polled = sockets.poll(Wait::AtMost(tlp::Duration::from_ms(20)), |out, port, from, bytes| {
            answer == 0
                || Datagrams::send(out, port, from, 6 + answer, &mut |out| {
                    out[6] = 0x4a;
                    out[7..].fill(bytes[7]);
                }) == Ok(())
        });
        polled.unwrap();
        sockets.flush().unwrap();
    }
    cpu() - begun
}

fn with_adapter(
    offload: bool,
    key: bool,
    answer: usize,
    client: impl FnOnce(SessionCarrier) -> Outcome,
) -> Outcome {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let key = key.then(|| Key::new([1; 32]));
    let adapters = key.clone();
    let thread = std::thread::spawn(move || adapter(offload, adapters, answer, &stopped));
    let options = SessionConnectOptions { offload, key, ..SessionConnectOptions::new(ADAPTER, Some(CLIENT)) };
    let carrier = loop {
        // Retry until the adapter has opened its socket.
        if let Ok(carrier) = SessionCarrier::connect(&options) {
            break carrier;
        }
    };
    let mut outcome = client(carrier);
    stop.store(true, Ordering::Relaxed);
    outcome.adapter_cpu = thread.join().unwrap();
    outcome
}

fn reads(span: Duration, offload: bool, key: bool, answer: usize, outstanding: u64) -> Outcome {
    with_adapter(offload, key, answer, |mut carrier| {
        let (mut sent, mut got) = (0, 0);
        let (start, cpu_start) = (Instant::now(), cpu());
        while start.elapsed() < span {
            // Refill when a quarter is free, so that batches stay large.
            let free = got + outstanding - sent;
            let refill = if outstanding < 16 || free >= outstanding / 4 { free } else { 0 };
            for _ in 0..refill {
                carrier.send(Origin::Device, Tag::from_bits(0), REQUEST, request).unwrap();
            }
            sent += refill;
            carrier.flush().unwrap();
            got += carrier.receive(PATIENCE, |arrival| assert_eq!(arrival.tlp.len(), answer)).unwrap() as u64;
        }
        outcome(got, start, cpu_start, &carrier)
    })
}

fn writes(span: Duration, offload: bool, key: bool) -> Outcome {
    with_adapter(offload, key, 0, |mut carrier| {
        let mut sent = 0;
        let (start, cpu_start) = (Instant::now(), cpu());
        while start.elapsed() < span {
            let room = carrier.room().min(64);
            for _ in 0..room {
                carrier.send(Origin::Device, Tag::from_bits(0), 272, request).unwrap();
                sent += 1;
            }
            carrier.flush().unwrap();
            let wait = if room == 0 { PATIENCE } else { Wait::Never };
            // Acks do not count as received TLPs.
            carrier
                .receive(if room == 0 { Wait::AtMost(tlp::Duration::from_ms(1)) } else { wait }, |_| ())
                .unwrap();
        }
        while !carrier.is_idle() {
            carrier.receive(Wait::AtMost(tlp::Duration::from_ms(1)), |_| ()).unwrap();
        }
        outcome(sent, start, cpu_start, &carrier)
    })
}

fn request(out: &mut [u8]) {
    out.fill(0);
}

fn outcome(transfers: u64, start: Instant, cpu_start: Duration, carrier: &SessionCarrier) -> Outcome {
    let counters = carrier.socket_counters();
    eprintln!("  {:?} {:?}", carrier.counters(), counters);
    Outcome {
        transfers,
        elapsed: start.elapsed(),
        client_cpu: cpu() - cpu_start,
        adapter_cpu: Duration::ZERO,
        calls: counters.send_calls + counters.receive_calls,
    }
}
