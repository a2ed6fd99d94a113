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
use serde::Serialize;
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use tlp::Duration;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

const EXAMPLE: &str = "\
Examples:
  riser nettlp snic --remote 192.168.10.1 --tap tap0
  riser nettlp snic --remote 127.0.0.1 --local 127.0.0.2 --tap tap0 & ip addr add 192.0.2.2/24 dev tap0; ip link set tap0 up

In place of NetTLP's simple_nic. The other end is an adapter whose host has a driver of the simple NIC: a real one, or \
`riser nettlp adapter` with a lab such as labs/nettlp/station.toml, whose host is then a station on the tap's network.
The tap interface is made where it is not there, which takes root or CAP_NET_ADMIN, and goes with the command then. \
Ctrl-C ends it. --json prints one object: session (false: a port per tag), from_wire, from_wire_lost, to_wire, to_wire_lost,
  tx_frames, rx_frames, refused_doorbells, refused_descriptors, no_buffer, lost_frames, dma_errors, interrupts, \
  lost_interrupts, received_tlps, sent_tlps, malformed, not_carried; over ports of upstream's also reads_asked_again, \
  reads_timed_out, late_completions.";

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
    from_wire: u64,
    from_wire_lost: u64,
    to_wire: u64,
    to_wire_lost: u64,
    tx_frames: u64,
    rx_frames: u64,
    refused_doorbells: u64,
    refused_descriptors: u64,
    no_buffer: u64,
    lost_frames: u64,
    dma_errors: u64,
    interrupts: u64,
    lost_interrupts: u64,
    received_tlps: u64,
    sent_tlps: u64,
    malformed: u64,
    not_carried: u64,
    reads_asked_again: u64,
    reads_timed_out: u64,
    late_completions: u64,
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

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let tap = open_tap(&args.tap)?;
    let stop = interrupt::flag()?;
    let carrier = args.way.open(TAGS, true)?;
    let session = matches!(carrier, AnyCarrier::Session(_));
    let place = args.place().map_err(|e| Failure::Run(e.to_string()))?;
    let rest = if args.way.remote().is_loopback() { Rest::LOOPBACK } else { Rest::NETWORK };
    let mut nic = Snic::with_rest(carrier, &place, rest).map_err(|e| Failure::Run(e.to_string()))?;
    let way = if session { "a session" } else { "a port per tag" };
    eprintln!(
        "riser: {} at {} is the cable of {}, BAR4 at {:#x}, over {way}; Ctrl-C ends it",
        args.tap,
        args.way.remote(),
        place.id,
        place.address
    );
    let ended = carry(&mut nic, &tap, &stop);
    let report = report(&nic, session);
    if args.json {
        output::json(&report)?;
    } else {
        show(&report)?;
    }
    ended.map_err(|e| Failure::Run(format!("{}: {e}", args.way.remote())))
}

/// Carries frames and TLPs until it is told to stop.
fn carry(nic: &mut Snic<AnyCarrier>, tap: &SyncDevice, stop: &AtomicBool) -> std::io::Result<()> {
    let clock = Clock::new();
    let mut buffer = [0; FRAME_BYTES];
    while !stop.load(Ordering::Relaxed) {
        let mut moved = 0;
        for _ in 0..BURST {
            match tap.recv(&mut buffer) {
                Ok(len) => moved += usize::from(nic.frame_from_wire(&buffer[..len])),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // Nothing there, or the interface is down.
                Err(_) => break,
            }
        }
        moved += match nic.receive(Wait::Never) {
            // A signal: most likely the one that ends this.
            Err(e) if e.kind() == ErrorKind::Interrupted => 0,
            received => received?,
        };
        nic.advance(clock.now())?;
        while let Some(frame) = nic.frame_to_wire() {
            moved += 1;
            // What an interface that is down does not take is lost, as on a cable that is out.
            let _ = tap.send(&frame);
        }
        if moved == 0 {
            let timer = nic.poll_timeout().map(|at| at.since(clock.now()));
            let due = timer.into_iter().chain(nic.carrier().due()).fold(LONGEST, Duration::min);
            wait(tap.as_fd(), nic.carrier().readiness(), due)?;
        }
    }
    Ok(())
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
    /// The device's ID and BAR first: who asks for the vectors has its sockets open by then.
    fn place(&self) -> Result<Place, ControlError> {
        let mut driver = self.way.messaging()?;
        Ok(Place { id: driver.device_id()?, address: driver.bar4_start()?, vectors: driver.msix_table()? })
    }
}

fn report(nic: &Snic<AnyCarrier>, session: bool) -> Report {
    let (counters, wire, host) = (nic.counters(), nic.wire_counters(), nic.host_counters());
    let reads = nic.read_counters().copied().unwrap_or_default();
    let (interrupts, lost_interrupts) = nic.vectors().counts();
    Report {
        session,
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
    }
}

/// Counts that are not zero, a line each.
fn show(report: &Report) -> Result<(), Failure> {
    let counts = serde_json::to_value(report).unwrap_or_default();
    for (name, value) in counts.as_object().into_iter().flatten() {
        if value.as_u64().is_some_and(|n| n > 0) {
            output::text(&format!("{name:20} {value:>10}"))?;
        }
    }
    Ok(())
}
