// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Puts a virtual machine above a host of a lab, and machines of their own below virtual functions.

use super::placing::FunctionPlacement;
use super::qemu::VmOptions;
use super::root_ports::RootPortSetup;
use super::vm_host::{VmError, VmHost};
use lab::{Hierarchy, LabFile};
use session::external::Driver;
use session::external::host::HostPlace;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of functions of a machine: QEMU's host bridge has 32 devices, some of which are the machine's own.
const MAX_FUNCTIONS: usize = 24;

/// A machine that has virtual functions below another machine's host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AssignedMachine {
    /// Its name.
    pub name: String,
    /// Its functions: `SLOT.virtfnN`, counted from 0.
    pub functions: Vec<String>,
    /// The folder of their sockets.
    pub folder: PathBuf,
}

/// Returns the names of the hosts outside of a lab: `root`, or those of the file.
pub fn host_names(file: &LabFile) -> Vec<String> {
    let name = |place: String| place.trim_start_matches("host ").to_owned();
    Hierarchy::hosts(file).into_iter().map(name).collect()
}

impl VmHost {
    /// Puts a machine above the host of this name. The client of its VMD comes to `socket`. If it gets functions one by one, their clients
    /// come to sockets in the folder `socket`. Machines of `assigned` have virtual functions below the host.
    ///
    /// # Errors
    /// There is no such host or virtual function, the firmware fails, there are too many functions, or riser cannot listen.
    pub fn open(
        lab: &mut Driver,
        file: &LabFile,
        host: &str,
        options: VmOptions,
        socket: &Path,
        assigned: &[AssignedMachine],
    ) -> Result<VmHost, VmError> {
        let place = format!("host {host}");
        let door = lab.door_named::<HostPlace>(&place).ok_or_else(|| VmError::NoPlace(place.clone()))?;
        let mut guest = if options.direct {
            create(socket)?;
            let placement = FunctionPlacement::new(file, &place).map_err(VmError::Topology)?;
            VmHost::direct(lab, door, placement, socket)?
        } else {
            let layout = super::layout(file, &place).map_err(VmError::Topology)?;
            let setup = RootPortSetup::new(file, &place).map_err(VmError::Topology)?;
            VmHost::new(lab, door, (layout, setup), socket)?
        };
        host.clone_into(&mut guest.name);
        if !assigned.is_empty() {
            let names = assigned.iter().flat_map(|machine| machine.functions.iter().map(String::as_str));
            let placement =
                FunctionPlacement::of_virtual_functions(file, &place, names).map_err(VmError::Assign)?;
            assigned.iter().try_for_each(|machine| create(&machine.folder))?;
            guest.assign(lab, &placement, assigned)?;
        }
        if options.dma_messages {
            guest.use_messages_alone();
        }
        let count = |machine| guest.sockets().filter(|socket| socket.machine == machine).count();
        match guest.sockets().map(|socket| count(socket.machine)).max() {
            Some(functions) if functions > MAX_FUNCTIONS => Err(VmError::TooManyFunctions(functions)),
            _ => Ok(guest),
        }
    }
}

fn create(folder: &Path) -> Result<(), VmError> {
    fs::create_dir_all(folder).map_err(|why| VmError::Folder(folder.to_owned(), why))
}
