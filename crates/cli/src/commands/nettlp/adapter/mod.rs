// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp adapter`: a NetTLP adapter without an FPGA, from `riser-nettlp`. Never listens where it was not told to.

mod report;
mod workers;

use crate::failure::Failure;
use crate::output;
use clap::ValueEnum;
use nettlp::adapter::{Function, Registers, Settings};
use nettlp::allow::{AllowList, Rule, parse_size};
use nettlp::completer::Image;
use nettlp::net::{AdapterOptions, Network};
use report::{MemoryReport, Report};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tlp::{Bdf, Mps, Rcb};
use workers::{Worker, Workers};

const EXAMPLE: &str = "\
Examples:
  riser nettlp adapter --memory zero:256M --allow 127.0.0.2,all,rw
  riser nettlp adapter --memory ram.img --listen 192.168.10.1 --allow 192.168.10.3,0x40000000+256M,r
  riser nettlp adapter --memory ram.img --write-back --allow 127.0.0.2,all,rw --json > counted.json

In place of a NetTLP adapter on an FPGA card, its host, and the driver there: LibTLP's programs (dma_read, dma_write, tlpperf,
pcie_cfg_read, pcie_cfg_write, process-list) reach the memory as they would reach the host's.
Whoever can send from an allowed address can do what its rules allow: UDP has no proof of who sends. Keep it to loopback, a
link of its own, or sessions with --key.
Ctrl-C, or SIGTERM, ends it: what was written goes to the file first. SIGUSR1 shows on standard error what was counted so far.
--json prints one object: listen, memory: {bytes, file, write_back, written_back_bytes}, seconds, cpu_seconds, threads,
  peers: [{address, rules, datagrams, reads, read_bytes, writes, write_bytes, ...}], strangers: {datagrams, bytes, last},
  completer: {reads, read_bytes, writes, written_bytes, completions, ...}, function: {interrupts, not_bus_master,
  lost_completions}, sockets: {received_datagrams, sent_datagrams, receive_calls, send_calls, malformed_datagrams,
  failed_sends, kernel_drops}";

/// Serve NetTLP peers from memory, as an adapter in a host's slot would
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// What peers read and write, from address 0 on: a raw image, read-only without --write-back, or SIZE of zeroes (K, M, G, T)
    #[arg(long, value_name = "FILE|zero:SIZE")]
    memory: MemoryName,

    /// Writes reach the file of --memory: at the end, and on SIGUSR1
    #[arg(long)]
    write_back: bool,

    /// Address to listen on, IPv4 or IPv6
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    listen: IpAddr,

    /// Whom to serve, where, and which way; may be given again. WINDOW is `all` or BASE+SIZE, as in 0x40000000+256M
    #[arg(long, value_name = "PEER,WINDOW,r|w|rw", required = true)]
    allow: Vec<Rule>,

    /// Which ways to serve
    #[arg(long, value_enum, default_value = "auto")]
    scheme: Scheme,

    /// Requester and completer ID of the adapter
    #[arg(short, long, value_name = "BUS:DEVICE.FUNCTION", default_value = "1b:00.0")]
    bus: Bdf,

    /// Most bytes of a completion: Max_Payload_Size. 1024 fit an Ethernet frame
    #[arg(long, value_name = "BYTES", default_value = "1024", value_parser = mps)]
    mps: Mps,

    /// Where completions of one read may be cut: Read Completion Boundary
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = rcb)]
    rcb: Rcb,

    /// How long an answer takes: memory answers at once
    #[arg(long, value_enum, default_value = "off")]
    timing: Timing,

    /// Threads; each serves every n-th tag
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: u16,

    /// Ask the sockets again and again instead of sleeping: the least latency, for a whole core each thread
    #[arg(long)]
    busy_poll: bool,

    /// Show on standard error what was counted, again and again
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    report: Option<u64>,

    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
}

#[derive(Clone)]
enum MemoryName {
    Zeroes(u64),
    File(PathBuf),
}

impl FromStr for MemoryName {
    type Err = String;

    fn from_str(text: &str) -> Result<MemoryName, String> {
        match text.strip_prefix("zero:") {
            Some(size) => parse_size(size).map(MemoryName::Zeroes).map_err(|e| e.to_string()),
            None => Ok(MemoryName::File(text.into())),
        }
    }
}

/// Ways that peers are served.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scheme {
    /// All of them, as each peer chooses
    Auto,
    /// A port per tag, as LibTLP has it: 0x3000 + tag
    Tagged,
    /// The ports of the NetTLP paper: 0x3000 + (tag & 0xf)
    Paper,
    /// riser sessions
    Session,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Timing {
    /// At once
    Off,
}

fn mps(text: &str) -> Result<Mps, String> {
    let bytes: u32 = text.parse().map_err(|_| "legal are 128, 256, 512, 1024, 2048, 4096".to_owned())?;
    Mps::new(bytes).map_err(|e| e.to_string())
}

fn rcb(text: &str) -> Result<Rcb, String> {
    let bytes: u32 = text.parse().map_err(|_| "legal are 64 and 128".to_owned())?;
    Rcb::new(bytes).map_err(|e| e.to_string())
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let Timing::Off = args.timing;
    let allow = AllowList::new(args.allow.iter().copied()).map_err(Failure::usage)?;
    let image = Arc::new(args.image()?);
    let function = Function::new(args.registers()).map_err(|e| Failure::Run(e.to_string()))?;
    let signals = Signals::watch()?;
    let plan = Worker {
        options: args.options(&allow),
        settings: Settings { allow, id: args.bus, device: None, scheme: args.ports() },
        image: Arc::clone(&image),
        function: Arc::new(function),
        mps: args.mps,
        rcb: args.rcb,
        busy: args.busy_poll,
    };
    let workers = Workers::start(&plan, args.threads).map_err(|e| Failure::Run(e.to_string()))?;
    args.greet();
    let start = Instant::now();
    let failed = supervise(&args, &workers, &signals, &image, start);
    let counted = workers.stop();
    let written_back_bytes = image.write_back().map_err(|e| args.failed_image("writing back", &e))?;
    let counted = counted.map_err(|e| Failure::Run(format!("serving: {e}")))?;
    let report = args.report(&counted, start, written_back_bytes);
    if args.json {
        output::json(&report)?;
    } else {
        output::text(&report.text())?;
    }
    failed
}

/// Waits for the end, and shows what was counted when it is asked for.
fn supervise(
    args: &Args,
    workers: &Workers,
    signals: &Signals,
    image: &Image,
    start: Instant,
) -> Result<(), Failure> {
    let every = args.report.map(Duration::from_secs);
    let mut next = every.map(|every| start + every);
    while !signals.end.load(Ordering::Relaxed) && workers.are_running() {
        std::thread::sleep(Duration::from_millis(20));
        let asked = signals.show.swap(false, Ordering::Relaxed);
        if asked || next.is_some_and(|next| Instant::now() >= next) {
            next = next.zip(every).map(|(next, every)| next + every);
            let brought = if asked { image.write_back() } else { Ok(0) };
            let brought = brought.map_err(|e| args.failed_image("writing back", &e))?;
            eprintln!("{}", args.report(&workers.counted(), start, brought).text());
        }
    }
    Ok(())
}

/// What the process is asked from outside.
struct Signals {
    end: Arc<AtomicBool>,
    show: Arc<AtomicBool>,
}

impl Signals {
    fn watch() -> Result<Signals, Failure> {
        let signals = Signals { end: Arc::default(), show: Arc::default() };
        let register = |signal, flag: &Arc<AtomicBool>| signal_hook::flag::register(signal, Arc::clone(flag));
        // The second Ctrl-C ends the process at once.
        let second = signal_hook::flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&signals.end));
        let all = second
            .and_then(|_| register(SIGINT, &signals.end))
            .and_then(|_| register(SIGTERM, &signals.end))
            .and_then(|_| register(SIGUSR1, &signals.show));
        all.map_err(|e| Failure::Run(format!("signals cannot be handled: {e}")))?;
        Ok(signals)
    }
}

impl Args {
    fn image(&self) -> Result<Image, Failure> {
        match &self.memory {
            MemoryName::Zeroes(_) if self.write_back => {
                Err(Failure::usage("--write-back needs a file: zero:SIZE has none"))
            }
            MemoryName::Zeroes(bytes) => Image::zeroes(*bytes).map_err(Failure::usage),
            MemoryName::File(_) => {
                Image::file(&self.path(), self.write_back).map_err(|e| self.failed_image("opening", &e))
            }
        }
    }

    fn path(&self) -> PathBuf {
        match &self.memory {
            MemoryName::Zeroes(_) => PathBuf::new(),
            MemoryName::File(path) => path.clone(),
        }
    }

    fn failed_image(&self, doing: &str, error: &std::io::Error) -> Failure {
        Failure::Run(format!("{}: {doing} the memory image: {error}", self.path().display()))
    }

    fn ports(&self) -> capture::encap::PortScheme {
        match self.scheme {
            Scheme::Paper => capture::encap::PortScheme::Paper,
            _ => capture::encap::PortScheme::Tagged,
        }
    }

    fn options(&self, allow: &AllowList) -> AdapterOptions {
        let all = AdapterOptions::new(self.listen);
        let peers = allow.addresses().map(Network::from).collect();
        let tags = match self.scheme {
            Scheme::Auto | Scheme::Tagged => all.tags.clone(),
            Scheme::Paper => Some(0..=0xf),
            Scheme::Session => None,
        };
        let host = matches!(self.scheme, Scheme::Auto | Scheme::Tagged);
        let sessions = matches!(self.scheme, Scheme::Auto | Scheme::Session);
        AdapterOptions { peers, tags, host, sessions, ..all }
    }

    fn registers(&self) -> Registers {
        let mut registers = Registers::new(self.bus);
        if let IpAddr::V4(address) = self.listen {
            registers.adapter_ip = address;
        }
        let v4 = |rule: &Rule| if let IpAddr::V4(peer) = rule.peer { Some(peer) } else { None };
        registers.peer_ip = self.allow.iter().find_map(v4).unwrap_or(Ipv4Addr::UNSPECIFIED);
        registers
    }

    fn greet(&self) {
        let memory = match &self.memory {
            MemoryName::Zeroes(bytes) => format!("{bytes} bytes of zeroes"),
            MemoryName::File(path) if self.write_back => path.display().to_string(),
            MemoryName::File(path) => format!("{}, read-only,", path.display()),
        };
        let rules: Vec<String> = self.allow.iter().map(Rule::to_string).collect();
        eprintln!("riser: serving {memory} at {} to {}; Ctrl-C ends it", self.listen, rules.join(" "));
        if !self.listen.is_loopback() {
            eprintln!(
                "riser: anybody who can send from these addresses can do this: UDP proves nobody's address"
            );
        }
    }

    fn report(&self, counted: &workers::Counted, start: Instant, written_back_bytes: u64) -> Report {
        let memory = MemoryReport {
            bytes: match &self.memory {
                MemoryName::Zeroes(bytes) => *bytes,
                MemoryName::File(_) => counted.image_bytes,
            },
            file: match &self.memory {
                MemoryName::Zeroes(_) => None,
                MemoryName::File(path) => Some(path.display().to_string()),
            },
            write_back: self.write_back,
            written_back_bytes,
        };
        Report::new(self.listen, memory, &self.allow, counted, start.elapsed().as_secs_f64(), self.threads)
    }
}
