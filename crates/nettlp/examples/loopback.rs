// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs an adapter with memory and one client, in one thread each, over this machine's loopback. Prints the rate,
//! and the CPU time of each side.
//!
//! `cargo run --release -p riser-nettlp --example loopback -- session read 256 64 5`: scheme (session, tagged, paper),
//! direction, bytes, outstanding requests, seconds.

use nix::time::{ClockId, clock_gettime};
use riser_nettlp::adapter::{Adapter, AdapterSettings, Function, MemoryBackend, Registers};
use riser_nettlp::allow::AllowList;
use riser_nettlp::carrier::Carrier;
use riser_nettlp::client::Client;
use riser_nettlp::completer::Image;
use riser_nettlp::net::{
    AdapterOptions, AdapterSockets, AnyCarrier, Clock, SessionCarrier, SessionConnectOptions, TaggedCarrier,
    TaggedOptions, ceiling, serve,
};
use riser_nettlp::requester::{Buffers, Done, RequesterSettings, Rest};
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tlp::{Bdf, Duration, Mps, Time};

const REGION: u64 = 4 << 20;
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 12, 60, 2));
const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 12, 60, 1));

/// A buffer for each outstanding request.
struct Slots(Vec<u8>, usize);

impl Buffers for Slots {
    fn place(&mut self, token: u64, offset: u64, len: usize) -> Option<&mut [u8]> {
        self.0.get_mut(token as usize * self.1 + offset as usize..)?.get_mut(..len)
    }

    fn data(&self, token: u64, offset: u64, len: usize) -> Option<&[u8]> {
        self.0.get(token as usize * self.1 + offset as usize..)?.get(..len)
    }
}

fn cpu_us() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.map_or(0.0, |time| time.tv_sec() as f64 * 1e6 + time.tv_nsec() as f64 / 1e3)
}

fn adapter(stop: &AtomicBool, ready: &AtomicBool) -> Result<f64, Box<dyn Error + Send + Sync>> {
    let id = Bdf::from_bits(0x1b00);
    let mut sockets = AdapterSockets::bind(&AdapterOptions::new(THERE))?;
    let function = Arc::new(Function::new(Registers::new(id))?);
    let backend = MemoryBackend::new(Arc::new(Image::zeroes(REGION)?), function, Mps::new(256)?);
    let allow = AllowList::new([format!("{HERE},all,rw").parse()?])?;
    let scheme = capture::encap::PortScheme::Tagged;
    let mut adapter = Adapter::new(AdapterSettings { allow, id, device: None, scheme }, backend);
    ready.store(true, Ordering::Release);
    serve(&mut sockets, &mut adapter, Clock::new(), false, |_, _, _| !stop.load(Ordering::Relaxed))?;
    Ok(cpu_us())
}

fn connect(scheme: &str) -> Result<AnyCarrier, Box<dyn Error + Send + Sync>> {
    let ports = if scheme == "paper" { 0..=15 } else { 0..=63 };
    let mut options = TaggedOptions { local: Some(HERE), ..TaggedOptions::new(THERE, ports) };
    match scheme {
        "session" => {
            let session = SessionCarrier::connect(&SessionConnectOptions::new(THERE, Some(HERE)))?;
            return Ok(AnyCarrier::Session(session));
        }
        "paper" => options.scheme = capture::encap::PortScheme::Paper,
        _ => {}
    }
    Ok(AnyCarrier::Tagged(TaggedCarrier::connect(&options)?))
}

/// Runs for `span`. Returns the number of completed requests, and the latency of each in ns.
fn work(
    client: &mut Client<impl Carrier>,
    is_write: bool,
    (len, at_once): (usize, usize),
    span: std::time::Duration,
) -> Result<Vec<u32>, Box<dyn Error + Send + Sync>> {
    let mut slots = Slots(vec![0; len * at_once], len);
    let mut free: Vec<u64> = (0..at_once as u64).collect();
    let (mut asked, mut took, mut next) = (vec![Time::ZERO; at_once], Vec::new(), 0);
    let begun = Instant::now();
    while begun.elapsed() < span || free.len() < at_once {
        let now = client.now();
        // Start a quarter of the requests at once, so that datagrams are sent and return in batches.
        let enough = free.len() >= at_once.div_ceil(4) && begun.elapsed() < span;
        while enough && let Some(slot) = free.pop() {
            match is_write {
                true => client.requester().write(next, len as u64, slot)?,
                false => client.requester().read(next, len as u64, slot)?,
            };
            asked[slot as usize] = now;
            next = (next + len as u64) % (REGION - len as u64);
        }
        client.turn(&mut slots, &mut (), Duration::from_ms(20))?;
        let now = client.now();
        while let Some(Done { token, result, .. }) = client.requester().poll_done() {
            result?;
            took.push((now.since(asked[token as usize]).as_ps() / 1000) as u32);
            free.push(token);
        }
    }
    client.settle(Duration::from_ms(5000))?;
    Ok(took)
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let get = |n: usize, or: &str| args.get(n).cloned().unwrap_or_else(|| or.to_owned());
    let (scheme, direction) = (get(0, "session"), get(1, "read"));
    let (len, at_once, seconds) = (get(2, "256").parse()?, get(3, "64").parse()?, get(4, "2").parse()?);
    let (stop, ready) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| adapter(&stop, &ready));
        while !ready.load(Ordering::Acquire) && !serving.is_finished() {
            std::thread::yield_now();
        }
        let worked = connect(&scheme).and_then(|carrier| {
            let settings = RequesterSettings::for_carrier(&carrier, Bdf::from_bits(0x1a00), Rest::LOOPBACK);
            let mut client = Client::new(carrier, settings);
            let (cpu, begun) = (cpu_us(), Instant::now());
            let took = work(&mut client, direction == "write", (len, at_once), seconds_of(seconds))?;
            Ok((
                took,
                cpu_us() - cpu,
                begun.elapsed().as_secs_f64(),
                *client.counters(),
                client.carrier().counters(),
            ))
        });
        stop.store(true, Ordering::Relaxed);
        let there = serving.join().map_err(|_| "the adapter's thread panicked")??;
        let (mut took, here, elapsed, counters, sockets) = worked?;
        took.sort_unstable();
        let (count, at) = (took.len() as f64, |share: f64| took[(took.len() as f64 * share) as usize]);
        println!("{scheme} {direction} {len} B, {at_once} outstanding: {:.0} k/s", count / elapsed / 1e3);
        println!("CPU: {:.2} us here, {:.2} us there, each", here / count, there / count);
        println!("latency: median {} ns, p99 {} ns", at(0.5), at(0.99));
        let ceiling = ceiling(HERE, len.min(256) + 18, Duration::from_ms(500))?;
        let (single, batched) = (ceiling.single_per_s / 1e3, ceiling.batched_per_s / 1e3);
        println!(
            "loopback alone, {} B: {single:.0} k/s one by one, {batched:.0} k/s batched",
            ceiling.datagram_bytes
        );
        println!("{counters:?}\n{sockets:?}");
        Ok(())
    })
}

fn seconds_of(seconds: f64) -> std::time::Duration {
    std::time::Duration::from_secs_f64(seconds)
}
