// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp adapter`: a NetTLP adapter without an FPGA, from `riser-nettlp`. Listens only at the address of `--listen`.

mod listening;

use super::bytes::address;
use crate::commands::outside::Opening;
use crate::commands::sizes::{mps, rcb, whole};
use crate::commands::words::{Word, one_of};
use crate::{Failure, interrupt, output};
pub(in crate::commands) use listening::{Listening, SERVED_SCHEMES};
use nettlp::adapter::{AdapterSettings, Function, Registers};
use nettlp::allow::{AllowList, Rule, parse_size};
use nettlp::completer::Image;
use nettlp::net::{AdapterOptions, default_threads};
use nettlp::tools::{Scheme, ServedMemory};
use plug::{Models, counted};
use signal_hook::consts::SIGUSR1;
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tlp::{Bdf, Duration, Mps, Rcb};
use worlds::adapter::{AdapterSlot, Timing};
use worlds::opening::OpenedLab;
use worlds::tools::{LabAdapter, LabServing, MemoryServing};

const EXAMPLE: &str = "\
Examples:
  riser nettlp adapter --memory zero:256M --allow 127.0.0.2,all,rw
  riser nettlp adapter --memory ram.img --listen 192.168.10.1 --allow 192.168.10.3,0x40000000+256M,r
  riser nettlp adapter --memory ram.img --write-back --allow 127.0.0.2,all,rw --json > counted.json
  riser nettlp adapter labs/nettlp/host.toml --allow 127.0.0.2,all,rw --capture out/served.pcapng
  riser nettlp adapter labs/nettlp/host.toml --allow 127.0.0.2,all,rw --set link.gen=4
  riser nettlp adapter two.toml --listen 127.0.0.1 --listen 127.0.0.3 --allow 127.0.0.2,all,rw

Replaces a NetTLP adapter on an FPGA card, its host, and the driver of that host. LibTLP's programs (dma_read, \
dma_write, tlpperf, pcie_cfg_read, pcie_cfg_write, process-list) access this memory like the memory of that host.
UDP does not authenticate the sender: anyone who can send from an allowed address can do what its rules allow. Use loopback, a \
dedicated link, or --key: with a key only sessions and messaging are served.
Ctrl-C or SIGTERM ends the command; with --write-back it writes the file first. SIGUSR1 prints the counters to standard error.
--json of --memory prints one object: listen, memory: {bytes, file, write_back, written_back_bytes}, seconds, cpu_seconds, threads,
  peers: [{address, rules, datagrams, reads, read_bytes, writes, write_bytes, ...}], strangers: {datagrams, bytes, messaging, \
  last}, completer: {reads, read_bytes, writes, written_bytes, completions, ...}, function: {interrupts, not_bus_master, \
  lost_completions}, sockets: {received_datagrams, sent_datagrams, receive_calls, send_calls, malformed_datagrams, \
  failed_sends, kernel_drops}, sessions: {opened, closed, failed, refused, strays, retransmitted, duplicates, ...}, \
  refusals (as in `riser run --json`; absent if no TLP was refused), drops: [{reason, text, count, at_ps, peer, first}] \
  (absent if no datagram was dropped for lack of room or in a session).
Standard error shows the first refused TLP of each kind at once.
--json of a lab prints one object: listen, seconds, peers, strangers, sockets (with several adapters, adapters: [{slot, and these}]), lag: {dropped_us, times} with --timing lagging, record: {bytes, left_out} with \
  --record, and lab: what `riser run --json` prints.";

/// Serve NetTLP peers from memory, like an adapter in a host's slot
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// A lab with a slot whose device is `nettlp-adapter`; its peers act as that device
    #[arg(value_name = "LAB.toml", conflicts_with = "memory")]
    lab: Option<PathBuf>,

    /// Memory that peers access, from address 0: a raw image, read-only without --write-back, or SIZE zero bytes (suffix K, M, G, T)
    #[arg(long, value_name = "FILE|zero:SIZE")]
    memory: Option<MemoryName>,

    /// Write the memory back to its file, at the end and on SIGUSR1
    #[arg(long, requires = "memory")]
    write_back: bool,

    /// Address to listen on, IPv4 or IPv6; for a lab with several adapters, once for each, in the order of their slots
    #[arg(long, value_name = "ADDRESS", value_parser = address, default_value = "127.0.0.1")]
    listen: Vec<IpAddr>,

    /// Serve PEER within WINDOW, for reads, writes or both; can be given several times. WINDOW is BASE+SIZE, such as 0x40000000+256M, `memory` for all
    /// addresses, `cfg` for configuration space and the adapter's registers, or `all` for both
    #[arg(long, value_name = "PEER,WINDOW,r|w|rw", required = true)]
    allow: Vec<Rule>,

    /// Way of sending TLPs: the one that is served
    #[arg(long, value_parser = one_of(&SERVED_SCHEMES), default_value = "auto")]
    scheme: Scheme,

    /// File with the adapter's key: 64 hexadecimal digits, with which peers must authenticate; serves only sessions and messaging
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,

    /// Maximum number of sessions of one peer in each thread; 64 for all peers together. If there is no room, a session without a TLP for
    /// 10 s is closed
    #[arg(long, value_name = "COUNT", default_value = "16", value_parser = whole::<u8>(1..=64))]
    sessions_per_peer: u8,

    /// ID of the adapter's function, with --memory [default: 1b:00.0]; with a lab it is the ID of the slot
    #[arg(short, long, value_name = "BUS:DEVICE.FUNCTION")]
    bus: Option<Bdf>,

    /// Max_Payload_Size in bytes: limit of the data of a completion to a peer [default: 1024, which fits an Ethernet frame; with a lab the
    /// Max_Payload_Size of the slot's path]
    #[arg(long, value_name = "BYTES", value_parser = mps)]
    mps: Option<Mps>,

    /// Read Completion Boundary in bytes, with --memory: 64 or 128 [default: 64]; a lab sets its own
    #[arg(long, value_name = "BYTES", value_parser = rcb)]
    rcb: Option<Rcb>,

    /// Delay answers by the latency of the lab's fabric [default: on with a lab, off with --memory, which has no timing]
    #[arg(long, value_parser = one_of(&TIMINGS))]
    timing: Option<Timing>,

    /// Peer that serves the requests of the lab's host [default: the peer of --allow, if there is only one]; for several adapters,
    /// once for each
    #[arg(long = "device-peer", alias = "device", value_name = "PEER", requires = "lab")]
    device: Vec<IpAddr>,

    /// End when the program of the lab's host ends
    #[arg(long, requires = "lab")]
    until_done: bool,

    #[command(flatten)]
    opening: Opening,

    /// Number of threads; each serves every n-th tag [default: one per core, at most 8; 1 with a lab]. If several, 16 further threads
    /// per peer serve tags 0 to 15, for up to 4 peers
    #[arg(long, value_name = "COUNT", value_parser = whole::<u16>(1..=64))]
    threads: Option<u16>,

    /// Poll instead of sleeping: lowest latency, but each thread occupies a core
    #[arg(long)]
    busy_poll: bool,

    /// Print the counters to standard error at this interval
    #[arg(long, value_name = "SECONDS", value_parser = whole::<u64>(1..=86_400))]
    report: Option<u64>,

    /// Print one JSON object, at the end
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
    ("on", "Latency of the fabric", Timing::On),
    ("off", "No delay", Timing::Off),
    ("lagging", "Latency of the fabric by its own clock, which may fall behind real time", Timing::Lagging),
];

pub(crate) fn run(args: Args, models: &Models) -> Result<(), Failure> {
    args.refuse_idle()?;
    let allow = AllowList::new(args.allow.iter().copied()).map_err(Failure::usage)?;
    let options = args.listen.iter().map(|address| args.listening(*address).options(&allow));
    let options: Vec<AdapterOptions> = options.collect::<Result<_, Failure>>()?;
    let (end, show) = (interrupt::flag()?, Arc::default());
    signal_hook::flag::register(SIGUSR1, Arc::clone(&show))
        .map_err(|e| Failure::Run(format!("cannot handle signals: {e}")))?;
    match (&args.lab, &args.memory) {
        (Some(lab), _) => serve_lab(&args, lab, options, &allow, models, &end),
        (None, Some(memory)) => serve_memory(&args, memory, only(options)?, allow, [&end, &show]),
        (None, None) => Err(Failure::usage("no lab and no memory: expected LAB.toml or --memory")),
    }
}

/// Serves the host of a lab until `stop` is set, or the lab fails.
fn serve_lab(
    args: &Args,
    path: &Path,
    options: Vec<AdapterOptions>,
    allow: &AllowList,
    models: &Models,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let mut lab = args.opening.read(path, models)?;
    args.key.iter().for_each(|key| lab.outputs.reads(key));
    lab.file.check_runs_alone().map_err(Failure::run)?;
    let timing = args.timing.unwrap_or(Timing::On);
    let OpenedLab { driver, mut kept, .. } = lab.open(timing.into())?;
    let slots: Vec<String> = driver.handles::<AdapterSlot>().map(str::to_owned).collect();
    let devices = args.devices(&slots, allow)?;
    let name = path.display().to_string();
    let adapter = |(n, (options, device)): (usize, (AdapterOptions, Option<IpAddr>))| {
        let settings = args.settings(allow.clone(), Bdf::default(), device);
        LabAdapter { slot: slots.get(n).cloned().filter(|_| slots.len() > 1), options, settings }
    };
    let adapters = options.into_iter().zip(devices).enumerate().map(adapter).collect();
    let &Args { mps, busy_poll: busy, until_done, .. } = args;
    let note = |line: &dyn Display| output::note(line);
    let serving = LabServing { name: name.clone(), adapters, mps, timing, busy, until_done, stop, note };
    let served = serving.run(driver, &mut kept, |LabAdapter { slot, options, settings }| {
        let what = slot.as_ref().map_or(name.clone(), |slot| format!("{slot} of {name}"));
        args.listening(options.address).greet(&what, &settings.allow, settings.device);
    });
    let (report, failure) = served?;
    output::report(args.json, &report)?;
    failure.map_or(Ok(()), |why| Err(Failure::Run(why)))
}

/// Returns the options of the only adapter.
fn only(options: Vec<AdapterOptions>) -> Result<AdapterOptions, Failure> {
    match <[AdapterOptions; 1]>::try_from(options) {
        Ok([only]) => Ok(only),
        Err(all) => {
            Err(Failure::usage(format!("--listen: {} addresses for one adapter, expected one", all.len())))
        }
    }
}

/// Serves memory until the first of `signals` arrives; the second requests a report.
fn serve_memory(
    args: &Args,
    memory: &MemoryName,
    options: AdapterOptions,
    allow: AllowList,
    [end, show]: [&AtomicBool; 2],
) -> Result<(), Failure> {
    if let Some(timing) = args.timing.filter(|timing| *timing != Timing::Off) {
        let name = if timing == Timing::On { "on" } else { "lagging" };
        let why = format!("--timing {name}: memory has no timing, expected off with --memory");
        return Err(Failure::usage(why));
    }
    let (image, listen) = (Arc::new(args.image(memory)?), options.address);
    let function = Arc::new(Function::new(args.registers(listen)).map_err(Failure::run)?);
    let serving = MemoryServing {
        memory: ServedMemory {
            options,
            settings: args.settings(allow, args.id(), None),
            image,
            function,
            mps: args.mps.or_else(|| Mps::new(1024).ok()).unwrap_or_default(),
            rcb: args.rcb.unwrap_or_default(),
            busy: args.busy_poll,
        },
        file: memory.file(),
        write_back: args.write_back,
        rules: &args.allow,
        threads: args.threads.unwrap_or_else(default_threads),
        every: args.report.map(|seconds| Duration::from_ms(seconds * 1000)),
        end,
        show,
        note: |line| output::note(line),
        print: |report| output::aside(report),
    };
    let (report, written_back) = serving.run(|| args.greet(memory, listen))?;
    output::report(args.json, &report)?;
    Ok(written_back?)
}

impl MemoryName {
    fn file(&self) -> Option<&Path> {
        if let MemoryName::File(path) = self { Some(path) } else { None }
    }
}

impl Args {
    fn image(&self, memory: &MemoryName) -> Result<Image, Failure> {
        match memory {
            MemoryName::Zeroes(_) if self.write_back => {
                Err(Failure::usage("--write-back needs a file: zero:SIZE has none"))
            }
            MemoryName::Zeroes(bytes) => Image::zeroes(*bytes).map_err(Failure::usage),
            MemoryName::File(path) => Image::file(path, self.write_back)
                .map_err(|e| Failure::Run(format!("opening {}: {e}", path.display()))),
        }
    }

    /// Refuses options without effect. `requires` of clap does not do this: it does not apply to an argument that conflicts with a
    /// given one.
    fn refuse_idle(&self) -> Result<(), Failure> {
        let of_memory = [
            ("--write-back", self.write_back),
            ("--bus", self.bus.is_some()),
            ("--rcb", self.rcb.is_some()),
            ("--threads", self.threads.is_some_and(|threads| threads != 1)),
            ("--report", self.report.is_some()),
        ];
        let of_labs = [("--device-peer", !self.device.is_empty()), ("--until-done", self.until_done)];
        let of_labs = [&self.opening.given()[..], &of_labs].concat();
        let idle = |of: &[(&'static str, bool)]| of.iter().find(|(_, given)| *given).map(|(name, _)| *name);
        let why = match (&self.lab, &self.memory) {
            (Some(_), _) => {
                idle(&of_memory).map(|name| format!("{name} needs --memory: with a lab, the lab sets it"))
            }
            (None, Some(_)) => {
                let legal = "expected with --memory: --write-back, --bus, --mps, --rcb, --threads, --busy-poll or --report";
                idle(&of_labs).map(|name| format!("{name} needs a lab; {legal}"))
            }
            (None, None) => None,
        };
        why.map_or(Ok(()), |why| Err(Failure::usage(why)))
    }

    /// The adapter's ID with --memory.
    fn id(&self) -> Bdf {
        self.bus.unwrap_or(Bdf::from_bits(0x1b00))
    }

    fn settings(&self, allow: AllowList, id: Bdf, device: Option<IpAddr>) -> AdapterSettings {
        AdapterSettings { allow, id, device, scheme: self.scheme.ports() }
    }

    /// Returns the peer that serves the host's requests to each adapter of a lab.
    fn devices(&self, slots: &[String], allow: &AllowList) -> Result<Vec<Option<IpAddr>>, Failure> {
        let (adapters, Args { listen, device, .. }) = (slots.len().max(1), self);
        for (name, given) in [("--listen", listen.len()), ("--device-peer", device.len())] {
            let is_default = name == "--device-peer" && given == 0;
            if given != adapters && !is_default {
                let (given, slots) = (counted(given, "value"), slots.join(", "));
                return Err(Failure::usage(format!(
                    "{name}: {given}, expected one for each adapter, in the order of their slots: {slots}"
                )));
            }
        }
        let of =
            |(n, address): (usize, &IpAddr)| self.listening(*address).device(allow, device.get(n).copied());
        listen.iter().enumerate().map(of).collect()
    }

    fn listening(&self, address: IpAddr) -> Listening<'_> {
        Listening {
            prefix: "--",
            address,
            rules: &self.allow,
            scheme: self.scheme,
            key: self.key.as_deref(),
            sessions_per_peer: self.sessions_per_peer,
        }
    }

    fn registers(&self, listen: IpAddr) -> Registers {
        let mut registers = Registers::new(self.id());
        if let IpAddr::V4(address) = listen {
            registers.adapter_ip = address;
        }
        let v4 = |rule: &Rule| if let IpAddr::V4(peer) = rule.peer { Some(peer) } else { None };
        registers.peer_ip = self.allow.iter().find_map(v4).unwrap_or(Ipv4Addr::UNSPECIFIED);
        registers
    }

    fn greet(&self, memory: &MemoryName, listen: IpAddr) {
        let memory = match memory {
            MemoryName::Zeroes(bytes) => format!("{bytes} bytes of zeroes"),
            MemoryName::File(path) if self.write_back => path.display().to_string(),
            MemoryName::File(path) => format!("{}, read-only,", path.display()),
        };
        let rules: Vec<String> = self.allow.iter().map(Rule::to_string).collect();
        output::note(format_args!("serving {memory} at {listen} to {}; Ctrl-C ends it", rules.join(" ")));
        self.listening(listen).warn();
    }
}
