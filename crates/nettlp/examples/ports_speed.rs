// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads over upstream's ports, one at a time for each tag, from an adapter with memory, and from the simplest responder that
//! there could be: a thread for each tag, which waits in one blocking socket. Never decides which is better: it prints both.
//!
//! ```sh
//! cargo run --release -p riser-nettlp --example ports_speed             # all of it: 1, 2, 4, 8 tags
//! cargo run --release -p riser-nettlp --example ports_speed -- 9 300    # rounds, ms of each
//! ```
//!
//! Each round runs both after one another, as processes of their own, so that a machine that changes its speed changes both.

use riser_nettlp::adapter::{Adapter, Function, MemoryBackend, Registers, Settings};
use riser_nettlp::allow::AllowList;
use riser_nettlp::completer::Image;
use riser_nettlp::net::{AdapterOptions, AdapterSockets, Clock, default_threads, serve};
use std::io::{self, BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tlp::{Bdf, Mps};

const HERE: Ipv4Addr = Ipv4Addr::new(127, 61, 77, 2);
const THERE: Ipv4Addr = Ipv4Addr::new(127, 61, 77, 1);
const MEMORY: u64 = 1 << 20;
/// Bytes of each read.
const READ: usize = 256;
/// NetTLP header, header of a read, header of a completion.
const NETTLP: usize = 6;
const REQUEST: usize = NETTLP + 12;
const COMPLETION: usize = NETTLP + 12;

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", "adapter", _] => serve_adapter(),
        ["serve", "responder", tags] => serve_responder(tags.parse().map_err(io::Error::other)?),
        [] => compare(7, 300),
        [rounds, ms] => {
            compare(rounds.parse().map_err(io::Error::other)?, ms.parse().map_err(io::Error::other)?)
        }
        _ => Err(io::Error::other("legal are no arguments, or ROUNDS MS")),
    }
}

/// Says that it is ready, and waits for the end of standard input.
fn until_end() {
    println!("ready");
    let _ = io::stdin().read_to_end(&mut Vec::new());
}

/// As `riser nettlp adapter --memory` does by default.
fn serve_adapter() -> io::Result<()> {
    let id = Bdf::from_bits(0x1b00);
    let function = Arc::new(Function::new(Registers::new(id)).map_err(io::Error::other)?);
    let image = Arc::new(Image::zeroes(MEMORY)?);
    let count =
        std::env::var("RISER_THREADS").ok().and_then(|n| n.parse().ok()).unwrap_or_else(default_threads);
    let bind = |thread| {
        AdapterSockets::bind(&AdapterOptions { share: (thread, count), ..AdapterOptions::new(THERE.into()) })
    };
    let sockets: Result<Vec<_>, _> = (0..count).map(bind).collect();
    for mut sockets in sockets.map_err(io::Error::other)? {
        let rule = format!("{HERE},all,rw").parse().map_err(io::Error::other)?;
        let allow = AllowList::new([rule]).map_err(io::Error::other)?;
        let mps = Mps::new(1024).map_err(io::Error::other)?;
        let backend = MemoryBackend::new(Arc::clone(&image), Arc::clone(&function), mps);
        let scheme = capture::encap::PortScheme::Tagged;
        let mut adapter = Adapter::new(Settings { allow, id, device: None, scheme }, backend);
        // They end with the process.
        thread::spawn(move || serve(&mut sockets, &mut adapter, Clock::new(), false, |_, _, _| true));
    }
    until_end();
    Ok(())
}

/// A socket as upstream's programs have it: bound and connected to one port.
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

/// The completion of a read of `READ` bytes.
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

/// One client of upstream's kind; says how many reads it made.
fn client(tag: u16, until: Instant) -> io::Result<u64> {
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

/// What a server did: reads a second, and microseconds of CPU time for each; and those of its clients.
#[derive(Clone, Copy)]
struct Run {
    rate: f64,
    server_us: f64,
    client_us: f64,
}

fn run(server: &str, tags: u16, time: Duration) -> io::Result<Run> {
    let own = std::env::current_exe()?;
    let mut child = Command::new(own)
        .args(["serve", server, &tags.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut ready = String::new();
    BufReader::new(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?).read_line(&mut ready)?;
    let pid = child.id().to_string();
    let before = (cpu_us(&pid)?, cpu_us("self")?);
    let start = Instant::now();
    let threads: Vec<_> = (0..tags).map(|tag| thread::spawn(move || client(tag, start + time))).collect();
    let mut reads = 0;
    for thread in threads {
        reads += thread.join().map_err(|_| io::Error::other("a client panicked"))??;
    }
    let seconds = start.elapsed().as_secs_f64();
    let after = (cpu_us(&pid)?, cpu_us("self")?);
    drop(child.stdin.take());
    child.wait()?;
    let each = |before: f64, after: f64| (after - before) / reads as f64;
    let (server_us, client_us) = (each(before.0, after.0), each(before.1, after.1));
    Ok(Run { rate: reads as f64 / seconds, server_us, client_us })
}

/// CPU time of a process so far: `utime` and `stime` of proc_pid_stat(5), ticks of 10 ms.
fn cpu_us(pid: &str) -> io::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Behind the name, which may hold anything.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    Ok((ticks(11) + ticks(12)) * 10_000.0)
}

fn compare(rounds: usize, ms: u64) -> io::Result<()> {
    println!("reads of {READ} B, one at a time for each tag; medians of {rounds} rounds of {ms} ms");
    println!(
        "{:>4} {:>12} {:>12} {:>7}   CPU us a read: server, clients",
        "tags", "responder/s", "adapter/s", "ratio"
    );
    for tags in [1, 2, 4, 8] {
        let (mut responder, mut adapter) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            responder.push(run("responder", tags, Duration::from_millis(ms))?);
            adapter.push(run("adapter", tags, Duration::from_millis(ms))?);
        }
        let ratios = adapter.iter().zip(&responder).map(|(a, r)| a.rate / r.rate).collect();
        let of = |runs: &[Run], figure: fn(&Run) -> f64| median(runs.iter().map(figure).collect());
        println!(
            "{tags:>4} {:>12.0} {:>12.0} {:>7.2}   responder {:.1} {:.1}, adapter {:.1} {:.1}",
            of(&responder, |r| r.rate),
            of(&adapter, |r| r.rate),
            median(ratios),
            of(&responder, |r| r.server_us),
            of(&responder, |r| r.client_us),
            of(&adapter, |r| r.server_us),
            of(&adapter, |r| r.client_us),
        );
    }
    Ok(())
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
