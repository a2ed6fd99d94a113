// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp snic`: the simple NIC as device software on a tap interface, from `riser-nettlp`. Only carries frames.

use super::counters::Rows;
use super::software::{self, Ended, LONGEST, Watch, carry};
use super::way::WayArgs;
use crate::commands::tap::Tap;
use crate::failure::Failure;
use crate::{interrupt, output};
use nettlp::carrier::Wait;
use nettlp::net::{AnyCarrier, Clock};
use nettlp::snic::Snic;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use serde::Serialize;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use tlp::Duration;
use tun_rs::SyncDevice;

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
    #[serde(flatten)]
    counts: Rows,
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

/// How long where the tap interface has gone wrong, and says so at once, again and again.
const BROKEN: Duration = Duration::from_ms(10);
/// Frames taken from the tap in one turn.
const BURST: usize = 32;
/// The longest frame of a tap with the usual MTU, with a tag, and some.
const FRAME_BYTES: usize = 2048;

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let Tap(tap) = Tap::open(&args.tap)?;
    let stop = interrupt::flag()?;
    let mut nic = args.plug_in()?;
    let watch = Watch::start(args.way.clone());
    let mut before = Counts::default();
    let ended = loop {
        let (session, clock) = (software::is_session(nic.host.carrier()), Clock::new());
        let ended = carry(session, &watch, &stop, || turn_and_wait(&mut nic, &tap, clock));
        if !matches!(ended, Ok(Ended::Gone)) {
            break ended;
        }
        output::note(format_args!("the adapter at {} has gone; waiting until it is back", args.way.remote()));
        before.add(&counts(&nic));
        // The next one needs its ports.
        drop(nic);
        let Some(again) = args.way.again(&stop, || args.plug_in()) else {
            return args.end(&Report { session: false, counts: Rows::new(before.rows()) });
        };
        nic = again;
        before.came_back += 1;
        watch.came_back();
    };
    before.add(&counts(&nic));
    args.end(&Report {
        session: software::is_session(nic.host.carrier()),
        counts: Rows::new(before.rows()),
    })?;
    ended.map(drop).map_err(|e| Failure::Run(format!("{}: {e}", args.way.remote())))
}

/// Carries what is there, or waits for it. What goes wrong is waited for too: it may go wrong at once, again and again.
fn turn_and_wait(nic: &mut Snic<AnyCarrier>, tap: &SyncDevice, clock: Clock) -> std::io::Result<()> {
    let moved = turn(nic, tap, clock);
    if !matches!(moved, Ok(1..)) {
        let timer = nic.host.poll_timeout().map(|at| at.since(clock.now()));
        let due = timer.into_iter().chain(nic.host.carrier().due()).fold(LONGEST, Duration::min);
        let tap = nic.cable.has_room().then(|| tap.as_fd());
        wait(tap, nic.host.carrier().readiness(), due)?;
    }
    moved.map(drop)
}

/// What is there on both sides; says how much that was.
fn turn(nic: &mut Snic<AnyCarrier>, tap: &SyncDevice, clock: Clock) -> std::io::Result<usize> {
    let (mut buffer, mut moved) = ([0; FRAME_BYTES], 0);
    for _ in 0..BURST {
        // What the NIC has no room for waits in the tap's own queue.
        if !nic.cable.has_room() {
            break;
        }
        match tap.recv(&mut buffer) {
            Ok(len) => moved += usize::from(nic.cable.frame_from_wire(&buffer[..len])),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            // Nothing there, or the interface is down.
            Err(_) => break,
        }
    }
    let received = nic.host.receive(Wait::Never);
    // Whatever was received, the NIC goes on.
    let advanced = nic.host.advance(clock.now());
    while let Some(frame) = nic.cable.frame_to_wire() {
        moved += 1;
        // What an interface that is down does not take is lost, as on a cable that is out.
        let _ = tap.send(&frame);
    }
    moved += received?;
    advanced.map(|()| moved)
}

/// Waits for a datagram, or for a frame of a tap, at most so long.
fn wait(tap: Option<BorrowedFd<'_>>, carrier: BorrowedFd<'_>, most: Duration) -> std::io::Result<()> {
    let timeout =
        |most: Duration| TimeSpec::from(std::time::Duration::from_nanos(most.as_ps().div_ceil(1000)));
    let mut fds = [carrier, tap.unwrap_or(carrier)].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    let fds = &mut fds[..1 + usize::from(tap.is_some())];
    let broken = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
    let is_broken = |fd: &PollFd<'_>| fd.revents().is_some_and(|came| came.intersects(broken));
    let result = match ppoll(fds, Some(timeout(most)), None) {
        Ok(_) if fds[1..].iter().any(is_broken) => {
            ppoll(&mut fds[..1], Some(timeout(most.min(BROKEN))), None)
        }
        result => result,
    };
    match result {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Args {
    /// The NIC, where the adapter's host says that it is.
    fn plug_in(&self) -> Result<Snic<AnyCarrier>, Failure> {
        let behind = self.way.behind()?;
        output::note(format_args!(
            "{} at {} is the cable of {}, BAR4 at {:#x}, over {}; Ctrl-C ends it",
            self.tap,
            self.way.remote(),
            behind.place.id,
            behind.place.address,
            behind.way()
        ));
        Snic::with_rest(behind.carrier, &behind.place, behind.rest).map_err(|e| Failure::Run(e.to_string()))
    }

    fn end(&self, report: &Report) -> Result<(), Failure> {
        if self.json { output::json(report) } else { show(report) }
    }
}

fn counts(nic: &Snic<AnyCarrier>) -> Counts {
    let (counters, wire, host) = (nic.counters(), nic.cable.counters(), nic.host.counters());
    let reads = nic.host.read_counters().copied().unwrap_or_default();
    let (interrupts, lost_interrupts) = nic.host.vectors().counts();
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
    for (name, value) in report.counts.iter().filter(|(_, value)| *value > 0) {
        output::text(&format!("{name:20} {value:>10}"))?;
    }
    Ok(())
}
