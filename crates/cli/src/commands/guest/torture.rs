// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser guest torture`: runs a driver's workload under faults, in one machine after another.

use super::run::Args as RunArgs;
use crate::commands::sizes::whole;
use crate::{Failure, output, progress};
use indicatif::ProgressBar;
use plug::Models;
use std::time::Instant;
use worlds::machine::host_names;
use worlds::machine::torture::{
    Listener, MachineEnd, Program, Tally, Torture, TortureEnd, TortureSlot, schedule,
};

/// Number of faults between two lines of progress if there is no progress bar.
const NOTE_FAULTS: u32 = 50;

const EXAMPLE: &str = "\
Examples:
  riser guest torture labs/guest/nvme.toml --module nvme --share . --workload /share/test
  riser guest torture labs/guest/nvme.toml --module nvme --set slot.ssd.hot_plug=true \\
      --package nvme-cli --faults 300 --seed 7 --workload 'nvme id-ctrl /dev/nvme0'
  riser guest torture my.toml --module my.ko --kernel 6.12-debug --memory-mib 1024 \\
      --share . --workload /share/test --json

The workload is a command line for the guest's shell. It runs once before the faults, repeatedly during them, and once after them. The \
first and the last run must succeed. During the faults it may fail; exit status 65 reports lost data.
Faults are drawn from --seed, each for a slot of the lab. Frames are damaged, duplicated or delayed; packets are \
poisoned; completions are misdirected or have an error. There are internal errors, and links that are cut or become \
slow and narrow. Cards are pulled out and put back (hot_plug = true). Functions get a Function Level Reset, lose their \
driver, or are removed and rescanned. The same seed gives the same schedule. If the guest's time is the wall clock, the guest is at another point \
when a fault occurs (see --icount).
Findings are errors that the kernel reports (BUG, WARNING, Oops, lockups, hung tasks), lost data, and functions that \
do not come back. A workload that hangs or fails at the end is a finding too, as are slabs that grow by an object for \
each fault, and reports of kmemleak if the kernel has it.
A kernel that stops is also a finding. Another machine then takes the remaining faults, unless --capture, --record or \
--write-hexdump record one machine. --log FILE is the log of the first machine; the log of the second is FILE.2.
--json prints one object: seed, faults, seconds, machines, kinds, rounds_well, rounds_failed, rescues, findings, and schedule: for each \
fault that occurred a pause in ms, its kind, and its parameters. The exit status is 1 if there \
are findings. Ctrl-C ends the run with the report so far.";

/// Run a workload repeatedly while faults occur, and report how the kernel handled them
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
#[group(id = "torture")]
pub(crate) struct Args {
    #[command(flatten)]
    run: RunArgs,

    /// Workload for the driver: a command line for the guest's shell
    #[arg(long, value_name = "LINE")]
    workload: String,

    /// Number of faults
    #[arg(long, value_name = "COUNT", default_value = "200", value_parser = whole::<u32>(1..=100_000))]
    faults: u32,
}

pub(crate) fn run(mut args: Args, models: &Models) -> Result<(), Failure> {
    if args.run.has_command() {
        return Err(Failure::Usage("COMMAND: not used here, because the guest runs --workload; leave out `--` and the words after it".to_owned()));
    }
    let module = args.run.machine().last_module().ok_or_else(|| {
        Failure::Usage("--module is missing: the last --module is the driver under test".to_owned())
    })?;
    let file = args.run.lab(models)?;
    let slots: Vec<TortureSlot> = file.lab.slot.iter().map(TortureSlot::from).collect();
    if slots.is_empty() {
        return Err(Failure::Usage("the lab has no slot, expected one or more".to_owned()));
    }
    if host_names(&file).len() > 1 {
        return Err(Failure::Usage("the lab has several external hosts, expected one".to_owned()));
    }
    let (begun, json) = (Instant::now(), args.run.take_json());
    let schedule = schedule(&slots, file.lab.seed, args.faults);
    let bar = progress::bar("{bar:30} {pos}/{len} faults, {msg} {elapsed}");
    bar.set_length(args.faults.into());
    let shown = bar.clone();
    let listener = Listener::new(Tally::new(file.lab.seed), move |tally| show(&shown, tally));
    let ended = run_schedule(args, &module, &schedule, &listener, models);
    bar.finish_and_clear();
    listener.with(|tally| {
        if tally.is_empty() && matches!(ended, Err(Failure::Usage(_) | Failure::Run(_))) {
            return ended;
        }
        tally.seconds = begun.elapsed().as_secs();
        tally.schedule = schedule.iter().take(tally.faults as usize).cloned().collect();
        output::report(json, tally)?;
        ended?;
        if tally.findings.is_empty() { Ok(()) } else { Err(Failure::Command(1)) }
    })
}

/// Runs the schedule. Options of the machines are those of `riser guest run`.
fn run_schedule(
    args: Args,
    module: &str,
    schedule: &[String],
    listener: &Listener,
    models: &Models,
) -> Result<(), Failure> {
    let Args { mut run, workload, .. } = args;
    let kept = run.keeps();
    let torture = Torture { module, workload: &workload, schedule, listener, is_single: kept.is_some() };
    let ended = torture.run(|number, program: Program| {
        run.run_program(program);
        run.number_log(number);
        match super::run::run(&run, models) {
            Ok(()) => MachineEnd::Ended,
            Err(Failure::Run(why)) => MachineEnd::Failed(why.clone(), Failure::Run(why)),
            Err(status @ Failure::Command(_)) => MachineEnd::Status(status),
            Err(other) => MachineEnd::Other(other),
        }
    });
    match (ended?, kept) {
        (TortureEnd::Stuck(why), _) => Err(Failure::Run(why)),
        (TortureEnd::Stopped(faults), Some(kept)) => {
            output::note(format_args!("stopped after fault {faults}: {kept} records one machine only"));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Shows the progress on the bar, or as lines.
fn show(bar: &ProgressBar, tally: &Tally) {
    let state = format!("machine {}, {} findings", tally.machines, tally.findings.len());
    if bar.is_hidden() && tally.faults / NOTE_FAULTS > bar.position() as u32 / NOTE_FAULTS {
        output::note(format_args!("torture: {} faults, {state}", tally.faults));
    }
    bar.set_position(tally.faults.into());
    bar.set_message(state + ",");
}
