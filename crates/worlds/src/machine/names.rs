// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of the machines of a lab, and of the virtual functions that a machine gets. Starts no machine.

use super::error::VmError;
use super::open::{AssignedMachine, host_names};
use super::qemu::VmOptions;
use super::vm_host::VmHost;
use lab::LabFile;
use session::external::Driver;
use std::collections::BTreeSet;
use std::path::PathBuf;
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
