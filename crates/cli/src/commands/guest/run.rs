// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser guest run`: a lab below a stock kernel, started and ended together, from `riser-vm`, `riser-lab` and `riser-guest`.

use super::findings::Findings;
use super::hexdump::hexdump;
use super::machine::{Kept, MachineArgs, load};
use super::members::{COMMANDS, Member, Members, State};
use super::report::Report;
use super::seat::{Assigned, Seat, SeatArgs, check_files, hosts, links, lost, machines, tell};
use super::sockets;
use crate::commands::outside::{Opened, Opening};
use crate::failure::Failure;
use crate::interrupt;
use crate::outputs::Place;
use lab::LabFile;
use nettlp::net::Clock as WallClock;
use plug::Models;
use session::external::{Clock, Driver};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;
use vm::Options;
use vm::machine::Input;
use worlds::machine::{LinkSocket, Supervisor, VmEvent};

const EXAMPLE: &str = "\
Examples:
  riser guest run labs/tree.toml -- lspci -tv
  riser guest run labs/seven.toml                    # a shell
  riser guest run labs/tree.toml --capture boot.pcapng -- dmesg
  riser guest run labs/sriov.toml --share . --module drivers/my.ko -- /share/test.sh
  riser guest run labs/tree.toml --kernel 6.12 --smp 2 --package nvme-cli -- nvme list
  riser guest run labs/tree.toml --direct --iommu -- lspci -vv   # each device by itself
  riser guest run two.toml --guest a=lspci --guest b=dmesg       # for two [[external_host]]
  riser guest run labs/guest/nics.toml --cable a=b --module e1000e    # two NICs, joined
  riser guest run labs/nettlp/host.toml --nettlp-allow 127.0.0.2,all,rw
  riser guest run labs/sriov.toml --share . --assign a=card.virtfn0 \\
      --guest root='sh /share/enable-vfs; lab start a; lab wait a' --guest a='lspci -vv'

The lab's host is a stock Linux kernel in a virtual machine of QEMU's, which finds the hierarchy as PCI domain 10000, behind Intel's \
VMD. What it needs is fetched once from Debian's packages, and kept; --qemu and --kernel name other files. Kernels other than \
Debian's need the module vmd.
A lab with several hosts outside has a guest for each: all run the command, with the host's name in $RISER_HOST, but those that \
--guest gives another; what they print has the name before each line.
A guest that has virtual functions (--assign) begins when one says `lab start NAME`, and ends with the lab's own at the latest.
In the guest, `lab cut NAME` cuts the link of a slot or switch, and `lab help` says what else can be done to the lab.
--json prints one object in the end, and what the command prints goes to standard error: status, boot_cpu_seconds, \
qemu_cpu_seconds, guest: {clients, reads, writes, resets, interrupts, ...}, guests: [{host, ...}] where there are several, lab: what \
`riser run --json` prints.
The exit status is the command's, of several guests that of the first in order which failed; 1 where there is none, since the guest failed, or has lost its lab.";

/// What keeps something of a machine.
const KEEPING: [&str; 3] = ["--capture", "--record", "--hexdump"];

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

    /// Of several guests: what the one of this host, or of this name of --assign, runs, a line for its shell; may be given again
    #[arg(long, value_name = "NAME=COMMAND")]
    guest: Vec<String>,

    #[command(flatten)]
    machine: MachineArgs,

    /// Print one JSON object in the end; what the command prints goes to standard error
    #[arg(long)]
    json: bool,

    /// The command that the guest runs; without it a shell
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,

    /// What the guest runs in place of a command.
    #[arg(skip)]
    program: Option<Program>,
}

/// A program of riser's own for the guest.
pub(super) struct Program {
    /// Which of its files is run.
    pub(super) name: &'static str,
    /// By name and text.
    pub(super) files: Vec<(String, String)>,
    /// By name and value.
    pub(super) environment: Vec<(String, String)>,
    /// Who hears it.
    pub(super) overseer: Rc<dyn Overseer>,
}

/// Hears a program of riser's own while it runs.
pub(super) trait Overseer {
    /// Where its standard output goes.
    fn stdout(&self) -> Box<dyn Write + Send>;

    /// Whether its machine is to go on.
    fn goes_on(&self) -> bool;
}

/// The guests of a run, with their places in the lab, and the sockets by which they command its links.
struct Started<'a> {
    seats: Vec<Seat>,
    links: Vec<LinkSocket>,
    members: Members<'a>,
}

/// The folder of the sockets, until all are connected: then nothing is left of them if this process is killed.
struct Sockets {
    folder: Option<TempDir>,
    awaited: usize,
}

impl Sockets {
    /// Guests that begin again need them to the end.
    fn of(folder: TempDir, seats: &[Seat]) -> Sockets {
        let all = || seats.iter().flat_map(|seat| seat.guest.sockets());
        let awaited = if all().any(|socket| socket.machine.is_some()) { usize::MAX } else { all().count() };
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

/// Keeps the guests while they are served.
struct RunSupervisor<'a> {
    members: Members<'a>,
    sockets: Sockets,
    /// The places whose registers are wanted, as they are when the first machine goes.
    hexdump: Option<&'a [String]>,
    registers: Option<String>,
    /// The device that a running machine has lost, and why. The run ends then.
    lost: Option<String>,
    findings: Findings,
    stop: &'a AtomicBool,
}

impl Supervisor for RunSupervisor<'_> {
    fn notify(&mut self, lab: &mut Driver, _: usize, device: &str, told: VmEvent) {
        if let (Some(places), None, VmEvent::Gone(_) | VmEvent::Lost(_)) =
            (self.hexdump, &self.registers, &told)
        {
            self.registers = Some(hexdump(lab, places));
        }
        if matches!(told, VmEvent::Joined) {
            self.sockets.joined();
        }
        if let VmEvent::Misplaced(why) = &told {
            self.members.misplaced(device, why);
        }
        match &told {
            VmEvent::Lost(why) => drop(self.lost.get_or_insert(format!("{device}: {}", lost(why)))),
            _ => tell(device, &told, true),
        }
    }

    fn look(&mut self, lab: &Driver) {
        self.findings.tell(lab);
    }

    fn goes_on(&mut self) -> bool {
        let runs = self.members.run();
        let is_wanted = self.members.overseer.is_none_or(Overseer::goes_on);
        !self.stop.load(Ordering::Relaxed) && runs && is_wanted && self.lost.is_none()
    }

    fn obey(&mut self, command: &str) -> Option<Result<String, String>> {
        self.members.obey(command)
    }

    fn commands(&self) -> &'static [&'static str] {
        &COMMANDS
    }
}

pub(crate) fn run(args: &Args, models: &Models) -> Result<(), Failure> {
    let stop = interrupt::flag()?;
    let mut lab = args.opening.read(&args.lab, models)?.with_outside();
    let (places, hosts) = (lab::Hierarchy::hosts(&lab.file), hosts(&lab.file));
    let assigned = args.seat.assigned(&hosts)?;
    let names: Vec<String> = hosts.iter().chain(assigned.iter().map(|a| &a.machine)).cloned().collect();
    let commands = args.commands(&names)?;
    let hexdump_to = lab.outputs.claim_if("--hexdump", args.hexdump.as_deref())?;
    names
        .iter()
        .try_for_each(|name| args.machine.claim(&mut lab.outputs, (names.len() > 1).then_some(name)))?;
    let hexdump_to = hexdump_to.map(Place::prepare).transpose()?;
    let mut opened = lab.open(Clock::Virtual)?;
    let mut transports = args.seat.transports(&opened)?;
    drop(sockets::folder()?);
    let options = args.machine.options(args.command.is_empty(), &stop)?;
    let own_processor = args.machine.place(names.len(), opened.driver.session().fabric.is_clocked())?;
    let folder = sockets::folder()?;
    let (before, clock) = (session::cpu_seconds(), WallClock::new());
    let Started { mut seats, mut links, members } =
        args.start(&mut opened, (&hosts, &assigned), commands, &options, folder.path())?;
    let sockets = Sockets::of(folder, &seats);
    let hexdump_of = hexdump_to.is_some().then_some(&*places);
    let (registers, lost, findings) = (None, None, Findings::default());
    let mut supervisor =
        RunSupervisor { members, sockets, hexdump: hexdump_of, registers, lost, findings, stop: &stop };
    let served = worlds::machine::serve(
        &mut opened.driver,
        seats.iter_mut().map(|seat| &mut seat.guest),
        &mut links,
        &mut transports,
        (args.machine.pace(own_processor), || clock.now()),
        &mut supervisor,
    );
    let RunSupervisor { mut members, sockets, registers, lost, findings, .. } = supervisor;
    drop(sockets);
    members.stop();
    if let Some(place) = hexdump_to {
        place.write(&registers.unwrap_or_else(|| hexdump(&mut opened.driver, &places)))?;
    }
    let ended_at = *served.as_ref().unwrap_or(&opened.driver.now());
    opened.kept.finish(&mut opened.driver, ended_at)?;
    findings.end(&opened.driver);
    if args.json {
        Report::new(&opened, &seats, &members.all, session::cpu_seconds() - before).json()?;
    }
    served.map_err(|e| Failure::Run(format!("serving: {e}")))?;
    if let Some(why) = opened.driver.failure() {
        return Err(Failure::Run(why.to_owned()));
    }
    members.end(&stop)?;
    lost.map_or(Ok(()), |why| Err(Failure::Run(why)))
}

impl Args {
    /// Runs a program of riser's own in place of a command.
    pub(super) fn run_program(&mut self, program: Program) {
        self.command = vec![program.name.to_owned()];
        self.program = Some(program);
    }

    /// The argument, if it is given, that keeps something of one machine.
    pub(super) fn keeps(&self) -> Option<&'static str> {
        let hexdump = ("--hexdump", self.hexdump.is_some());
        let kept = |(flag, is_given)| (is_given && KEEPING.contains(&flag)).then_some(flag);
        self.opening.given().into_iter().chain([hexdump]).find_map(kept)
    }

    /// Has the log be that of machine number `n`.
    pub(super) fn number_log(&mut self, n: u32) {
        self.machine.number_log(n);
    }

    /// Whether a command is given.
    pub(super) fn has_command(&self) -> bool {
        !self.command.is_empty() || !self.guest.is_empty()
    }

    /// Leaves the one JSON object to the program: whether it is wanted.
    pub(super) fn take_json(&mut self) -> bool {
        std::mem::take(&mut self.json)
    }

    pub(super) fn machine(&self) -> &MachineArgs {
        &self.machine
    }

    /// The lab, as it will be run.
    pub(super) fn lab(&self, models: &Models) -> Result<LabFile, Failure> {
        Ok(self.opening.read(&self.lab, models)?.file)
    }

    /// What each guest runs.
    fn commands(&self, hosts: &[String]) -> Result<Vec<Vec<String>>, Failure> {
        let names = hosts.join(", ");
        let mut own: Vec<(&str, &str)> = Vec::new();
        for given in &self.guest {
            let known = given.split_once('=').filter(|(host, _)| hosts.iter().any(|known| known == host));
            let (host, line) = known.ok_or_else(|| {
                Failure::Usage(format!("--guest `{given}`: NAME=COMMAND is legal, of the guests {names}"))
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
                "guest `{host}`: several guests need a command for each: behind --, or by --guest {host}=COMMAND"
            ))),
            None => Ok(self.command.clone()),
        };
        hosts.iter().map(command).collect()
    }

    /// Starts a guest for each host, when all have their places; sockets are in `folder`.
    fn start(
        &self,
        opened: &mut Opened,
        (hosts, assigned): (&[String], &[Assigned]),
        commands: Vec<Vec<String>>,
        options: &Options,
        folder: &Path,
    ) -> Result<Started<'_>, Failure> {
        let assigned = assigned.iter().map(|a| (a.clone(), folder.join(format!("machine-{}", a.machine))));
        let assigned: Vec<_> = assigned.collect();
        let (mut seats, mut links, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for (n, host) in hosts.iter().enumerate() {
            seats.push(self.seat.seat(opened, host, &folder.join(format!("host{n}")), &assigned)?);
        }
        check_files(&seats)?;
        let is_one_of_several = commands.len() > 1;
        for (n, ((seat, machine), command)) in machines(&seats).zip(commands).enumerate() {
            let socket = folder.join(format!("links{n}"));
            links.push(self::links(opened, &socket)?);
            let name = machine.unwrap_or(&seat.host).to_owned();
            let options =
                self.of_guest(options.clone(), (seat, machine), &name, command, &socket, is_one_of_several);
            let functions = assigned.iter().find(|(a, _)| Some(&*a.machine) == machine);
            let functions = functions.map(|(a, _)| a.functions.clone()).unwrap_or_default();
            let (kept, state) = (Kept::default(), State::Waits);
            all.push(Member { name, functions, misplaced: None, options, kept, state });
        }
        let overseer = self.program.as_ref().map(|program| &*program.overseer);
        let mut members = Members { all, machine: &self.machine, aside: self.json, overseer };
        members.begin()?;
        Ok(Started { seats, links, members })
    }

    /// The machine of one guest.
    fn of_guest(
        &self,
        mut options: Options,
        (seat, machine): (&Seat, Option<&str>),
        name: &str,
        command: Vec<String>,
        links: &Path,
        is_one_of_several: bool,
    ) -> Options {
        // In QEMU's options a comma ends a value; a doubled comma is part of it.
        let chardev = format!("socket,id=links,path={}", links.display().to_string().replace(',', ",,"));
        let port = "virtserialport,chardev=links,name=riser.links";
        let mut arguments = self.seat.arguments(seat, machine, self.machine.is_still());
        arguments.extend(["-chardev", &chardev, "-device", port].map(str::to_owned));
        options.qemu_arguments.splice(0..0, arguments.into_iter().map(OsString::from));
        options.modules.splice(0..0, self.seat.module(machine).map(load));
        options.expected.extend(self.seat.expected(machine).map(str::to_owned));
        options.scripts.push(("lab".to_owned(), include_str!("lab.sh").to_owned()));
        options.environment.push(("RISER_HOST".to_owned(), name.to_owned()));
        if let Some(program) = &self.program {
            options.scripts.extend(program.files.iter().cloned());
            options.environment.extend(program.environment.iter().cloned());
        }
        let words = [self.seat.append(machine), &options.append].map(str::to_owned);
        options.append = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        options.command = command;
        if is_one_of_several {
            options.input = Input::Nothing;
        }
        options
    }
}
