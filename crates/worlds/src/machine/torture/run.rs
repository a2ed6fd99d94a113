// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a schedule of faults in one machine after another. The caller starts the machines.

use super::{LastWord, Listener, SCRIPT};

/// A program of riser for a guest.
pub struct Program {
    /// Name of the file to run.
    pub name: &'static str,
    /// Names and texts of its files.
    pub files: Vec<(String, String)>,
    /// Names and values of its environment variables.
    pub environment: Vec<(String, String)>,
    /// Reader of its standard output.
    pub listener: Listener,
}

/// How a machine ended.
pub enum MachineEnd<E> {
    /// The program has ended, or was stopped.
    Ended,
    /// The program has failed: its status.
    Status(E),
    /// The machine has failed, for this reason.
    Failed(String, E),
    /// Another error, or Ctrl-C.
    Other(E),
}

/// How a schedule ended without an error of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TortureEnd {
    /// The schedule is complete.
    Complete,
    /// This many faults have occurred, and no further machine may run.
    Stopped(usize),
    /// No machine can continue, for this reason.
    Stuck(String),
}

/// A schedule of faults for a driver and its workload.
pub struct Torture<'a> {
    /// Name of the driver's module.
    pub module: &'a str,
    /// Command line for the guest's shell.
    pub workload: &'a str,
    /// The faults.
    pub schedule: &'a [String],
    /// Reads the program's output.
    pub listener: &'a Listener,
    /// Stops when the first machine ends.
    pub is_single: bool,
}

impl Torture<'_> {
    /// Runs the whole schedule, in as many machines as necessary. `run` runs the machine of this number, from 1, with a program.
    ///
    /// # Errors
    /// An end of a machine that is no finding.
    pub fn run<E>(&self, mut run: impl FnMut(u32, Program) -> MachineEnd<E>) -> Result<TortureEnd, E> {
        let mut done = 0;
        loop {
            self.listener.begin_machine();
            let number = self.listener.with(|tally| tally.machines);
            let ended = run(number, self.program(done));
            let last = self.listener.last();
            if let Some(LastWord::Unable(why)) = last {
                return Ok(TortureEnd::Stuck(why));
            }
            self.judge(ended)?;
            let faults = self.listener.with(|tally| tally.faults as usize);
            if last == Some(LastWord::Over) || faults == self.schedule.len() {
                return Ok(TortureEnd::Complete);
            }
            if faults == done {
                let why = self.listener.with(|tally| tally.findings.last().cloned().unwrap_or_default());
                return Ok(TortureEnd::Stuck(format!("no machine reached fault {}: {why}", done + 1)));
            }
            if self.is_single {
                return Ok(TortureEnd::Stopped(faults));
            }
            done = faults;
        }
    }

    /// Adds a finding if a machine has failed or locked up.
    fn judge<E>(&self, ended: MachineEnd<E>) -> Result<(), E> {
        let has_begun = self.listener.has_begun();
        let found = |what: &str| {
            self.listener.with(|tally| tally.found(&format!("after fault {}: {what}", tally.faults)));
        };
        match ended {
            MachineEnd::Ended if self.listener.last().is_none() && self.listener.is_silent() => {
                found("the machine has locked up and prints nothing");
            }
            MachineEnd::Failed(why, _) if has_begun => found(&format!("the machine ended: {why}")),
            MachineEnd::Ended => {}
            MachineEnd::Status(_) if has_begun => {}
            MachineEnd::Status(error) | MachineEnd::Failed(_, error) | MachineEnd::Other(error) => {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns the program for the faults after the first `done`.
    fn program(&self, done: usize) -> Program {
        let environment = [
            ("RISER_MODULE", self.module.to_owned()),
            ("RISER_WORKLOAD", self.workload.to_owned()),
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
