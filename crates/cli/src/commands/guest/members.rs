// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guests of a run: those in place of hosts begin with it; those that have virtual functions begin when a guest says so, may be killed
//! and begin again, and end with the run.

use super::machine::{Kept, MachineArgs};
use super::run::Overseer;
use crate::failure::Failure;
use crate::output;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use vm::machine::{End, Report};
use vm::{Machine, Options};

/// What may be said of a guest that has virtual functions, by `lab` in any. The last is done in the guest, by asking for the state.
pub(super) const COMMANDS: [&str; 4] = ["start NAME", "kill NAME", "state NAME", "wait NAME"];

/// A guest.
pub(super) struct Member {
    /// The host's name, or its own where it has virtual functions.
    pub(super) name: String,
    /// The virtual functions that it has, and waits to be started; none: it is in place of a host.
    pub(super) functions: Vec<String>,
    /// Why one of them is not there.
    pub(super) misplaced: Option<String>,
    pub(super) options: Options,
    pub(super) kept: Kept,
    pub(super) state: State,
}

/// How far a guest is.
pub(super) enum State {
    Waits,
    Runs(Machine),
    Ended(Report),
}

/// All guests of a run.
pub(super) struct Members<'a> {
    pub(super) all: Vec<Member>,
    pub(super) machine: &'a MachineArgs,
    /// What commands print goes to standard error.
    pub(super) aside: bool,
    /// Who hears the programs of riser's own that they run.
    pub(super) overseer: Option<&'a dyn Overseer>,
}

impl Member {
    fn is_assigned(&self) -> bool {
        !self.functions.is_empty()
    }

    fn begin(
        &mut self,
        machine: &MachineArgs,
        aside: bool,
        overseer: Option<&dyn Overseer>,
        is_one_of_several: bool,
    ) -> Result<(), Failure> {
        let name = is_one_of_several.then_some(&*self.name);
        let stdout: Box<dyn Write + Send> = match overseer {
            Some(overseer) => overseer.stdout(),
            None if aside || output::is_diverted() => Box::new(io::stderr()),
            None => Box::new(io::stdout()),
        };
        let machine = machine.start(self.options.clone(), self.kept.clone(), stdout, name)?;
        (self.state, self.misplaced) = (State::Runs(machine), None);
        Ok(())
    }

    /// Whether it runs; if it has ended, its report is kept.
    fn runs(&mut self) -> bool {
        if let State::Runs(machine) = &mut self.state
            && let Some(report) = machine.poll()
        {
            self.state = State::Ended(report.clone());
        }
        matches!(self.state, State::Runs(_))
    }

    /// How it has ended.
    pub(super) fn report(&self) -> Option<&Report> {
        match &self.state {
            State::Ended(report) => Some(report),
            _ => None,
        }
    }

    fn stop(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Waits) {
            State::Runs(machine) => State::Ended(machine.stop()),
            state => state,
        };
    }

    /// How it has ended, for who started the run.
    fn end(&self, is_one_of_several: bool, stop: &AtomicBool) -> Result<(), Failure> {
        let of = || if is_one_of_several { format!("host `{}`: ", self.name) } else { String::new() };
        let Some(report) = self.report() else { return Ok(()) };
        match &report.end {
            End::Exited(0) => Ok(()),
            End::Exited(status) => {
                let complaint = self.kept.complaint();
                if !complaint.is_empty() {
                    output::note(format_args!("the kernel has complained:\n{complaint}"));
                }
                Err(Failure::Command(*status))
            }
            End::Stopped if stop.load(Ordering::Relaxed) => {
                Err(Failure::Interrupted("interrupted".to_owned()))
            }
            End::Stopped => Ok(()),
            End::ReaderLeft => Err(Failure::ReaderLeft),
            end => {
                let lines = self.kept.lines();
                if !lines.is_empty() {
                    output::note(format_args!("the end of the kernel's log:\n{lines}"));
                }
                // QEMU does not survive that its device is not there.
                let why = self.misplaced.clone().unwrap_or_else(|| end.to_string());
                Err(Failure::Run(format!("{}{why}", of())))
            }
        }
    }
}

impl Members<'_> {
    fn are_several(&self) -> bool {
        self.all.len() > 1
    }

    /// Starts those that are in place of hosts.
    pub(super) fn begin(&mut self) -> Result<(), Failure> {
        let several = self.are_several();
        let mut first = self.all.iter_mut().filter(|member| !member.is_assigned());
        first.try_for_each(|member| member.begin(self.machine, self.aside, self.overseer, several))
    }

    /// A function is not where its guest looks for it.
    pub(super) fn misplaced(&mut self, function: &str, why: &str) {
        let has = |member: &&mut Member| member.functions.iter().any(|known| known == function);
        if let Some(member) = self.all.iter_mut().find(has) {
            member.misplaced = Some(format!("{function}: {why}"));
        }
    }

    /// Whether one that is in place of a host runs.
    pub(super) fn run(&mut self) -> bool {
        // All are asked, so that each one's end is seen.
        let hosts = self.all.iter_mut().map(|member| member.runs() && !member.is_assigned());
        hosts.filter(|runs| *runs).count() > 0
    }

    pub(super) fn stop(&mut self) {
        self.all.iter_mut().for_each(Member::stop);
    }

    /// How they have ended: the first failure.
    pub(super) fn end(&self, stop: &AtomicBool) -> Result<(), Failure> {
        for Member { name, .. } in self.all.iter().filter(|member| matches!(member.state, State::Waits)) {
            output::note(format_args!(
                "guest `{name}` was never started: `lab start {name}` in another does that"
            ));
        }
        self.all.iter().try_for_each(|member| member.end(self.are_several(), stop))
    }

    /// Obeys what is said of a guest; `None`: it is said of something else.
    pub(super) fn obey(&mut self, command: &str) -> Option<Result<String, String>> {
        let (verb, name) = command.split_once(' ').unwrap_or((command, ""));
        if !["start", "kill", "state"].contains(&verb) {
            return None;
        }
        let several = self.are_several();
        let names: Vec<_> = self.all.iter().filter(|m| m.is_assigned()).map(|m| m.name.clone()).collect();
        let Some(member) = self.all.iter_mut().find(|m| m.is_assigned() && m.name == name.trim()) else {
            let legal =
                if names.is_empty() { "there are none (--assign)".to_owned() } else { names.join(", ") };
            return Some(Err(format!(
                "{verb} {name}: no guest of this name that has virtual functions: {legal}"
            )));
        };
        let runs = member.runs();
        Some(match verb {
            "start" if runs => Err(format!("start {name}: it runs")),
            "start" => match member.begin(self.machine, self.aside, self.overseer, several) {
                Ok(()) => Ok(String::new()),
                Err(Failure::Usage(why) | Failure::Run(why)) => Err(format!("start {name}: {why}")),
                Err(_) => Err(format!("start {name}: it was interrupted")),
            },
            "kill" if !runs => Err(format!("kill {name}: it does not run")),
            "kill" => {
                member.stop();
                Ok(String::new())
            }
            _ => Ok(match &member.state {
                State::Waits => "waits".to_owned(),
                State::Runs(_) => "runs".to_owned(),
                State::Ended(Report { end: End::Exited(status), .. }) => format!("exited {status}"),
                State::Ended(report) => format!("ended: {}", report.end),
            }),
        })
    }
}
