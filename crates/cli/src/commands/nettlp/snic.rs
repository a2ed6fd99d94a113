// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp snic`: the simple NIC as device software on a tap interface, from `riser-nettlp`. Only carries frames.

use super::way::WayArgs;
use crate::failure::Failure;
use crate::{interrupt, output};
use nettlp::carrier::Wait;
use nettlp::client::control::ControlError;
use nettlp::device_host::Place;
use nettlp::net::{AnyCarrier, Clock};
use nettlp::requester::Rest;
use nettlp::snic::Snic;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use serde::{Serialize, Serializer};
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tlp::Duration;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

const EXAMPLE: &str = "\
Examples:
  riser nettlp snic --remote 192.168.10.1 --tap tap0
  riser nettlp snic --remote 127.0.0.1 --local 127.0.0.2 --tap tap0 &
  ip addr add 192.0.2.2/24 dev tap0; ip link set tap0 up

In place of NetTLP's simple_nic. The other end is an adapter whose host has a driver of the simple NIC: a real one, or \
`riser nettlp adapter` with a lab such as labs/nettlp/station.toml, whose host is then a station on the tap's network.
The tap interface is made where it is not there, which takes root or CAP_NET_ADMIN, and goes with the command then. \
An adapter that goes is waited for; when one is there again, the NIC begins anew, and the driver is told of it as at first. \
Ctrl-C ends it. --json prints one object: session (false: a port per tag), from_wire, from_wire_lost, to_wire, to_wire_lost,
  tx_frames, rx_frames, refused_doorbells, refused_descriptors, no_buffer, lost_frames, dma_errors, interrupts, \
  lost_interrupts, received_tlps, sent_tlps, malformed, not_carried; over ports of upstream's also reads_asked_again, \
  reads_timed_out, late_completions; and came_back, how often the adapter did.";

/// Be the simple NIC of a remote host, with a tap interface for its cable
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    #[command(flatten)]
    way: WayArgs,

    /// Name of the tap interface
    #[arg(short, long, value_name = "NAME")]
    tap: String,

    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    session: bool,
    #[serde(flatten, serialize_with = "rows")]
    counts: Counts,
}

fn rows<S: Serializer>(counts: &Counts, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(counts.rows())
}

device::counters! {
    /// What NICs have seen, one for each time that the adapter came.
    pub struct Counts {
        /// Frames from the tap, and those lost because too many waited.
        from_wire,
        from_wire_lost,
        /// Frames to the tap, and those lost because too many waited.
        to_wire,
        to_wire_lost,
        /// What the NIC counts.
        tx_frames,
        rx_frames,
        refused_doorbells,
        refused_descriptors,
        no_buffer,
        lost_frames,
        dma_errors,
        interrupts,
        lost_interrupts,
        /// TLPs.
        received_tlps,
        sent_tlps,
        malformed,
        not_carried,
        /// Reads over ports of upstream's.
        reads_asked_again,
        reads_timed_out,
        late_completions,
        /// Times that the adapter has gone and come back.
        came_back,
    }
}

/// How long a turn waits at most: until Ctrl-C is looked for again.
const LONGEST: Duration = Duration::from_ms(100);
/// How long where the tap interface has gone wrong, and says so at once, again and again.
const BROKEN: Duration = Duration::from_ms(10);
/// Tags: those of reads that are asked again rest for a while, so there are more than are used at once.
const TAGS: RangeInclusive<u16> = 0..=255;
/// Frames taken from the tap in one turn.
const BURST: usize = 32;
/// The longest frame of a tap with the usual MTU, with a tag, and some.
const FRAME_BYTES: usize = 2048;

/// How often the adapter is asked whether it is still there.
const WATCH: std::time::Duration = std::time::Duration::from_millis(200);

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let tap = open_tap(&args.tap)?;
    let stop = interrupt::flag()?;
    let mut nic = args.plug_in()?;
    let watch = Watch::start(args.way.clone());
    let mut before = Counts::default();
    let ended = loop {
        let ended = carry(&mut nic, &tap, &watch, &stop);
        if !matches!(ended, Ok(Ended::Gone)) {
            break ended;
        }
        output::note(format_args!("the adapter at {} has gone; waiting until it is back", args.way.remote()));
        before.add(&counts(&nic));
        // The next one needs its ports.
        drop(nic);
        let Some(again) = args.plug_in_again(&stop) else {
            return args.end(&Report { session: false, counts: before });
        };
        nic = again;
        before.came_back += 1;
        watch.came_back();
    };
    before.add(&counts(&nic));
    args.end(&Report { session: is_session(&nic), counts: before })?;
    ended.map(drop).map_err(|e| Failure::Run(format!("{}: {e}", args.way.remote())))
}

fn is_session(nic: &Snic<AnyCarrier>) -> bool {
    matches!(nic.carrier(), AnyCarrier::Session(_))
}

/// Whether the adapter was away: asked by a thread of its own, since over ports nothing else tells.
struct Watch(Arc<AtomicBool>);

impl Watch {
    /// Asks until the process ends. To ask for the ID alone makes nobody device software.
    fn start(way: WayArgs) -> Watch {
        let came_back = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&came_back);
        std::thread::spawn(move || {
            let mut was_away = false;
            loop {
                std::thread::sleep(WATCH);
                let is_there = way.messaging().and_then(|mut driver| driver.device_id()).is_ok();
                if is_there && was_away {
                    told.store(true, Ordering::Relaxed);
                }
                was_away = !is_there;
            }
        });
        Watch(came_back)
    }

    /// Whether it has come back since this was asked last.
    fn came_back(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// Why nothing more is carried.
enum Ended {
    /// It was told to stop.
    Stopped,
    /// The adapter that it knows has gone: the session has ended, or another adapter is there, which knows nothing of this NIC.
    Gone,
}

/// Carries frames and TLPs until it is told to stop, or the adapter has gone.
fn carry(
    nic: &mut Snic<AnyCarrier>,
    tap: &SyncDevice,
    watch: &Watch,
    stop: &AtomicBool,
) -> std::io::Result<Ended> {
    let clock = Clock::new();
    let session = is_session(nic);
    while !stop.load(Ordering::Relaxed) {
        if watch.came_back() && !session {
            return Ok(Ended::Gone);
        }
        let moved = match turn(nic, tap, clock) {
            // A signal: most likely the one that ends this.
            Err(e) if e.kind() == ErrorKind::Interrupted => 0,
            // Nobody is there now; what it will be when somebody is, the watch tells.
            Err(e) if e.kind() == ErrorKind::ConnectionRefused && !session => 0,
            Err(e) if session && is_end_of_session(e.kind()) => return Ok(Ended::Gone),
            moved => moved?,
        };
        if moved == 0 {
            let timer = nic.poll_timeout().map(|at| at.since(clock.now()));
            let due = timer.into_iter().chain(nic.carrier().due()).fold(LONGEST, Duration::min);
            wait(tap.as_fd(), nic.carrier().readiness(), due)?;
        }
    }
    Ok(Ended::Stopped)
}

const fn is_end_of_session(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset | ErrorKind::TimedOut)
}

/// What is there on both sides; says how much that was.
fn turn(nic: &mut Snic<AnyCarrier>, tap: &SyncDevice, clock: Clock) -> std::io::Result<usize> {
    let (mut buffer, mut moved) = ([0; FRAME_BYTES], 0);
    for _ in 0..BURST {
        match tap.recv(&mut buffer) {
            Ok(len) => moved += usize::from(nic.frame_from_wire(&buffer[..len])),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            // Nothing there, or the interface is down.
            Err(_) => break,
        }
    }
    let received = nic.receive(Wait::Never);
    // Whatever was received, the NIC goes on.
    let advanced = nic.advance(clock.now());
    while let Some(frame) = nic.frame_to_wire() {
        moved += 1;
        // What an interface that is down does not take is lost, as on a cable that is out.
        let _ = tap.send(&frame);
    }
    moved += received?;
    advanced.map(|()| moved)
}

/// Waits for a frame or a datagram, at most so long.
fn wait(tap: BorrowedFd<'_>, carrier: BorrowedFd<'_>, most: Duration) -> std::io::Result<()> {
    let timeout =
        |most: Duration| TimeSpec::from(std::time::Duration::from_nanos(most.as_ps().div_ceil(1000)));
    let mut both = [PollFd::new(carrier, PollFlags::POLLIN), PollFd::new(tap, PollFlags::POLLIN)];
    let broken = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
    let result = match ppoll(&mut both, Some(timeout(most)), None) {
        Ok(_) if both[1].revents().is_some_and(|tap| tap.intersects(broken)) => {
            ppoll(&mut both[..1], Some(timeout(most.min(BROKEN))), None)
        }
        result => result,
    };
    match result {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn open_tap(name: &str) -> Result<SyncDevice, Failure> {
    let failed = |e: std::io::Error| {
        let hint = match e.kind() {
            ErrorKind::PermissionDenied => "; making one takes root or CAP_NET_ADMIN",
            _ => "",
        };
        Failure::Run(format!("tap interface {name}: {e}{hint}"))
    };
    let tap = DeviceBuilder::new().name(name).layer(Layer::L2).build_sync().map_err(failed)?;
    tap.set_nonblocking(true).map_err(failed)?;
    Ok(tap)
}

impl Args {
    /// The NIC, where the adapter's host says that it is.
    fn plug_in(&self) -> Result<Snic<AnyCarrier>, Failure> {
        let carrier = self.way.open(TAGS, true)?;
        let place = self.place().map_err(|e| Failure::Run(e.to_string()))?;
        let rest = if self.way.remote().is_loopback() { Rest::LOOPBACK } else { Rest::NETWORK };
        let nic = Snic::with_rest(carrier, &place, rest).map_err(|e| Failure::Run(e.to_string()))?;
        let way = if is_session(&nic) { "a session" } else { "a port per tag" };
        output::note(format_args!(
            "{} at {} is the cable of {}, BAR4 at {:#x}, over {way}; Ctrl-C ends it",
            self.tap,
            self.way.remote(),
            place.id,
            place.address
        ));
        Ok(nic)
    }

    /// The same, as soon as an adapter answers; none where it is told to stop before.
    fn plug_in_again(&self, stop: &AtomicBool) -> Option<Snic<AnyCarrier>> {
        while !stop.load(Ordering::Relaxed) {
            // First, so that a session is tried where somebody is there.
            let is_there = self.way.messaging().and_then(|mut driver| driver.device_id()).is_ok();
            if is_there && let Ok(nic) = self.plug_in() {
                return Some(nic);
            }
            std::thread::sleep(WATCH);
        }
        None
    }

    /// The device's ID and BAR first: who asks for the vectors has its sockets open by then.
    fn place(&self) -> Result<Place, ControlError> {
        let mut driver = self.way.messaging()?;
        Ok(Place { id: driver.device_id()?, address: driver.bar4_start()?, vectors: driver.msix_table()? })
    }

    fn end(&self, report: &Report) -> Result<(), Failure> {
        if self.json { output::json(report) } else { show(report) }
    }
}

fn counts(nic: &Snic<AnyCarrier>) -> Counts {
    let (counters, wire, host) = (nic.counters(), nic.wire_counters(), nic.host_counters());
    let reads = nic.read_counters().copied().unwrap_or_default();
    let (interrupts, lost_interrupts) = nic.vectors().counts();
    Counts {
        from_wire: wire.from_wire,
        from_wire_lost: wire.from_wire_lost,
        to_wire: wire.to_wire,
        to_wire_lost: wire.to_wire_lost,
        tx_frames: counters.tx_frames,
        rx_frames: counters.rx_frames,
        refused_doorbells: counters.refused_doorbells,
        refused_descriptors: counters.refused_descriptors,
        no_buffer: counters.no_buffer,
        lost_frames: counters.lost,
        dma_errors: counters.dma_errors,
        interrupts,
        lost_interrupts,
        received_tlps: host.received,
        sent_tlps: host.sent,
        malformed: host.malformed,
        not_carried: host.not_carried,
        reads_asked_again: reads.retried,
        reads_timed_out: reads.timed_out,
        late_completions: reads.late,
        came_back: 0,
    }
}

/// Counts that are not zero, a line each.
fn show(report: &Report) -> Result<(), Failure> {
    for (name, value) in report.counts.rows().filter(|(_, value)| *value > 0) {
        output::text(&format!("{name:20} {value:>10}"))?;
    }
    Ok(())
}
