// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser guest serve`: a lab's hierarchy for virtual machines that somebody else starts, from `riser-lab` and `riser-guest`.

use super::report::Report;
use super::seat::{Seat, SeatArgs, hosts, links, tell};
use crate::commands::cpu;
use crate::commands::outside::Opening;
use crate::failure::Failure;
use crate::{interrupt, output};
use lab::external::Clock;
use lab::machine::Pace;
use nettlp::net::Clock as WallClock;
use plug::Models;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

const EXAMPLE: &str = "\
Examples:
  riser guest serve labs/tree.toml --socket vmd.sock
  riser guest serve labs/tree.toml --socket vmd.sock --links links.sock --capture boot.pcapng
  echo 'cut ram' | nc -UN links.sock
  riser guest serve labs/tree.toml --direct --socket sockets       # a folder of sockets
  riser guest serve two.toml --socket a=a.sock --socket b=b.sock   # for two [[external_host]]

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

    /// Where to listen: a Unix socket, which is made; with --direct a folder, in which each device has one. Where several hosts are
    /// outside, one for each, behind its name
    #[arg(long, value_name = "[HOST=]PATH", required = true)]
    socket: Vec<String>,

    #[command(flatten)]
    seat: SeatArgs,

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
    let paths = paths(&hosts(&opened.file), &args.socket)?;
    let mut seats = Vec::new();
    for (host, path) in &paths {
        seats.push(args.seat.seat(&mut opened, host, path)?);
    }
    let links = args.links.as_deref().map(|path| links(&opened, path)).transpose()?;
    let mut links: Vec<_> = links.into_iter().collect();
    let (before, clock) = (cpu::seconds(), WallClock::new());
    for (seat, (_, path)) in seats.iter().zip(&paths) {
        output::note(format_args!("serving {} at {}; Ctrl-C ends it", opened.name, path.display()));
        output::note(format_args!("QEMU's arguments{}:\n{}", of(&seats, seat), arguments(args.seat, seat)));
    }
    let served = lab::machine::serve(
        &mut opened.driver,
        seats.iter_mut().map(|seat| &mut seat.guest),
        links.as_mut_slice(),
        (Pace::Clock, || clock.now()),
        |_, _, device, told| tell(device, &told, false),
        || !stop.load(Ordering::Relaxed),
    );
    let spent = cpu::seconds() - before;
    let ended_at = *served.as_ref().unwrap_or(&opened.driver.now());
    opened.kept.finish(&mut opened.driver, ended_at)?;
    let report = Report::new(&opened, &seats, &[], spent);
    if args.json {
        report.json()?
    } else {
        report.text()?
    }
    served.map_err(|e| Failure::Run(format!("serving: {e}")))?;
    opened.driver.failure().map_or(Ok(()), |why| Err(Failure::Run(why.to_owned())))
}

/// The hosts that are served, with their sockets.
fn paths(hosts: &[String], given: &[String]) -> Result<Vec<(String, PathBuf)>, Failure> {
    let wrong = |why: String| Failure::Usage(format!("--socket: {why}"));
    let mut paths: Vec<(String, PathBuf)> = Vec::new();
    for text in given {
        let named = text.split_once('=').filter(|(host, _)| hosts.iter().any(|known| known == host));
        let (host, path) = match (named, hosts) {
            (Some((host, path)), _) => (host, path),
            (None, [host]) => (host.as_str(), text.as_str()),
            (None, _) => {
                let names = hosts.join(", ");
                return Err(wrong(format!(
                    "`{text}`: several hosts are outside, name one before it: HOST=PATH, of {names}"
                )));
            }
        };
        if paths.iter().any(|(known, _)| known == host) {
            return Err(wrong(format!("`{host}` is named twice")));
        }
        paths.push((host.to_owned(), path.into()));
    }
    match hosts.iter().find(|host| paths.iter().all(|(known, _)| known != *host)) {
        Some(host) => Err(wrong(format!("host `{host}` has none: {host}=PATH"))),
        None => Ok(paths),
    }
}

/// Whose, where there are several.
fn of(seats: &[Seat], seat: &Seat) -> String {
    if seats.len() == 1 { String::new() } else { format!(" for host `{}`", seat.host) }
}

/// QEMU's arguments, a line for each.
fn arguments(args: SeatArgs, seat: &Seat) -> String {
    let memory = "-machine q35,memory-backend=ram -object memory-backend-memfd,id=ram,size=512M,share=on";
    let all = args.arguments(seat, false);
    let pairs = all.chunks(2).map(|pair| match pair[1].starts_with('{') {
        true => format!("{} '{}'", pair[0], pair[1]),
        false => pair.join(" "),
    });
    let lines: Vec<String> = std::iter::once(memory.to_owned()).chain(pairs).collect();
    let kernel = match args.append() {
        "" => String::new(),
        append => format!("\nand on the kernel's command line: {append}"),
    };
    format!("{}{kernel}", lines.join(" \\\n"))
}
