// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser guest run`: runs a lab together with guests that boot a stock kernel, from `riser-vm`, `riser-worlds` and `riser-guest`.

use super::machine::MachineArgs;
use super::vm_args::VmArgs;
use crate::commands::outside::Opening;
use crate::{Failure, interrupt, output};
use files::ClaimedOutput;
use lab::LabFile;
use nettlp::net::Clock as WallClock;
use plug::Models;
use session::external::Clock;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use vm::machine::{End, Log};
use vm::{Machine, Options};
use worlds::machine::torture::Program;
use worlds::machine::{
    Ended, Guest, GuestPlan, GuestSockets, GuestSupervisor, Guests, VmReport, hexdump, socket_folder,
};

const EXAMPLE: &str = "\
Examples:
  riser guest run labs/tree.toml -- lspci -tv
  riser guest run labs/seven.toml                    # a shell
  riser guest run labs/tree.toml --capture boot.pcapng -- dmesg
  riser guest run labs/sriov.toml --share . --module drivers/my.ko -- /share/test.sh
  riser guest run labs/tree.toml --kernel 6.12 --smp 2 --package nvme-cli -- nvme list
  riser guest run labs/tree.toml --direct --vtd -- lspci -vv     # each device by itself
  riser guest run two.toml --guest a=lspci --guest b=dmesg       # for two [[external_host]]
  riser guest run labs/guest/nics.toml --cable a=b --module e1000e    # two NICs, joined
  riser guest run labs/nettlp/host.toml --nettlp-allow 127.0.0.2,all,rw
  riser guest run labs/sriov.toml --share . --assign a=card.virtfn0 \\
      --guest root='sh /share/enable-vfs; lab start a; lab wait a' --guest a='lspci -vv'

The lab's host is a stock Linux kernel in a QEMU virtual machine. The kernel finds the hierarchy as PCI domain 10000, below Intel's \
VMD. riser fetches what it needs once from Debian's packages, and keeps it; --qemu and --kernel name other files. Kernels other than \
Debian's need the module vmd.
A lab with several external hosts has one guest for each. All run the command, with the host's name in $RISER_HOST, unless \
--guest gives a guest another command. Each line that they print begins with the host's name.
A guest with virtual functions (--assign) starts at `lab start NAME` in another guest, and ends at the latest when the lab's own guest ends.
In a guest, `lab cut NAME` cuts the link of a slot or switch, and `lab help` lists all such commands.
--json prints one object at the end, and the output of the command goes to standard error: status, boot_cpu_seconds, \
qemu_cpu_seconds, guest: {clients, reads, writes, resets, interrupts, ...}, guests: [{host, ...}] if there are several, lab: the \
object of `riser run --json`.
The exit status is that of the command; of several guests, that of the first that failed. It is 1 if the command has no status, because the guest failed or lost its lab.";

/// Arguments that record one machine.
const KEEPING: [&str; 3] = ["--capture", "--record", "--write-hexdump"];

/// Run a command, or a shell, on a stock Linux kernel above a lab
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Lab; the kernel replaces its simulated host
    #[arg(value_name = "LAB.toml")]
    lab: PathBuf,

    #[command(flatten)]
    opening: Opening,

    /// Write the final registers of all functions to this file, in the format that `lspci -F` reads
    #[arg(long = "write-hexdump", alias = "hexdump", value_name = "FILE")]
    hexdump: Option<PathBuf>,

    #[command(flatten)]
    vm: VmArgs,

    /// With several guests: shell command line for the guest of this host, or of this --assign name; can be given several times
    #[arg(long, value_name = "NAME=COMMAND")]
    guest: Vec<String>,

    #[command(flatten)]
    machine: MachineArgs,

    /// Print one JSON object, at the end; the output of the command goes to standard error
    #[arg(long)]
    json: bool,

    /// Command that the guest runs [default: a shell]
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,

    /// Program that the guest runs instead of a command.
    #[arg(skip)]
    program: Option<Program>,
}

pub(crate) fn run(args: &Args, models: &Models) -> Result<(), Failure> {
    let stop = interrupt::flag()?;
    let mut lab = args.opening.read(&args.lab, models)?.with_outside();
    let (places, names) = (lab::Hierarchy::hosts(&lab.file), args.vm.names(&lab.file)?);
    let all = names.all();
    let commands = names.commands(&args.guest, &args.command).map_err(Failure::usage)?;
    if all.len() > 1 {
        args.machine.check_several()?;
    }
    let hexdump_to = lab.outputs.claim_if("--write-hexdump", args.hexdump.as_deref())?;
    all.iter().try_for_each(|name| args.machine.claim(&mut lab.outputs, (all.len() > 1).then_some(name)))?;
    let hexdump_to = hexdump_to.map(ClaimedOutput::prepare).transpose()?;
    let mut opened = lab.open(Clock::Virtual)?;
    let mut transports = args.vm.transports(&opened)?;
    // An unusable TMPDIR is reported before parts are fetched.
    drop(socket_folder().map_err(Failure::run)?);
    let options = args.machine.options(args.command.is_empty(), &stop)?;
    let own_processor = args.machine.pin(all.len(), opened.driver.session().fabric.is_clocked())?;
    let folder = socket_folder().map_err(Failure::run)?;
    let (before, clock) = (session::cpu_seconds(), WallClock::new());
    let socket = |name: &str| match names.hosts.iter().position(|host| host == name) {
        Some(n) => folder.path().join(format!("host{n}")),
        None => folder.path().join(format!("machine-{name}")),
    };
    let mut hosts = args.vm.open_hosts(&mut opened, &names, socket)?;
    let (vm, program, path) = (args.vm.options(), args.program.as_ref(), folder.path());
    let plan = GuestPlan { names: &names, vm, options: &options, commands, program, folder: path };
    let (guests, mut links) = plan.guests(&opened.driver, &hosts)?;
    let are_several = all.len() > 1;
    let mut guests = Guests::new(guests, |name, options| args.start(options, are_several.then_some(name)));
    guests.start()?;
    let mut supervisor = GuestSupervisor {
        guests,
        sockets: GuestSockets::new(folder, &hosts),
        hexdump: hexdump_to.is_some().then_some(&*places),
        listener: args.program.as_ref().map(|program| &program.listener),
        watch: output::watch(true),
        stop: &stop,
        ended: Ended::default(),
    };
    let served = worlds::machine::serve(
        &mut opened.driver,
        hosts.iter_mut(),
        &mut links,
        &mut transports,
        (args.machine.pace(own_processor), || clock.now()),
        &mut supervisor,
    );
    let GuestSupervisor { mut guests, sockets, watch, ended: Ended { registers, lost }, .. } = supervisor;
    drop(sockets);
    guests.stop();
    if let Some(place) = hexdump_to {
        place.write(&registers.unwrap_or_else(|| hexdump(&mut opened.driver, &places)))?;
    }
    let ended_at = *served.as_ref().unwrap_or(&opened.driver.now());
    opened.kept.finish(&mut opened.driver, ended_at)?;
    watch.end(&opened.driver);
    if args.json {
        let spent = session::cpu_seconds() - before;
        let report = VmReport::new(&opened.driver, &opened.name, &hosts, guests.all(), spent);
        output::json(&report.interrupted(interrupt::has_come()))?;
    }
    served.map_err(|e| Failure::Run(format!("serving: {e}")))?;
    if let Some(why) = opened.driver.failure() {
        return Err(Failure::run(why));
    }
    args.end(guests.all(), &stop)?;
    lost.map_or(Ok(()), |why| Err(Failure::Run(why)))
}

impl Args {
    /// Replaces the command by a program of riser.
    pub(super) fn run_program(&mut self, program: Program) {
        self.command = vec![program.name.to_owned()];
        self.program = Some(program);
    }

    /// Returns the first given argument that records one machine.
    pub(super) fn keeps(&self) -> Option<&'static str> {
        let hexdump = ("--write-hexdump", self.hexdump.is_some());
        let kept = |(flag, is_given)| (is_given && KEEPING.contains(&flag)).then_some(flag);
        self.opening.given().into_iter().chain([hexdump]).find_map(kept)
    }

    /// Sets the name of the log for machine number `n`.
    pub(super) fn number_log(&mut self, n: u32) {
        self.machine.number_log(n);
    }

    /// True if a command is given.
    pub(super) fn has_command(&self) -> bool {
        !self.command.is_empty() || !self.guest.is_empty()
    }

    /// Returns whether JSON output is requested, and clears the request, because the program prints the JSON.
    pub(super) fn take_json(&mut self) -> bool {
        std::mem::take(&mut self.json)
    }

    pub(super) fn machine(&self) -> &MachineArgs {
        &self.machine
    }

    /// Reads the lab with its settings.
    pub(super) fn lab(&self, models: &Models) -> Result<LabFile, Failure> {
        Ok(self.opening.read(&self.lab, models)?.file)
    }

    /// Starts the machine of a guest. `name` is given if there are several.
    fn start(&self, options: Options, name: Option<&str>) -> vm::Result<Machine> {
        let stdout: Box<dyn Write + Send> = match &self.program {
            Some(program) => Box::new(program.listener.clone()),
            None if self.json || files::is_diverted() => Box::new(io::stderr()),
            None => Box::new(io::stdout()),
        };
        self.machine.start(options, stdout, name)
    }

    /// Returns the first failure of a guest.
    fn end(&self, guests: &[Guest], stop: &AtomicBool) -> Result<(), Failure> {
        for Guest { name, .. } in guests.iter().filter(|guest| guest.waits()) {
            output::note(format_args!(
                "guest `{name}` was never started: run `lab start {name}` in another guest"
            ));
        }
        guests.iter().try_for_each(|guest| self.end_of(guest, guests.len() > 1, stop))
    }

    fn end_of(&self, guest: &Guest, is_one_of_several: bool, stop: &AtomicBool) -> Result<(), Failure> {
        let Some(report) = guest.report() else { return Ok(()) };
        match &report.end {
            End::Exited(0) => Ok(()),
            End::Exited(status) => {
                self.machine.print_log("the kernel has reported", report, Log::complaint);
                Err(Failure::Command(*status))
            }
            End::Stopped if stop.load(Ordering::Relaxed) => {
                Err(Failure::Interrupted("interrupted".to_owned()))
            }
            End::Stopped => Ok(()),
            End::ReaderLeft => Err(Failure::ReaderLeft),
            end => {
                self.machine.print_log("the end of the kernel's log", report, Log::last_lines);
                let of = if is_one_of_several { format!("host `{}`: ", guest.name) } else { String::new() };
                // QEMU ends if one of its devices is missing. The reason is then in `misplaced`.
                let why = guest.misplaced().map_or_else(|| end.to_string(), str::to_owned);
                Err(Failure::Run(format!("{of}{why}")))
            }
        }
    }
}
