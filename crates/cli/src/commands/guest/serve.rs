// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser guest serve`: serves a lab's hierarchy to virtual machines that the user starts, from `riser-worlds` and `riser-guest`.

use super::vm_args::VmArgs;
use crate::commands::outside::Opening;
use crate::{Failure, interrupt, output};
use nettlp::net::Clock as WallClock;
use plug::Models;
use session::external::Clock;
use std::path::PathBuf;
use vm::processors;
use worlds::machine::{LinkSocket, Pace, VmReport, WatchUntil, machines};

const EXAMPLE: &str = "\
Examples:
  riser guest serve labs/tree.toml --socket vmd.sock
  riser guest serve labs/tree.toml --socket vmd.sock --links links.sock --capture boot.pcapng
  echo 'cut ram' | nc -UN links.sock
  riser guest serve labs/tree.toml --direct --socket sockets       # a folder of sockets
  riser guest serve two.toml --socket a=a.sock --socket b=b.sock   # for two [[external_host]]
  riser guest serve labs/nettlp/host.toml --socket vmd.sock --nettlp-allow 127.0.0.2,all,rw
  riser guest serve labs/sriov.toml --assign a=card.virtfn0 --socket root=vmd.sock --socket a=dir

Prints the arguments that QEMU 10.1 or later needs, then serves one machine after another until Ctrl-C.
--json prints one object at the end: guest: {clients, reads, writes, resets, interrupts, interrupts_lost, ...} and lab: the object of \
`riser run --json`; status and CPU seconds of QEMU are null.";

/// Serve a lab's hierarchy to a virtual machine that you start yourself
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Lab; the machine replaces its simulated host
    #[arg(value_name = "LAB.toml")]
    lab: PathBuf,

    /// Path to listen at: a Unix socket, which riser creates. With --direct, and for machines of --assign, it is a folder with one socket for
    /// each device. With several machines, give one path each, preceded by the name of the host or machine
    #[arg(long, value_name = "[NAME=]PATH", required = true)]
    socket: Vec<String>,

    #[command(flatten)]
    vm: VmArgs,

    /// Unix socket that accepts commands to the lab's links, one per line, such as `cut NAME`
    #[arg(long, value_name = "PATH")]
    links: Option<PathBuf>,

    #[command(flatten)]
    opening: Opening,

    /// Print one JSON object, at the end
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, models: &Models) -> Result<(), Failure> {
    let stop = interrupt::flag()?;
    let mut opened = args.opening.read(&args.lab, models)?.with_outside().open(Clock::Virtual)?;
    let names = args.vm.names(&opened.file)?;
    let paths = names.paths(&args.socket).map_err(|why| Failure::Usage(format!("--socket: {why}")))?;
    let mut hosts = args.vm.open_hosts(&mut opened, &names, |name| paths[name].clone())?;
    let links = args.links.as_deref().map(|path| LinkSocket::bind(&opened.driver, path)).transpose()?;
    let mut links: Vec<_> = links.into_iter().collect();
    let mut transports = args.vm.transports(&opened)?;
    // Each machine has at least one virtual CPU. riser does not know the real number.
    let own_processor = processors::has_own_processor(paths.len());
    let (before, clock) = (session::cpu_seconds(), WallClock::new());
    for (host, machine) in machines(&hosts) {
        let name = machine.unwrap_or(&host.name);
        let of = if paths.len() == 1 { String::new() } else { format!(" for `{name}`") };
        output::note(format_args!("serving {} at {}; Ctrl-C ends it", opened.name, paths[name].display()));
        output::note(format_args!("QEMU's arguments{of}:\n{}", args.vm.options().text(host, machine)));
    }
    let mut supervisor = WatchUntil { watch: output::watch(false), stop: &stop };
    let served = worlds::machine::serve(
        &mut opened.driver,
        hosts.iter_mut(),
        links.as_mut_slice(),
        &mut transports,
        (Pace::Clock { slow: 1, own_processor }, || clock.now()),
        &mut supervisor,
    );
    let spent = session::cpu_seconds() - before;
    let ended_at = *served.as_ref().unwrap_or(&opened.driver.now());
    opened.kept.finish(&mut opened.driver, ended_at)?;
    supervisor.watch.end(&opened.driver);
    let report = VmReport::new(&opened.driver, &opened.name, &hosts, &[], spent);
    output::report(args.json, &report.interrupted(interrupt::has_come()))?;
    served.map_err(|e| Failure::Run(format!("serving: {e}")))?;
    opened.driver.failure().map_or(Ok(()), |why| Err(Failure::run(why)))
}
