// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser guest serve`: serves a lab's hierarchy to virtual machines that the user starts, from `riser-worlds` and `riser-guest`.

use super::vm_args::{VmArgs, links};
use crate::commands::outside::Opening;
use crate::failure::Failure;
use crate::{interrupt, output};
use nettlp::net::Clock as WallClock;
use plug::{Models, counted};
use session::RunOutcome;
use session::external::Clock;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use vm::processors;
use worlds::machine::{Pace, VmCounters, VmHost, VmReport, WatchUntil, machines};

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
    let paths = paths(&names.all(), &args.socket)?;
    let mut hosts = args.vm.open_hosts(&mut opened, &names, |name| paths[name].clone())?;
    let links = args.links.as_deref().map(|path| links(&opened, path)).transpose()?;
    let mut links: Vec<_> = links.into_iter().collect();
    let mut transports = args.vm.transports(&opened)?;
    // Each machine has at least one virtual CPU. riser does not know the real number.
    let own_processor = processors::has_own_processor(paths.len());
    let (before, clock) = (session::cpu_seconds(), WallClock::new());
    for (host, machine) in machines(&hosts) {
        let name = machine.unwrap_or(&host.name);
        let of = if paths.len() == 1 { String::new() } else { format!(" for `{name}`") };
        output::note(format_args!("serving {} at {}; Ctrl-C ends it", opened.name, paths[name].display()));
        output::note(format_args!("QEMU's arguments{of}:\n{}", arguments(&args.vm, host, machine)));
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
    let mut report = VmReport::new(&opened.driver, &opened.name, &hosts, &[], spent);
    if interrupt::has_come() {
        report.lab.outcome = RunOutcome::Interrupted;
    }
    if args.json { output::json(&report) } else { print(&report) }?;
    served.map_err(|e| Failure::Run(format!("serving: {e}")))?;
    opened.driver.failure().map_or(Ok(()), |why| Err(Failure::run(why)))
}

fn print(report: &VmReport) -> Result<(), Failure> {
    let VmCounters { clients, reads, writes, interrupts, .. } = report.all.guest;
    output::text(&format!(
        "{}: {}, {}, {}, {}; {:.3} us simulated, {} TLP-hops in {:.3} s of CPU",
        report.lab.lab,
        counted(clients, "machine"),
        counted(reads, "read"),
        counted(writes, "write"),
        counted(interrupts, "interrupt"),
        report.lab.simulated_ns / 1_000.0,
        report.lab.tlp_hops,
        report.lab.cpu_seconds
    ))
}

/// Returns the socket path of each of these machines.
fn paths(names: &[String], given: &[String]) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let wrong = |why: String| Failure::Usage(format!("--socket: {why}"));
    let mut paths = BTreeMap::new();
    for text in given {
        let named = text.split_once('=').filter(|(name, _)| names.iter().any(|known| known == name));
        let (name, path) = match (named, names) {
            (Some((name, path)), _) => (name, path),
            (None, [name]) => (name.as_str(), text.as_str()),
            (None, _) => {
                let names = names.join(", ");
                return Err(wrong(format!(
                    "`{text}`: there are several machines, expected NAME=PATH with NAME one of {names}"
                )));
            }
        };
        if path.is_empty() {
            return Err(wrong(format!("`{text}` has no path, expected NAME=PATH")));
        }
        if let Some((other, _)) = paths.iter().find(|(_, known)| *known == Path::new(path)) {
            return Err(wrong(format!(
                "`{path}` is also the path of `{other}`, expected a different one for each machine"
            )));
        }
        if paths.insert(name.to_owned(), path.into()).is_some() {
            return Err(wrong(format!("`{name}` is named twice")));
        }
    }
    match names.iter().find(|name| !paths.contains_key(*name)) {
        Some(name) => Err(wrong(format!("`{name}` has no path, expected {name}=PATH"))),
        None => Ok(paths),
    }
}

/// Returns QEMU's arguments as text, one per line.
fn arguments(args: &VmArgs, host: &VmHost, machine: Option<&str>) -> String {
    let memory = "-machine q35,memory-backend=ram -object memory-backend-memfd,id=ram,size=512M,share=on";
    let options = args.options();
    let all = options.qemu_arguments(host, machine, false);
    let pairs = all.chunks(2).map(|pair| match pair[1].starts_with('{') {
        true => format!("{} '{}'", pair[0], pair[1]),
        false => pair.join(" "),
    });
    let lines: Vec<String> = std::iter::once(memory.to_owned()).chain(pairs).collect();
    let kernel = match options.kernel_arguments(machine) {
        "" => String::new(),
        append => format!("\nand on the kernel's command line: {append}"),
    };
    format!("{}{kernel}", lines.join(" \\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requires_one_socket_path_per_machine() {
        let paths = |given: &[&str]| {
            let given: Vec<_> = given.iter().copied().map(str::to_owned).collect();
            paths(&["root".to_owned(), "a".to_owned()], &given).map_err(|failure| format!("{failure:?}"))
        };
        assert_eq!(paths(&["root=r", "a=d"]).unwrap()["a"], Path::new("d"));
        for (given, why) in [
            (
                &["root=r", "a=r"][..],
                "`r` is also the path of `root`, expected a different one for each machine",
            ),
            (&["root=r", "a="], "`a=` has no path, expected NAME=PATH"),
            (&["root=r", "root=s", "a=d"], "`root` is named twice"),
            (&["root=r"], "`a` has no path, expected a=PATH"),
            (&["r"], "there are several machines"),
        ] {
            let refused = paths(given).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
