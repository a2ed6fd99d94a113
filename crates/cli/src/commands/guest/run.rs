// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser guest run`: a lab below a stock kernel, started and ended together, from `riser-vm`, `riser-lab` and `riser-guest`.

use super::hexdump::hexdump;
use super::machine::{Kept, MachineArgs};
use super::report::Report;
use super::seat::{Seat, SeatArgs, hosts, links, tell};
use crate::commands::cpu;
use crate::commands::outside::{Opened, Opening};
use crate::failure::Failure;
use crate::{interrupt, output};
use lab::external::Clock;
use lab::machine::{LinkSocket, Pace, Told};
use nettlp::net::Clock as WallClock;
use plug::Models;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;
use vm::machine::{End, Input};
use vm::{Machine, Options};

const EXAMPLE: &str = "\
Examples:
  riser guest run labs/tree.toml -- lspci -tv
  riser guest run labs/seven.toml                    # a shell
  riser guest run labs/tree.toml --capture boot.pcapng -- dmesg
  riser guest run labs/sriov.toml --share . --module drivers/my.ko -- /share/test.sh
  riser guest run labs/tree.toml --kernel 6.12 --smp 2 --package nvme-cli -- nvme list
  riser guest run labs/tree.toml --direct --iommu -- lspci -vv   # each device by itself
  riser guest run two.toml --guest a=lspci --guest b=dmesg       # for two [[external_host]]

The lab's host is a stock Linux kernel in a virtual machine of QEMU's, which finds the hierarchy as PCI domain 10000, behind Intel's \
VMD. What it needs is fetched once from Debian's packages, and kept; --qemu and --kernel name other files. Kernels other than \
Debian's need the module vmd.
A lab with several hosts outside has a guest for each: all run the command, with the host's name in $RISER_HOST, but those that \
--guest gives another; what they print has the name before each line.
In the guest, `lab cut NAME` cuts the link of a slot or switch, and `lab help` says what else can be done to the lab.
--json prints one object in the end, and what the command prints goes to standard error: status, boot_cpu_seconds, \
qemu_cpu_seconds, guest: {clients, reads, writes, resets, interrupts, ...}, guests: [{host, ...}] where there are several, lab: what \
`riser run --json` prints.
The exit status is the command's, of several guests that of the first one which failed; 1 where there is none, since the guest failed.";

/// Run a command, or a shell, on a stock Linux kernel below which a lab's hierarchy lies
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The lab, whose simulated host the kernel takes the place of
    #[arg(value_name = "LAB.toml")]
    lab: PathBuf,

    #[command(flatten)]
    opening: Opening,

    /// Write the registers of all functions, as they are in the end, to this file: what `lspci -F` reads
    #[arg(long, value_name = "FILE")]
    hexdump: Option<PathBuf>,

    #[command(flatten)]
    seat: SeatArgs,

    /// Of a lab with several hosts outside: what the guest of this one runs, a line for its shell; may be given again
    #[arg(long, value_name = "HOST=COMMAND")]
    guest: Vec<String>,

    #[command(flatten)]
    machine: MachineArgs,

    /// Print one JSON object in the end; what the command prints goes to standard error
    #[arg(long)]
    json: bool,

    /// The command that the guest runs; without it a shell
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// A guest that runs.
struct Running {
    host: String,
    machine: Machine,
    kept: Kept,
}

/// The guests of a run, with their places in the lab, and the sockets by which they command its links.
struct Started {
    seats: Vec<Seat>,
    links: Vec<LinkSocket>,
    machines: Vec<Running>,
}

/// The folder of the sockets, until all are connected: then nothing is left of them if this process is killed.
struct Sockets {
    folder: Option<TempDir>,
    awaited: usize,
}

impl Sockets {
    fn of(folder: TempDir, seats: &[Seat]) -> Sockets {
        let awaited = seats.iter().map(|seat| seat.guest.sockets().count()).sum();
        Sockets { folder: Some(folder), awaited }
    }

    /// A device is connected; those of the links are before.
    fn joined(&mut self) {
        self.awaited = self.awaited.saturating_sub(1);
        if self.awaited == 0 {
            self.folder = None;
        }
    }
}

pub(crate) fn run(args: &Args, models: &Models) -> Result<(), Failure> {
    let stop = interrupt::flag()?;
    let mut lab = args.opening.read(&args.lab, models)?.with_outside();
    let (places, hosts) = (lab::machine::places(&lab.file), hosts(&lab.file));
    let commands = args.commands(&hosts)?;
    let hexdump_to = lab.outputs.claim_if("--hexdump", args.hexdump.as_deref())?;
    hosts
        .iter()
        .try_for_each(|host| args.machine.claim(&mut lab.outputs, (hosts.len() > 1).then_some(host)))?;
    let mut opened = lab.open(Clock::Virtual)?;
    let options = args.machine.options(&args.command, args.seat.module(), &stop)?;
    args.machine.place(hosts.len())?;
    let folder = tempfile::tempdir().map_err(|e| Failure::Run(format!("a folder for the socket: {e}")))?;
    let (before, clock) = (cpu::seconds(), WallClock::new());
    let Started { mut seats, mut links, mut machines } =
        args.start(&mut opened, &hosts, commands, &options, folder.path())?;
    let mut sockets = Sockets::of(folder, &seats);
    let mut registers = None;
    let served = lab::machine::serve(
        &mut opened.driver,
        seats.iter_mut().map(|seat| &mut seat.guest),
        &mut links,
        (args.machine.pace(), || clock.now()),
        |lab, _, device, told| {
            if hexdump_to.is_some() && registers.is_none() && matches!(told, Told::Gone(_)) {
                registers = Some(hexdump(lab, &places));
            }
            if matches!(told, Told::Joined) {
                sockets.joined();
            }
            tell(device, &told, true);
        },
        || {
            let runs = machines.iter_mut().any(|running| running.machine.poll().is_none());
            !stop.load(Ordering::Relaxed) && runs
        },
    );
    drop(sockets);
    let (names, reports): (Vec<_>, Vec<_>) =
        machines.into_iter().map(|Running { host, machine, kept }| ((host, kept), machine.stop())).unzip();
    if let Some(place) = hexdump_to {
        place.write(&registers.unwrap_or_else(|| hexdump(&mut opened.driver, &places)))?;
    }
    let ended_at = *served.as_ref().unwrap_or(&opened.driver.now());
    opened.kept.finish(&mut opened.driver, ended_at)?;
    if args.json {
        Report::new(&opened, &seats, &reports, cpu::seconds() - before).json()?;
    }
    served.map_err(|e| Failure::Run(format!("serving: {e}")))?;
    if let Some(why) = opened.driver.failure() {
        return Err(Failure::Run(why.to_owned()));
    }
    let mut ends = reports.into_iter().zip(&names);
    ends.try_for_each(|(report, (host, kept))| end(report.end, host, kept, names.len() > 1, &stop))
}

/// How a guest has ended, for who started it.
fn end(end: End, host: &str, kept: &Kept, is_one_of_several: bool, stop: &AtomicBool) -> Result<(), Failure> {
    match end {
        End::Exited(0) => Ok(()),
        End::Exited(status) => Err(Failure::Command(status)),
        End::Stopped if stop.load(Ordering::Relaxed) => Err(Failure::Interrupted("interrupted".to_owned())),
        End::Stopped => Ok(()),
        End::ReaderLeft => Err(Failure::ReaderLeft),
        end => {
            let lines = kept.lines();
            if !lines.is_empty() {
                output::note(format_args!("the end of the kernel's log:\n{lines}"));
            }
            let of = if is_one_of_several { format!("host `{host}`: ") } else { String::new() };
            Err(Failure::Run(format!("{of}{end}")))
        }
    }
}

impl Args {
    /// What the guest of each host runs.
    fn commands(&self, hosts: &[String]) -> Result<Vec<Vec<String>>, Failure> {
        let names = hosts.join(", ");
        let mut own: Vec<(&str, &str)> = Vec::new();
        for given in &self.guest {
            let known = given.split_once('=').filter(|(host, _)| hosts.iter().any(|known| known == host));
            let (host, line) = known.ok_or_else(|| {
                Failure::Usage(format!("--guest `{given}`: HOST=COMMAND is legal, of the hosts {names}"))
            })?;
            if own.iter().any(|(known, _)| *known == host) {
                return Err(Failure::Usage(format!("--guest: `{host}` is named twice")));
            }
            own.push((host, line));
        }
        if hosts.len() > 1 {
            self.machine.check_several()?;
        }
        let shell = |line: &str| ["sh", "-c", line].map(str::to_owned).to_vec();
        let command = |host: &String| match own.iter().find(|(name, _)| name == host) {
            Some((_, line)) => Ok(shell(line)),
            None if hosts.len() > 1 && self.command.is_empty() => Err(Failure::Usage(format!(
                "host `{host}`: a lab with several guests needs a command for each: behind --, or by --guest {host}=COMMAND"
            ))),
            None => Ok(self.command.clone()),
        };
        hosts.iter().map(command).collect()
    }

    /// Starts a guest for each host, when all have their places; sockets are in `folder`.
    fn start(
        &self,
        opened: &mut Opened,
        hosts: &[String],
        commands: Vec<Vec<String>>,
        options: &Options,
        folder: &Path,
    ) -> Result<Started, Failure> {
        let mut started = Started { seats: Vec::new(), links: Vec::new(), machines: Vec::new() };
        for (n, host) in hosts.iter().enumerate() {
            started.seats.push(self.seat.seat(opened, host, &folder.join(format!("host{n}")))?);
            started.links.push(links(opened, &folder.join(format!("links{n}")))?);
        }
        let is_one_of_several = hosts.len() > 1;
        for (n, (seat, command)) in started.seats.iter().zip(commands).enumerate() {
            let links = folder.join(format!("links{n}"));
            let options = self.of_guest(options.clone(), seat, command, &links, is_one_of_several);
            let (kept, name) = (Kept::default(), is_one_of_several.then_some(&*seat.host));
            let machine = self.machine.start(options, kept.clone(), self.json, name)?;
            started.machines.push(Running { host: seat.host.clone(), machine, kept });
        }
        Ok(started)
    }

    /// The machine of one guest.
    fn of_guest(
        &self,
        mut options: Options,
        seat: &Seat,
        command: Vec<String>,
        links: &Path,
        is_one_of_several: bool,
    ) -> Options {
        let chardev = format!("socket,id=links,path={}", links.display());
        let port = "virtserialport,chardev=links,name=riser.links";
        let mut arguments = self.seat.arguments(seat, self.machine.pace() == Pace::Still);
        arguments.extend(["-chardev", &chardev, "-device", port].map(str::to_owned));
        options.qemu_arguments.splice(0..0, arguments.into_iter().map(OsString::from));
        options.scripts.push(("lab".to_owned(), include_str!("lab.sh").to_owned()));
        options.environment.push(("RISER_HOST".to_owned(), seat.host.clone()));
        let words = [self.seat.append(), &options.append].map(str::to_owned);
        options.append = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        options.command = command;
        if is_one_of_several {
            options.input = Input::Nothing;
        }
        options
    }
}
