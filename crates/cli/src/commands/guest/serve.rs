// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser guest serve`: a lab's hierarchy for virtual machines that somebody else starts, from `riser-lab` and `riser-guest`.

use super::report::Report;
use super::seat::{HOT_PLUG, device, links, seat, tell};
use crate::commands::cpu;
use crate::commands::outside::Opening;
use crate::failure::Failure;
use crate::{interrupt, output};
use lab::external::Clock;
use nettlp::net::Clock as WallClock;
use plug::Models;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

const EXAMPLE: &str = "\
Examples:
  riser guest serve labs/tree.toml --socket vmd.sock
  riser guest serve labs/tree.toml --socket vmd.sock --links links.sock --capture boot.pcapng
  echo 'cut ram' | nc -UN links.sock

Prints the arguments that QEMU 10.1 or later needs, then serves one machine after another until Ctrl-C.
--json prints one object in the end: guest: {clients, reads, writes, resets, interrupts, interrupts_lost, ...} and lab: what \
`riser run --json` prints; status and CPU seconds of QEMU are null.";

/// Serve a lab's hierarchy to a virtual machine that you start yourself
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The lab, whose simulated host the machine takes the place of
    #[arg(value_name = "LAB.toml")]
    lab: PathBuf,

    /// Where to listen: a Unix socket, which is made
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,

    /// Where to take commands to the lab's links, a line each, as `cut NAME`: another Unix socket
    #[arg(long, value_name = "PATH")]
    links: Option<PathBuf>,

    #[command(flatten)]
    opening: Opening,

    /// Print one JSON object in the end
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, models: &Models) -> Result<(), Failure> {
    let stop = interrupt::flag()?;
    let mut opened = args.opening.read(&args.lab, models)?.with_outside().open(Clock::Virtual)?;
    let mut guests = [seat(&opened, &args.socket)?];
    let links = args.links.as_deref().map(|path| links(&opened, path)).transpose()?;
    let (before, clock) = (cpu::seconds(), WallClock::new());
    output::note(format_args!("serving {} at {}; Ctrl-C ends it", opened.name, args.socket.display()));
    output::note(format_args!(
        "QEMU's arguments:\n-machine q35,memory-backend=ram -object memory-backend-memfd,id=ram,size=512M,share=on \\\n\
         -global {HOT_PLUG} \\\n-device '{}'",
        device(&args.socket)
    ));
    let served = lab::machine::serve(
        &mut opened.driver,
        &mut guests,
        links,
        || clock.now(),
        |_, _, told| tell(&told, false),
        || !stop.load(Ordering::Relaxed),
    );
    let spent = cpu::seconds() - before;
    opened.kept.finish(&mut opened.driver, clock.now())?;
    let report = Report::new(&opened, &guests[0], spent);
    if args.json {
        report.json()?
    } else {
        report.text()?
    }
    served.map_err(|e| Failure::Run(format!("serving: {e}")))?;
    opened.driver.failure().map_or(Ok(()), |why| Err(Failure::Run(why.to_owned())))
}
