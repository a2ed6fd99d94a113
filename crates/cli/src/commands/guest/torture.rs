// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser guest torture`: a driver's workload under faults, in one machine after another.

use super::run::{Args as RunArgs, Program};
use crate::failure::Failure;
use crate::{output, progress};
use indicatif::ProgressBar;
use plug::Models;
use std::time::Instant;
use worlds::machine::host_names;
use worlds::machine::torture::{LastWord, Listener, SCRIPT, Tally, TortureSlot, schedule};

/// Without a progress bar, a line reports every so many faults.
const NOTE_FAULTS: u32 = 50;

const EXAMPLE: &str = "\
Examples:
  riser guest torture labs/guest/nvme.toml --module nvme --share . --workload /share/test
  riser guest torture labs/guest/nvme.toml --module nvme --set slot.ssd.hot_plug=true \\
      --package nvme-cli --faults 300 --seed 7 --workload 'nvme id-ctrl /dev/nvme0'
  riser guest torture my.toml --module my.ko --kernel 6.12-debug --memory 1024 \\
      --share . --workload /share/test --json

The workload is a line for the guest's shell. It runs once before all faults, again and again while they come, and once behind them: the first and \
the last run must end well. While faults come it may fail; with status 65 it says that data were lost.
Faults are drawn from --seed, for a slot of the lab each: frames damaged, doubled or held up, packets poisoned, completions astray or with an error, \
internal errors, links that are cut, or become slow and narrow, slots pulled out and put back (hot_plug = true), Function Level Resets, \
drivers unbound, functions removed and found again. The same seed gives the same schedule, though a guest whose time is the wall clock's is elsewhere \
when a fault comes (see --icount).
Findings are what the kernel reports of itself (BUG, WARNING, Oops, lockups, tasks that hang), data that were lost, functions that do not come back, a \
workload that hangs or fails in the end, slabs that grow by an object for each fault, and what kmemleak has where the kernel has that.
A kernel that does not go on is a finding too: another machine takes its place, for the faults that are left, but where --capture, --record or \
--hexdump keep one machine. --log FILE is of the first; that of the second is FILE.2.
--json prints one object: seed, faults, seconds, machines, kinds, rounds_well, rounds_failed, rescues, findings, and schedule, which has each \
fault that has come: a pause in ms, its kind, and its parameters. The exit status is 1 where there \
are findings. Ctrl-C ends with the report so far.";

/// Run a workload again and again while faults come, and say what the kernel made of them
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
#[group(id = "torture")]
pub(crate) struct Args {
    #[command(flatten)]
    run: RunArgs,

    /// What the driver is to do: a line for the guest's shell
    #[arg(long, value_name = "LINE")]
    workload: String,

    /// How many faults
    #[arg(long, value_name = "COUNT", default_value = "200", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    faults: u32,
}

/// A schedule of faults in one machine after another.
struct Torture<'a> {
    args: Args,
    module: String,
    schedule: &'a [String],
    listener: Listener,
    models: &'a Models,
}

pub(crate) fn run(mut args: Args, models: &Models) -> Result<(), Failure> {
    if args.run.has_command() {
        return Err(Failure::Usage("the guest runs what --workload says, and no command".to_owned()));
    }
    let module = args.run.machine().last_module().ok_or_else(|| {
        Failure::Usage("--module is needed: the last one is the driver that is tortured".to_owned())
    })?;
    let file = args.run.lab(models)?;
    let slots: Vec<TortureSlot> = file.lab.slot.iter().map(TortureSlot::from).collect();
    if slots.is_empty() {
        return Err(Failure::Usage("the lab has no slot".to_owned()));
    }
    if host_names(&file).len() > 1 {
        return Err(Failure::Usage("the lab has several hosts outside: one is tortured".to_owned()));
    }
    let (begun, json) = (Instant::now(), args.run.take_json());
    let schedule = schedule(&slots, file.lab.seed, args.faults);
    let bar = progress::bar("{bar:30} {pos}/{len} faults, {msg} {elapsed}");
    bar.set_length(args.faults.into());
    let shown = bar.clone();
    let listener = Listener::new(Tally::new(file.lab.seed), move |tally| show(&shown, tally));
    let ended = Torture { args, module, schedule: &schedule, listener: listener.clone(), models }.run();
    bar.finish_and_clear();
    listener.with(|tally| {
        if tally.is_empty() && matches!(ended, Err(Failure::Usage(_) | Failure::Run(_))) {
            return ended;
        }
        tally.seconds = begun.elapsed().as_secs();
        tally.schedule = schedule.iter().take(tally.faults as usize).cloned().collect();
        if json { output::json(tally) } else { output::text(&tally.to_string()) }?;
        ended?;
        if tally.findings.is_empty() { Ok(()) } else { Err(Failure::Command(1)) }
    })
}

/// Shows the progress.
fn show(bar: &ProgressBar, tally: &Tally) {
    let state = format!("machine {}, {} findings", tally.machines, tally.findings.len());
    if bar.is_hidden() && tally.faults / NOTE_FAULTS > bar.position() as u32 / NOTE_FAULTS {
        output::note(format_args!("torture: {} faults, {state}", tally.faults));
    }
    bar.set_position(tally.faults.into());
    bar.set_message(state + ",");
}

impl Torture<'_> {
    /// Goes through the schedule, in as many machines as that takes.
    fn run(mut self) -> Result<(), Failure> {
        let mut done = 0;
        loop {
            self.machine(done)?;
            let faults = self.listener.with(|tally| tally.faults as usize);
            if self.listener.last() == Some(LastWord::Over) || faults == self.schedule.len() {
                return Ok(());
            }
            if faults == done {
                let why = self.listener.with(|tally| tally.findings.last().cloned().unwrap_or_default());
                return Err(Failure::Run(format!("no machine comes to fault {}: {why}", done + 1)));
            }
            if let Some(kept) = self.args.run.keeps() {
                output::note(format_args!("fault {faults} was the last: {kept} keeps one machine"));
                return Ok(());
            }
            done = faults;
        }
    }

    /// Runs the next machine, from the fault after `done`.
    fn machine(&mut self, done: usize) -> Result<(), Failure> {
        self.listener.begin_machine();
        self.args.run.run_program(self.program(done));
        self.args.run.number_log(self.listener.with(|tally| tally.machines));
        let ended = super::run::run(&self.args.run, self.models);
        if let Some(LastWord::Unable(why)) = self.listener.last() {
            return Err(Failure::Run(why));
        }
        let silent = self.listener.last().is_none() && self.listener.is_silent();
        match ended {
            Err(Failure::Run(why)) if self.listener.has_begun() => {
                self.found(&format!("the machine ended: {why}"))
            }
            Err(Failure::Command(_)) if self.listener.has_begun() => {}
            Ok(()) if silent => self.found("the machine has locked up: it says nothing any more"),
            ended => return ended,
        }
        Ok(())
    }

    fn found(&self, what: &str) {
        self.listener.with(|tally| tally.found(&format!("after fault {}: {what}", tally.faults)));
    }

    fn program(&self, done: usize) -> Program {
        let environment = [
            ("RISER_MODULE", self.module.clone()),
            ("RISER_WORKLOAD", self.args.workload.clone()),
            ("RISER_FIRST", (done + 1).to_string()),
        ];
        let rest = self.schedule[done..].join("\n");
        let files = [
            ("torture", SCRIPT.to_owned()),
            ("torture-schedule", format!("#!/vm/busybox sh\ncat <<'END'\n{rest}\nEND\n")),
        ];
        let owned = |(name, text): (&str, String)| (name.to_owned(), text);
        Program {
            name: "torture",
            files: files.map(owned).to_vec(),
            environment: environment.map(owned).to_vec(),
            listener: self.listener.clone(),
        }
    }
}
