// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of the machines of a lab, and of the virtual functions that a machine gets. Starts no machine.

use super::error::VmError;
use super::open::{AssignedMachine, host_names};
use super::qemu::VmOptions;
use super::vm_host::VmHost;
use lab::LabFile;
use session::external::Driver;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The reason why virtual functions cannot be assigned as requested.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum AssignError {
    /// The text has another form.
    #[error(
        "`{0}`, expected NAME=FUNCTION[,FUNCTION], such as vm1=card.virtfn0, with a NAME of letters, digits, `-` and `_`"
    )]
    Form(String),
    /// Another machine has this name.
    #[error("the name `{0}` is already used")]
    NameUsed(String),
    /// A machine already has the function.
    #[error("`{0}` is given twice")]
    Twice(String),
    /// The lab has several hosts outside.
    #[error("legal only if the lab has one host outside")]
    SeveralHosts,
}

/// The reason why sockets or commands do not fit the machines of a lab.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PerMachineError {
    /// The machine of a path is unclear.
    #[error("`{0}`: there are several machines, expected NAME=PATH with NAME one of {1}")]
    Unnamed(String, String),
    /// The path is empty.
    #[error("`{0}` has no path, expected NAME=PATH")]
    Empty(String),
    /// Two machines have the same path.
    #[error("`{0}` is also the path of `{1}`, expected a different one for each machine")]
    Shared(String, String),
    /// Two paths are for the same machine.
    #[error("`{0}` is named twice")]
    Twice(String),
    /// A machine has no path.
    #[error("`{0}` has no path, expected {0}=PATH")]
    NoPath(String),
    /// A command does not name its guest.
    #[error("--guest `{0}`, expected NAME=COMMAND, NAME one of {1}")]
    NoGuest(String, String),
    /// Two commands are for the same guest.
    #[error("--guest: `{0}` is named twice")]
    TwoCommands(String),
    /// One of several guests has no command.
    #[error(
        "guest `{0}`: no command; each of several guests needs one: after --, or with --guest {0}=COMMAND"
    )]
    NoCommand(String),
}

/// Names of the machines of a lab.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MachineNames {
    /// Hosts that are machines: `root`, or the external hosts of the file.
    pub hosts: Vec<String>,
    /// Machines that have virtual functions, without the paths of their folders.
    pub assigned: Vec<AssignedMachine>,
}

impl MachineNames {
    /// Returns the names for a lab. Each text of `assign` names a machine and its virtual functions:
    /// `NAME=FUNCTION[,FUNCTION]`.
    ///
    /// # Errors
    /// A text of another form, a name or function that is given twice, or a lab with several hosts.
    pub fn read(file: &LabFile, assign: &[String]) -> Result<MachineNames, AssignError> {
        let hosts = host_names(file);
        let (mut assigned, mut names) = (Vec::new(), BTreeSet::from_iter(hosts.iter().cloned()));
        let mut given = BTreeSet::new();
        for text in assign {
            let machine = read_assigned(text).ok_or_else(|| AssignError::Form(text.clone()))?;
            if !names.insert(machine.name.clone()) {
                return Err(AssignError::NameUsed(machine.name));
            }
            if let Some(twice) = machine.functions.iter().find(|f| !given.insert((*f).clone())) {
                return Err(AssignError::Twice(twice.clone()));
            }
            assigned.push(machine);
        }
        match assigned.is_empty() || hosts.len() == 1 {
            true => Ok(MachineNames { hosts, assigned }),
            false => Err(AssignError::SeveralHosts),
        }
    }

    /// Returns all names, hosts first.
    pub fn all(&self) -> Vec<String> {
        self.hosts.iter().chain(self.assigned.iter().map(|machine| &machine.name)).cloned().collect()
    }

    /// Returns the socket path of each machine. Each text of `given` is `NAME=PATH`, or `PATH` if there is one machine.
    ///
    /// # Errors
    /// A machine without a path or with several, and a path that is given twice.
    pub fn paths(&self, given: &[String]) -> Result<BTreeMap<String, PathBuf>, PerMachineError> {
        let (names, mut paths) = (self.all(), BTreeMap::new());
        for text in given {
            let named = text.split_once('=').filter(|(name, _)| names.iter().any(|known| known == name));
            let (name, path) = match (named, &names[..]) {
                (Some((name, path)), _) => (name, path),
                (None, [name]) => (name.as_str(), text.as_str()),
                (None, _) => return Err(PerMachineError::Unnamed(text.clone(), names.join(", "))),
            };
            if path.is_empty() {
                return Err(PerMachineError::Empty(text.clone()));
            }
            if let Some((other, _)) = paths.iter().find(|(_, known)| *known == Path::new(path)) {
                return Err(PerMachineError::Shared(path.to_owned(), String::clone(other)));
            }
            if paths.insert(name.to_owned(), path.into()).is_some() {
                return Err(PerMachineError::Twice(name.to_owned()));
            }
        }
        let without = names.into_iter().find(|name| !paths.contains_key(name));
        without.map_or(Ok(paths), |name| Err(PerMachineError::NoPath(name)))
    }

    /// Returns the command of each guest: its own of `given`, each `NAME=COMMAND` for a shell, or else `command`.
    ///
    /// # Errors
    /// A command without a guest, a guest with two commands, or one of several guests without a command.
    pub fn commands(
        &self,
        given: &[String],
        command: &[String],
    ) -> Result<Vec<Vec<String>>, PerMachineError> {
        let (names, mut own) = (self.all(), BTreeMap::new());
        for text in given {
            let known = text.split_once('=').filter(|(name, _)| names.iter().any(|known| known == name));
            let (name, line) =
                known.ok_or_else(|| PerMachineError::NoGuest(text.clone(), names.join(", ")))?;
            if own.insert(name, line).is_some() {
                return Err(PerMachineError::TwoCommands(name.to_owned()));
            }
        }
        let of = |name: &String| match own.get(name.as_str()) {
            Some(line) => Ok(["sh", "-c", line].map(str::to_owned).to_vec()),
            None if names.len() > 1 && command.is_empty() => Err(PerMachineError::NoCommand(name.clone())),
            None => Ok(command.to_vec()),
        };
        names.iter().map(of).collect()
    }

    /// Connects machines to all hosts. `socket` returns the path of a machine's socket, or of the folder of its sockets.
    ///
    /// # Errors
    /// The name of the first host that cannot be a machine, and the reason.
    pub fn open(
        &self,
        driver: &mut Driver,
        file: &LabFile,
        options: VmOptions,
        socket: impl Fn(&str) -> PathBuf,
    ) -> Result<Vec<VmHost>, (String, VmError)> {
        let with_folder =
            |machine: &AssignedMachine| AssignedMachine { folder: socket(&machine.name), ..machine.clone() };
        let assigned: Vec<AssignedMachine> = self.assigned.iter().map(with_folder).collect();
        let open = |host: &String| {
            let opened = VmHost::open(driver, file, host, options, &socket(host), &assigned);
            opened.map_err(|error| (host.clone(), error))
        };
        self.hosts.iter().map(open).collect()
    }
}

/// Parses `NAME=FUNCTION[,FUNCTION]`.
fn read_assigned(text: &str) -> Option<AssignedMachine> {
    let (name, functions) = text.split_once('=')?;
    let functions: Vec<_> = functions.split(',').map(str::to_owned).collect();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    (is_name && functions.iter().all(|function| !function.is_empty())).then(|| AssignedMachine {
        name: name.to_owned(),
        functions,
        folder: PathBuf::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requires_one_socket_path_per_machine() {
        let names = MachineNames { hosts: vec!["root".to_owned(), "a".to_owned()], assigned: Vec::new() };
        let paths =
            |given: &[&str]| names.paths(&given.iter().copied().map(str::to_owned).collect::<Vec<_>>());
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
            let refused = paths(given).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
