// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp adapter`: a NetTLP adapter without an FPGA, from `riser-nettlp`. Never listens where it was not told to.

mod lab;
mod listening;
mod report;

use super::bytes::{address, mps, rcb};
use crate::commands::outside::Opening;
use crate::commands::refused::Printed;
use crate::commands::words::{Word, one_of};
use crate::failure::Failure;
use crate::{interrupt, output};
use lab::LabRun;
pub(in crate::commands) use listening::{Listening, SERVED_SCHEMES};
use nettlp::adapter::{Function, Registers, Settings};
use nettlp::allow::{AllowList, Rule, parse_size};
use nettlp::completer::Image;
use nettlp::net::{AdapterOptions, default_threads};
use nettlp::tools::{MemoryServer, Scheme, ServedCounters, ServedMemory};
use plug::Models;
use report::{MemoryReport, Report, refusals};
use signal_hook::consts::SIGUSR1;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tlp::{Bdf, Mps, Rcb};
use worlds::adapter::Timing;

const EXAMPLE: &str = "\
Examples:
  riser nettlp adapter --memory zero:256M --allow 127.0.0.2,all,rw
  riser nettlp adapter --memory ram.img --listen 192.168.10.1 --allow 192.168.10.3,0x40000000+256M,r
  riser nettlp adapter --memory ram.img --write-back --allow 127.0.0.2,all,rw --json > counted.json
  riser nettlp adapter labs/nettlp/host.toml --allow 127.0.0.2,all,rw --capture out/served.pcapng
  riser nettlp adapter labs/nettlp/host.toml --allow 127.0.0.2,all,rw --set link.gen=4

In place of a NetTLP adapter on an FPGA card, its host, and the driver there: LibTLP's programs (dma_read, dma_write, tlpperf, \
pcie_cfg_read, pcie_cfg_write, process-list) reach the memory as they would reach the host's.
Whoever can send from an allowed address can do what its rules allow: UDP has no proof of who sends. Keep it to loopback, a \
link of its own, or sessions with --key: then only sessions and messaging are served.
Ctrl-C, or SIGTERM, ends it: what was written goes to the file first. SIGUSR1 shows on standard error what was counted so far.
--json of --memory prints one object: listen, memory: {bytes, file, write_back, written_back_bytes}, seconds, cpu_seconds, threads,
  peers: [{address, rules, datagrams, reads, read_bytes, writes, write_bytes, ...}], strangers: {datagrams, bytes, messaging, \
  last}, completer: {reads, read_bytes, writes, written_bytes, completions, ...}, function: {interrupts, not_bus_master, \
  lost_completions}, sockets: {received_datagrams, sent_datagrams, receive_calls, send_calls, malformed_datagrams, \
  failed_sends, kernel_drops}, sessions: {opened, closed, failed, refused, strays, retransmitted, duplicates, ...}, \
  refusals (as in `riser run --json`; absent if no TLP was refused), drops: [{reason, text, count, at_ps, peer, first}] \
  (absent if nothing was dropped for want of room, or in sessions).
Standard error shows the first refused TLP of each kind at once.
--json of a lab prints one object: listen, seconds, peers, strangers, sockets, lag: {dropped_us, times} with --timing lagging, record: {bytes, left_out} with \
  --record, and lab: what `riser run --json` prints.";

/// Serve NetTLP peers from memory, as an adapter in a host's slot would
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// A lab, whose slot with the device `nettlp-adapter` peers are behind
    #[arg(value_name = "LAB.toml", conflicts_with = "memory")]
    lab: Option<PathBuf>,

    /// What peers read and write, from address 0 on: a raw image, read-only without --write-back, or SIZE of zeroes (K, M, G, T)
    #[arg(long, value_name = "FILE|zero:SIZE")]
    memory: Option<MemoryName>,

    /// Writes reach the file of --memory: at the end, and on SIGUSR1
    #[arg(long, requires = "memory")]
    write_back: bool,

    /// Address to listen on, IPv4 or IPv6
    #[arg(long, value_name = "ADDRESS", value_parser = address, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    listen: IpAddr,

    /// Whom to serve, where, and which way; may be given again. WINDOW is BASE+SIZE, as in 0x40000000+256M, `memory` for all
    /// addresses, `cfg` for configuration space and the adapter's registers, or `all` for both
    #[arg(long, value_name = "PEER,WINDOW,r|w|rw", required = true)]
    allow: Vec<Rule>,

    /// Which ways to serve
    #[arg(long, value_parser = one_of(&SERVED_SCHEMES), default_value = "auto")]
    scheme: Scheme,

    /// Demand that peers prove to have this key: a file of 64 hexadecimal digits. Serves sessions and messaging alone
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,

    /// Most sessions of one peer, in each thread; of all there are 64. Where there is no place, one that has moved no TLP for 10 s gives
    /// way
    #[arg(long, value_name = "COUNT", default_value = "16", value_parser = clap::value_parser!(u8).range(1..=64))]
    sessions_per_peer: u8,

    /// Requester and completer ID of the adapter before --memory [default: 1b:00.0]; a lab's is that of its slot
    #[arg(short, long, value_name = "BUS:DEVICE.FUNCTION")]
    bus: Option<Bdf>,

    /// Most bytes of a completion that goes to a peer [default: 1024, which fit an Ethernet frame; of a lab the
    /// Max_Payload_Size of the slot's path]
    #[arg(long, value_name = "BYTES", value_parser = mps)]
    mps: Option<Mps>,

    /// Where completions of one read of --memory may be cut: Read Completion Boundary [default: 64]; a lab says its own
    #[arg(long, value_name = "BYTES", value_parser = rcb)]
    rcb: Option<Rcb>,

    /// Whether answers take the time that a lab's fabric says [default: on with a lab, off with --memory, which has none]
    #[arg(long, value_parser = one_of(&TIMINGS))]
    timing: Option<Timing>,

    /// The peer that serves the requests of the lab's host; without it the only one that --allow names
    #[arg(long, value_name = "PEER", requires = "lab")]
    device: Option<IpAddr>,

    /// End when the program of the lab's host has ended
    #[arg(long, requires = "lab")]
    until_done: bool,

    #[command(flatten)]
    opening: Opening,

    /// Threads; each serves every n-th tag [default: one for each core, at most 8; of a lab 1]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: Option<u16>,

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

const TIMINGS: [Word<Timing>; 3] = [
    ("on", "As the fabric says", Timing::On),
    ("off", "None: at once", Timing::Off),
    (
        "lagging",
        "As the fabric says, by its own clock: where it cannot keep to that of the wall, it falls behind",
        Timing::Lagging,
    ),
];

pub(crate) fn run(args: Args, models: &Models) -> Result<(), Failure> {
    args.refuse_idle()?;
    let allow = AllowList::new(args.allow.iter().copied()).map_err(Failure::usage)?;
    let options = args.listening().options(&allow)?;
    let signals = Signals::watch()?;
    match (&args.lab, &args.memory) {
        (Some(lab), _) => LabRun { args: &args, lab, options, allow }.run(models, &signals.end),
        (None, Some(memory)) => serve_memory(&args, memory, options, allow, &signals),
        (None, None) => Err(Failure::usage("nothing to serve: expected LAB.toml or --memory")),
    }
}

fn serve_memory(
    args: &Args,
    memory: &MemoryName,
    options: AdapterOptions,
    allow: AllowList,
    signals: &Signals,
) -> Result<(), Failure> {
    if let Some(timing) = args.timing.filter(|timing| *timing != Timing::Off) {
        let name = if timing == Timing::On { "on" } else { "lagging" };
        let why = format!("--timing {name}: memory has no timing, legal with --memory is off");
        return Err(Failure::usage(why));
    }
    let image = Arc::new(args.image(memory)?);
    let function = Function::new(args.registers()).map_err(Failure::run)?;
    let served = ServedMemory {
        options,
        settings: Settings { allow, id: args.id(), device: None, scheme: args.scheme.ports() },
        image: Arc::clone(&image),
        function: Arc::new(function),
        mps: args.mps.or_else(|| Mps::new(1024).ok()).unwrap_or_default(),
        rcb: args.rcb.unwrap_or_default(),
        busy: args.busy_poll,
    };
    let server = MemoryServer::start(&served, args.threads()).map_err(Failure::run)?;
    args.greet(memory);
    let served = Served { args, memory, image: &image, start: Instant::now() };
    served.supervise(&server, signals);
    let counters = server.stop();
    let written_back = served.write_back();
    let counters = counters.map_err(|e| Failure::Run(format!("serving: {e}")))?;
    let report = served.report(counters, *written_back.as_ref().unwrap_or(&0));
    if args.json {
        output::json(&report)?;
    } else {
        output::text(&report.text())?;
    }
    written_back.map(drop)
}

/// Memory that is served.
struct Served<'a> {
    args: &'a Args,
    memory: &'a MemoryName,
    image: &'a Image,
    start: Instant,
}

impl Served<'_> {
    /// Waits for the end, and shows the counters when that is requested.
    fn supervise(&self, server: &MemoryServer, signals: &Signals) {
        let every = self.args.report.map(Duration::from_secs);
        let mut next = every.map(|every| self.start + every);
        let mut printed = Printed::default();
        while !signals.end.load(Ordering::Relaxed) && server.is_running() {
            std::thread::sleep(Duration::from_millis(20));
            printed.print_new(server.refusal_kinds(), || refusals(&server.counters()));
            let asked = signals.show.swap(false, Ordering::Relaxed);
            if asked || next.is_some_and(|next| Instant::now() >= next) {
                next = next.zip(every).map(|(next, every)| next + every);
                let brought = if asked { self.write_back_and_go_on() } else { 0 };
                output::aside(self.report(server.counters(), brought).text());
            }
        }
    }

    /// What cannot be written back now, for want of space say, is kept for the next time.
    fn write_back_and_go_on(&self) -> u64 {
        self.write_back().unwrap_or_else(|failure| {
            if let Failure::Run(why) = failure {
                output::note(format_args!("{why}; serving goes on"));
            }
            0
        })
    }

    fn write_back(&self) -> Result<u64, Failure> {
        self.image.write_back().map_err(|e| self.memory.failed("writing back", &e))
    }

    fn report(&self, counters: ServedCounters, written_back_bytes: u64) -> Report {
        let file = match self.memory {
            MemoryName::Zeroes(_) => None,
            MemoryName::File(path) => Some(path.display().to_string()),
        };
        let Args { listen, allow, write_back, .. } = self.args;
        let memory =
            MemoryReport { bytes: self.image.bytes(), file, write_back: *write_back, written_back_bytes };
        Report::new(*listen, memory, allow, counters, self.start.elapsed().as_secs_f64(), self.args.threads())
    }
}

impl MemoryName {
    fn failed(&self, doing: &str, error: &std::io::Error) -> Failure {
        match self {
            MemoryName::Zeroes(_) => Failure::Run(format!("{doing} the memory: {error}")),
            MemoryName::File(path) => Failure::Run(format!("{doing} {}: {error}", path.display())),
        }
    }
}

/// What the process is asked from outside.
struct Signals {
    end: Arc<AtomicBool>,
    show: Arc<AtomicBool>,
}

impl Signals {
    fn watch() -> Result<Signals, Failure> {
        let signals = Signals { end: interrupt::flag()?, show: Arc::default() };
        signal_hook::flag::register(SIGUSR1, Arc::clone(&signals.show))
            .map_err(|e| Failure::Run(format!("signals cannot be handled: {e}")))?;
        Ok(signals)
    }
}

impl Args {
    fn image(&self, memory: &MemoryName) -> Result<Image, Failure> {
        match memory {
            MemoryName::Zeroes(_) if self.write_back => {
                Err(Failure::usage("--write-back needs a file: zero:SIZE has none"))
            }
            MemoryName::Zeroes(bytes) => Image::zeroes(*bytes).map_err(Failure::usage),
            MemoryName::File(path) => {
                Image::file(path, self.write_back).map_err(|e| memory.failed("opening", &e))
            }
        }
    }

    /// Refuses what would have no effect on what is served. (clap requires nothing of an argument that conflicts with one that is
    /// there, so that `requires` alone lets these through.)
    fn refuse_idle(&self) -> Result<(), Failure> {
        let of_memory = [
            ("--write-back", self.write_back),
            ("--bus", self.bus.is_some()),
            ("--rcb", self.rcb.is_some()),
            ("--threads", self.threads.is_some_and(|threads| threads != 1)),
            ("--report", self.report.is_some()),
        ];
        let of_labs = [("--device", self.device.is_some()), ("--until-done", self.until_done)];
        let of_labs = [&self.opening.given()[..], &of_labs].concat();
        let idle = |of: &[(&'static str, bool)]| of.iter().find(|(_, given)| *given).map(|(name, _)| *name);
        let why = match (&self.lab, &self.memory) {
            (Some(_), _) => idle(&of_memory).map(|name| format!("{name} is for --memory: a lab has its own")),
            (None, Some(_)) => {
                let legal = "legal with --memory are --write-back, --bus, --mps, --rcb, --threads, --busy-poll and --report";
                idle(&of_labs).map(|name| format!("{name} is for a lab; {legal}"))
            }
            (None, None) => None,
        };
        why.map_or(Ok(()), |why| Err(Failure::usage(why)))
    }

    /// The adapter's ID before memory.
    fn id(&self) -> Bdf {
        self.bus.unwrap_or(Bdf::from_bits(0x1b00))
    }

    fn threads(&self) -> u16 {
        self.threads.unwrap_or_else(default_threads)
    }

    fn listening(&self) -> Listening<'_> {
        Listening {
            prefix: "--",
            address: self.listen,
            rules: &self.allow,
            scheme: self.scheme,
            key: self.key.as_deref(),
            sessions_per_peer: self.sessions_per_peer,
        }
    }

    fn registers(&self) -> Registers {
        let mut registers = Registers::new(self.id());
        if let IpAddr::V4(address) = self.listen {
            registers.adapter_ip = address;
        }
        let v4 = |rule: &Rule| if let IpAddr::V4(peer) = rule.peer { Some(peer) } else { None };
        registers.peer_ip = self.allow.iter().find_map(v4).unwrap_or(Ipv4Addr::UNSPECIFIED);
        registers
    }

    fn greet(&self, memory: &MemoryName) {
        let memory = match memory {
            MemoryName::Zeroes(bytes) => format!("{bytes} bytes of zeroes"),
            MemoryName::File(path) if self.write_back => path.display().to_string(),
            MemoryName::File(path) => format!("{}, read-only,", path.display()),
        };
        let rules: Vec<String> = self.allow.iter().map(Rule::to_string).collect();
        output::note(format_args!(
            "serving {memory} at {} to {}; Ctrl-C ends it",
            self.listen,
            rules.join(" ")
        ));
        if !self.listen.is_loopback() && self.key.is_none() {
            output::note(format_args!(
                "anybody who can send from these addresses can do this: UDP proves nobody's address"
            ));
        }
    }
}
