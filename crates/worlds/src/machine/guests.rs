// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guests that riser starts for a lab. Guests above hosts start with the lab. Guests with virtual functions start
//! when another guest requests it. These guests may be killed and started again. All guests end with the lab.

use super::error::VmCommandError;
use super::links::LinkSocket;
use super::names::MachineNames;
use super::qemu::VmOptions;
use super::torture::Program;
use super::vm_host::{VmHost, machines};
use session::external::Driver;
use std::path::Path;
use vm::machine::{End, Input, MachineOutcome};
use vm::{Machine, Options};

/// Starts the machine of the guest with this name.
type Start<'a> = Box<dyn Fn(&str, Options) -> vm::Result<Machine> + 'a>;

/// The guests of a lab before they start.
pub struct GuestPlan<'a> {
    /// Names of their machines.
    pub names: &'a MachineNames,
    /// How the machines get the lab's hierarchy.
    pub vm: VmOptions,
    /// Options of each machine.
    pub options: &'a Options,
    /// Command of each machine.
    pub commands: Vec<Vec<String>>,
    /// Program that takes the place of the commands.
    pub program: Option<&'a Program>,
    /// Folder for the sockets of commands to the lab's links.
    pub folder: &'a Path,
}

impl GuestPlan<'_> {
    /// Returns the guests of `hosts`, each with the socket for its commands to the lab's links.
    ///
    /// # Errors
    /// A socket cannot be created.
    pub fn guests(self, driver: &Driver, hosts: &[VmHost]) -> files::Result<(Vec<Guest>, Vec<LinkSocket>)> {
        let (are_several, waits) = (self.commands.len() > 1, self.options.icount.is_some());
        let guest = |(n, ((host, machine), command)): (usize, ((&VmHost, Option<&str>), _))| {
            let socket = self.folder.join(format!("links{n}"));
            let mut options = self.options.clone();
            self.vm.add_devices(&mut options, host, machine, waits, &socket);
            if let Some(program) = self.program {
                options.scripts.extend(program.files.iter().cloned());
                options.environment.extend(program.environment.iter().cloned());
            }
            options.command = command;
            if are_several {
                options.input = Input::Nothing;
            }
            let assigned = self.names.assigned.iter().find(|assigned| Some(&*assigned.name) == machine);
            let functions = assigned.map(|assigned| assigned.functions.clone()).unwrap_or_default();
            let guest = Guest::new(machine.unwrap_or(&host.name).to_owned(), functions, options);
            Ok((guest, LinkSocket::bind(driver, &socket)?))
        };
        machines(hosts).zip(self.commands).enumerate().map(guest).collect()
    }
}

/// A guest.
pub struct Guest {
    /// The name of its host, or its own name if it has virtual functions.
    pub name: String,
    /// Its virtual functions. Empty for a guest above a host.
    functions: Vec<String>,
    /// The reason if one of the guest's functions is not where the guest expects it.
    misplaced: Option<String>,
    options: Options,
    state: GuestState,
}

enum GuestState {
    Waits,
    Runs(Machine),
    Ended(MachineOutcome),
}

impl Guest {
    /// A guest that is not started. `functions` are its virtual functions, or empty for a guest above a host.
    fn new(name: String, functions: Vec<String>, options: Options) -> Guest {
        Guest { name, functions, misplaced: None, options, state: GuestState::Waits }
    }

    fn is_assigned(&self) -> bool {
        !self.functions.is_empty()
    }

    fn start(&mut self, start: &Start<'_>) -> vm::Result<()> {
        let machine = start(&self.name, self.options.clone())?;
        (self.state, self.misplaced) = (GuestState::Runs(machine), None);
        Ok(())
    }

    /// Returns whether the guest runs. Stores the report of a machine that has ended.
    fn poll(&mut self) -> bool {
        if let GuestState::Runs(machine) = &mut self.state
            && let Some(report) = machine.poll()
        {
            self.state = GuestState::Ended(report.clone());
        }
        matches!(self.state, GuestState::Runs(_))
    }

    fn stop(&mut self) {
        self.state = match std::mem::replace(&mut self.state, GuestState::Waits) {
            GuestState::Runs(machine) => GuestState::Ended(machine.stop()),
            state => state,
        };
    }

    /// Returns whether the guest was never started.
    pub fn waits(&self) -> bool {
        matches!(self.state, GuestState::Waits)
    }

    /// Returns the guest's report, if the guest has ended.
    pub fn report(&self) -> Option<&MachineOutcome> {
        match &self.state {
            GuestState::Ended(report) => Some(report),
            _ => None,
        }
    }

    /// Returns the exit status of its command, if the command has ended.
    pub fn status(&self) -> Option<u8> {
        match self.report()?.end {
            End::Exited(status) => Some(status),
            _ => None,
        }
    }

    /// Returns the reason if one of the guest's functions is not where it was.
    pub fn misplaced(&self) -> Option<&str> {
        self.misplaced.as_deref()
    }

    fn state(&self) -> String {
        match &self.state {
            GuestState::Waits => "waits".to_owned(),
            GuestState::Runs(_) => "runs".to_owned(),
            GuestState::Ended(MachineOutcome { end: End::Exited(status), .. }) => format!("exited {status}"),
            GuestState::Ended(report) => format!("ended: {}", report.end),
        }
    }
}

/// All guests of a lab.
pub struct Guests<'a> {
    all: Vec<Guest>,
    start: Start<'a>,
}

impl<'a> Guests<'a> {
    /// Commands for guests with virtual functions. The program `lab` in a guest implements the last command by polling
    /// the state.
    pub const COMMANDS: [&'static str; 4] = ["start NAME", "kill NAME", "state NAME", "wait NAME"];

    /// Guests whose machines `start` starts.
    pub fn new(all: Vec<Guest>, start: impl Fn(&str, Options) -> vm::Result<Machine> + 'a) -> Guests<'a> {
        Guests { all, start: Box::new(start) }
    }

    /// Returns the guests.
    pub fn all(&self) -> &[Guest] {
        &self.all
    }

    /// Starts the guests above hosts.
    ///
    /// # Errors
    /// A machine cannot be started.
    pub fn start(&mut self) -> vm::Result<()> {
        let mut hosts = self.all.iter_mut().filter(|guest| !guest.is_assigned());
        hosts.try_for_each(|guest| guest.start(&self.start))
    }

    /// Records that a function is not where its guest expects it.
    pub fn set_misplaced(&mut self, function: &str, why: &str) {
        let has = |guest: &&mut Guest| guest.functions.iter().any(|known| known == function);
        if let Some(guest) = self.all.iter_mut().find(has) {
            guest.misplaced = Some(format!("{function}: {why}"));
        }
    }

    /// Returns whether a guest above a host runs.
    pub fn poll(&mut self) -> bool {
        // Polls every guest, so that the end of each is noticed.
        let hosts = self.all.iter_mut().map(|guest| guest.poll() && !guest.is_assigned());
        hosts.filter(|runs| *runs).count() > 0
    }

    /// Stops all guests.
    pub fn stop(&mut self) {
        self.all.iter_mut().for_each(Guest::stop);
    }

    /// Executes one of [`COMMANDS`](Self::COMMANDS) except the last. Returns `None` for any other command.
    ///
    /// # Errors
    /// No guest with virtual functions has this name, its state does not allow the command, or its machine cannot be started.
    pub fn command(&mut self, command: &str) -> Option<Result<String, VmCommandError>> {
        let (verb, name) = command.split_once(' ').unwrap_or((command, ""));
        if !["start", "kill", "state"].contains(&verb) {
            return None;
        }
        let mut assigned: Vec<&mut Guest> = self.all.iter_mut().filter(|guest| guest.is_assigned()).collect();
        let Some(n) = assigned.iter().position(|guest| guest.name == name.trim()) else {
            let names: Vec<&str> = assigned.iter().map(|guest| &*guest.name).collect();
            let known = if names.is_empty() { "none (--assign)".to_owned() } else { names.join(", ") };
            return Some(Err(VmCommandError::NoGuest { command: format!("{verb} {name}"), known }));
        };
        let guest = &mut assigned[n];
        let (runs, name) = (guest.poll(), name.to_owned());
        Some(match verb {
            "start" if runs => Err(VmCommandError::Running(name)),
            "start" => match guest.start(&self.start) {
                Ok(()) => Ok(String::new()),
                Err(error) => Err(VmCommandError::Start { name, error }),
            },
            "kill" if !runs => Err(VmCommandError::NotRunning(name)),
            "kill" => {
                guest.stop();
                Ok(String::new())
            }
            _ => Ok(guest.state()),
        })
    }
}
