// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the speed of reads over upstream's ports, one at a time for each tag, between riser and the simplest
//! possible programs. These are a server and a client with one thread per tag, and each thread blocks on one
//! socket. Prints all results.
//!
//! ```sh
//! cargo run --release -p riser-nettlp --example ports_speed                # 1, 2, 4, 8 and 16 tags
//! cargo run --release -p riser-nettlp --example ports_speed -- 9 300       # rounds, ms of each
//! cargo run --release -p riser-nettlp --example ports_speed -- 9 300 8     # tags
//! ```
//!
//! Each round runs all pairs, one after the other. The server of each pair is a separate process. Changes of the
//! machine's speed affect all pairs equally.

use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use riser_nettlp::adapter::{AdapterSettings, Function, Registers};
use riser_nettlp::allow::AllowList;
use riser_nettlp::client::Client;
use riser_nettlp::completer::Image;
use riser_nettlp::net::{AdapterOptions, TaggedCarrier, TaggedOptions, default_threads, stay_on_core};
use riser_nettlp::requester::{self, Nowhere, Rest};
use riser_nettlp::tools::{MemoryServer, ServedMemory};
use std::io::{self, BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::ops::RangeInclusive;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tlp::{Bdf, Mps, Rcb};

const HERE: Ipv4Addr = Ipv4Addr::new(127, 61, 77, 2);
const THERE: Ipv4Addr = Ipv4Addr::new(127, 61, 77, 1);
const MEMORY: u64 = 1 << 20;
const TAGS: [u16; 5] = [1, 2, 4, 8, 16];
/// Bytes of each read.
const READ: usize = 256;
/// NetTLP header, header of a read, header of a completion.
const NETTLP: usize = 6;
const REQUEST: usize = NETTLP + 12;
const COMPLETION: usize = NETTLP + 12;

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |text: &str| text.parse::<usize>().map_err(io::Error::other);
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", "riser", _] => serve_adapter(),
        ["serve", "naive", tags] => serve_responder(number(tags)? as u16),
        [] => compare(9, 300, &TAGS),
        [rounds, ms] => compare(number(rounds)?, number(ms)? as u64, &TAGS),
        [rounds, ms, tags] => compare(number(rounds)?, number(ms)? as u64, &[number(tags)? as u16]),
        _ => Err(io::Error::other("invalid arguments; expected none, or ROUNDS MS [TAGS]")),
    }
}

/// Prints that it is ready, and waits for the end of standard input.
fn until_end() {
    println!("ready");
    let _ = io::stdin().read_to_end(&mut Vec::new());
}

/// Serves memory as `riser nettlp adapter --memory` does by default.
fn serve_adapter() -> io::Result<()> {
    let id = Bdf::from_bits(0x1b00);
    let rule = format!("{HERE},all,rw").parse().map_err(io::Error::other)?;
    let allow = AllowList::new([rule]).map_err(io::Error::other)?;
    let memory = ServedMemory {
        options: AdapterOptions::new(THERE.into()),
        settings: AdapterSettings { allow, id, device: None, scheme: capture::encap::PortScheme::Tagged },
        image: Arc::new(Image::zeroes(MEMORY)?),
        function: Arc::new(Function::new(Registers::new(id)).map_err(io::Error::other)?),
        mps: Mps::new(1024).map_err(io::Error::other)?,
        rcb: Rcb::default(),
        busy: false,
    };
    let server = MemoryServer::start(&memory, default_threads()).map_err(io::Error::other)?;
    until_end();
    server.stop().map(drop)
}

/// Opens a socket as upstream's programs do: bound and connected to one port.
fn port(local: Ipv4Addr, remote: Ipv4Addr, tag: u16) -> io::Result<UdpSocket> {
    let port = 0x3000 + tag;
    let socket = UdpSocket::bind((IpAddr::from(local), port))?;
    socket.connect((IpAddr::from(remote), port))?;
    Ok(socket)
}

fn serve_responder(tags: u16) -> io::Result<()> {
    let memory = Arc::new(vec![0_u8; MEMORY as usize]);
    for tag in 0..tags {
        let (socket, memory) = (port(THERE, HERE, tag)?, Arc::clone(&memory));
        thread::spawn(move || {
            let mut request = [0; 64];
            loop {
                if let Ok(REQUEST) = socket.recv(&mut request) {
                    let _ = socket.send(&answer(&request, &memory));
                }
            }
        });
    }
    until_end();
    Ok(())
}

/// Returns the completion of a read of `READ` bytes.
fn answer(request: &[u8], memory: &[u8]) -> [u8; COMPLETION + READ] {
    let mut out = [0; COMPLETION + READ];
    let at = u32::from_be_bytes([request[14], request[15], request[16], request[17]]) as usize;
    out[6] = 0x4a;
    out[8..10].copy_from_slice(&request[8..10]);
    out[10] = 0x1b;
    out[12..14].copy_from_slice(&(READ as u16).to_be_bytes());
    out[14..17].copy_from_slice(&request[10..13]);
    out[17] = request[17] & 0x7f;
    out[COMPLETION..].copy_from_slice(&memory[at..at + READ]);
    out
}

/// Runs one client like upstream's. Returns its number of reads.
fn thread_client(tag: u16, until: Instant) -> io::Result<u64> {
    let socket = port(HERE, THERE, tag)?;
    socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    let (mut reads, mut answer) = (0, [0; 2048]);
    while Instant::now() < until {
        let mut request = [0; REQUEST];
        request[9] = (READ / 4) as u8;
        request[10] = 0x1a;
        (request[12], request[13]) = (tag as u8, 0xff);
        request[14..18].copy_from_slice(&((reads as u32 * READ as u32) % (MEMORY as u32)).to_be_bytes());
        socket.send(&request)?;
        let len = socket.recv(&mut answer)?;
        assert_eq!((len, answer[6], answer[16]), (COMPLETION + READ, 0x4a, tag as u8));
        reads += 1;
    }
    Ok(reads)
}

/// Runs a client of riser with as many outstanding reads as it has tags. Returns its number of reads.
fn riser_client(tags: RangeInclusive<u16>, until: Instant) -> io::Result<u64> {
    let under_way = tags.len() as u64;
    let options = TaggedOptions { local: Some(HERE.into()), ..TaggedOptions::new(THERE.into(), tags) };
    let carrier = TaggedCarrier::connect(&options).map_err(io::Error::other)?;
    let settings =
        requester::RequesterSettings::for_carrier(&carrier, Bdf::from_bits(0x1a00), Rest::LOOPBACK);
    let mut client = Client::new(carrier, settings);
    let (mut asked, mut reads) = (0, 0);
    let mut is_over = false;
    while !is_over || asked > reads {
        while !is_over && asked - reads < under_way {
            let address = asked * READ as u64 % MEMORY;
            client.requester().read(address, READ as u64, asked).map_err(io::Error::other)?;
            asked += 1;
        }
        client.turn(&mut Nowhere, &mut (), tlp::Duration::from_ms(500)).map_err(io::Error::other)?;
        while let Some(done) = client.requester().poll_done() {
            done.result.map_err(io::Error::other)?;
            reads += 1;
        }
        is_over = Instant::now() >= until;
    }
    assert_eq!(client.counters().timed_out, 0);
    Ok(reads)
}

/// Reads until `until` with clients of this kind, and returns the number of reads. The simple clients use one
/// thread per tag. The clients of riser use one thread per core.
fn read_with(client: &str, tags: u16, until: Instant) -> io::Result<u64> {
    let count = if client == "riser" { default_threads().min(tags) } else { tags };
    let first = move |thread: u16| thread * tags / count;
    let threads: Vec<_> = (0..count)
        .map(|thread| match client {
            "riser" => thread::spawn(move || {
                stay_on_core(thread, count);
                riser_client(first(thread)..=first(thread + 1) - 1, until)
            }),
            _ => thread::spawn(move || thread_client(thread, until)),
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().map_err(|_| io::ErrorKind::Other.into()).flatten()).sum()
}

/// Reads per second, and CPU time per read in microseconds, of the server and of the clients.
#[derive(Clone, Copy)]
struct Run {
    rate: f64,
    server_us: f64,
    client_us: f64,
}

fn run((server, client): (&str, &str), tags: u16, time: Duration) -> io::Result<Run> {
    let own = std::env::current_exe()?;
    let mut child = Command::new(own)
        .args(["serve", server, &tags.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut ready = String::new();
    BufReader::new(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?).read_line(&mut ready)?;
    let clock = clock_getcpuclockid(Pid::from_raw(child.id() as i32))?;
    let cpu_us = || -> io::Result<[f64; 2]> { Ok([us(clock)?, us(ClockId::CLOCK_PROCESS_CPUTIME_ID)?]) };
    let (start, before) = (Instant::now(), cpu_us()?);
    let reads = read_with(client, tags, start + time)? as f64;
    let (seconds, after) = (start.elapsed().as_secs_f64(), cpu_us()?);
    drop(child.stdin.take());
    child.wait()?;
    let [server_us, client_us] = [0, 1].map(|end| (after[end] - before[end]) / reads);
    Ok(Run { rate: reads / seconds, server_us, client_us })
}

fn us(clock: ClockId) -> io::Result<f64> {
    Ok(Duration::from(clock_gettime(clock)?).as_secs_f64() * 1e6)
}

/// Servers and clients; the first pair is the reference.
const PAIRS: [(&str, &str); 4] =
    [("naive", "naive"), ("riser", "naive"), ("naive", "riser"), ("riser", "riser")];

fn compare(rounds: usize, ms: u64, tags: &[u16]) -> io::Result<()> {
    println!("reads of {READ} B, one at a time for each tag; medians of {rounds} rounds of {ms} ms");
    println!("tags  server client    reads/s  ratio  CPU us a read: server client  both");
    for &tags in tags {
        let mut runs: [Vec<Run>; PAIRS.len()] = Default::default();
        for _ in 0..rounds {
            for (runs, pair) in runs.iter_mut().zip(PAIRS) {
                runs.push(run(pair, tags, Duration::from_millis(ms))?);
            }
        }
        for (pair, of_pair) in PAIRS.iter().zip(&runs) {
            let ratio = median(of_pair.iter().zip(&runs[0]).map(|(run, naive)| run.rate / naive.rate));
            let of = |figure: fn(&Run) -> f64| median(of_pair.iter().map(figure));
            let [rate, server, client, both] =
                [of(|r| r.rate), of(|r| r.server_us), of(|r| r.client_us), of(|r| r.server_us + r.client_us)];
            println!(
                "{tags:>4}  {:6} {:6} {rate:>10.0} {ratio:>6.2} {server:>22.2} {client:>6.2} {both:>5.2}",
                pair.0, pair.1
            );
        }
    }
    Ok(())
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
