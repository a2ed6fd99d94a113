// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser guest run`: a lab below a stock kernel, started and ended together, from `riser-vm`, `riser-lab` and `riser-guest`.

use super::hexdump::hexdump;
use super::machine::{Kept, MachineArgs};
use super::report::Report;
use super::seat::{HOT_PLUG, device, links, seat, tell};
use crate::commands::cpu;
use crate::commands::outside::Opening;
use crate::failure::Failure;
use crate::{interrupt, output};
use lab::external::Clock;
use lab::machine::Told;
use nettlp::net::Clock as WallClock;
use plug::Models;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use vm::machine::End;

const EXAMPLE: &str = "\
Examples:
  riser guest run labs/tree.toml -- lspci -tv
  riser guest run labs/seven.toml                    # a shell
  riser guest run labs/tree.toml --capture boot.pcapng -- dmesg
  riser guest run labs/sriov.toml --share . --module drivers/my.ko -- /share/test.sh
  riser guest run labs/tree.toml --kernel 6.12 --smp 2 --package nvme-cli -- nvme list

The lab's host is a stock Linux kernel in a virtual machine of QEMU's, which finds the hierarchy as PCI domain 10000, behind Intel's \
VMD. What it needs is fetched once from Debian's packages, and kept; --qemu and --kernel name other files. Kernels other than \
Debian's need the module vmd.
In the guest, `lab cut NAME` cuts the link of a slot or switch, and `lab help` says what else can be done to the lab.
--json prints one object in the end, and what the command prints goes to standard error: status, boot_cpu_seconds, \
qemu_cpu_seconds, guest: {clients, reads, writes, resets, interrupts, ...}, lab: what `riser run --json` prints.
The exit status is the command's; 1 where there is none, since the guest failed.";

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
    machine: MachineArgs,

    /// Print one JSON object in the end; what the command prints goes to standard error
    #[arg(long)]
    json: bool,

    /// The command that the guest runs; without it a shell
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) fn run(args: &Args, models: &Models) -> Result<(), Failure> {
    let stop = interrupt::flag()?;
    let mut lab = args.opening.read(&args.lab, models)?.with_outside();
    let hexdump_to = lab.outputs.claim_if("--hexdump", args.hexdump.as_deref())?;
    args.machine.claim(&mut lab.outputs)?;
    let mut opened = lab.open(Clock::Virtual)?;
    let mut options = args.machine.options(&args.command, &stop)?;
    let folder = tempfile::tempdir().map_err(|e| Failure::Run(format!("a folder for the socket: {e}")))?;
    let socket = folder.path().join("vmd");
    let mut guests = [seat(&opened, &socket)?];
    let links_path = folder.path().join("links");
    let links = links(&opened, &links_path)?;
    let chardev = format!("socket,id=links,path={}", links_path.display());
    let device = device(&socket);
    let port = "virtserialport,chardev=links,name=riser.links";
    let arguments = ["-global", HOT_PLUG, "-device", &device, "-chardev", &chardev, "-device", port];
    options.qemu_arguments.splice(0..0, arguments.map(OsString::from));
    options.scripts.push(("lab".to_owned(), include_str!("lab.sh").to_owned()));
    let kept = Kept::default();
    let (before, clock) = (cpu::seconds(), WallClock::new());
    let mut machine = args.machine.start(options, kept.clone(), args.json)?;
    let mut registers = None;
    let served = lab::machine::serve(
        &mut opened.driver,
        &mut guests,
        Some(links),
        || clock.now(),
        |lab, _, told| {
            if hexdump_to.is_some() && matches!(told, Told::Gone(_)) {
                registers = Some(hexdump(lab));
            }
            tell(&told, true);
        },
        || !stop.load(Ordering::Relaxed) && machine.poll().is_none(),
    );
    let report = machine.stop();
    if let Some(place) = hexdump_to {
        place.write(&registers.unwrap_or_else(|| hexdump(&mut opened.driver)))?;
    }
    opened.kept.finish(&mut opened.driver, clock.now())?;
    if args.json {
        let spent = cpu::seconds() - before;
        Report::new(&opened, &guests[0], spent).with_machine(&report).json()?;
    }
    served.map_err(|e| Failure::Run(format!("serving: {e}")))?;
    if let Some(why) = opened.driver.failure() {
        return Err(Failure::Run(why.to_owned()));
    }
    match report.end {
        End::Exited(0) => Ok(()),
        End::Exited(status) => Err(Failure::Command(status)),
        End::Stopped if stop.load(Ordering::Relaxed) => Err(Failure::Interrupted("interrupted".to_owned())),
        End::Stopped => Ok(()),
        end => {
            let lines = kept.lines();
            if !lines.is_empty() {
                output::note(format_args!("the end of the kernel's log:\n{lines}"));
            }
            Err(Failure::Run(end.to_string()))
        }
    }
}
