// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens a virtual machine above a host of a lab, and machines for virtual functions.

use super::client::Client;
use super::error::VmError;
use super::placing::FunctionPlacement;
use super::qemu::VmOptions;
use super::root_ports::RootPortSetup;
use super::vm_host::{Firmware, VmHost};
use guest::vmd::Vmd;
use lab::{Hierarchy, LabFile};
use session::external::Driver;
use session::external::host::HostPlace;
use std::fs;
use std::path::{Path, PathBuf};
use tlp::PayloadPool;

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

/// Returns the names of the external hosts of a lab: `root`, or those of the file.
pub fn host_names(file: &LabFile) -> Vec<String> {
    let name = |place: String| place.trim_start_matches("host ").to_owned();
    Hierarchy::hosts(file).into_iter().map(name).collect()
}

impl VmHost {
    /// Puts a machine above the host of this name. The client of its VMD connects to `socket`. If the machine gets
    /// functions one by one, their clients connect to sockets in the folder `socket`. Machines of `assigned` have
    /// virtual functions below the host.
    ///
    /// # Errors
    /// The lab has no such host or virtual function, the firmware fails, there are too many functions, or riser cannot
    /// listen at the socket.
    pub fn open(
        lab: &mut Driver,
        file: &LabFile,
        host: &str,
        options: VmOptions,
        socket: &Path,
        assigned: &[AssignedMachine],
    ) -> Result<VmHost, VmError> {
        let place = format!("host {host}");
        let handle = lab.handle_named::<HostPlace>(&place).ok_or_else(|| VmError::NoPlace(place.clone()))?;
        let firmware = match options.direct {
            true if host == "root" && file.lab.host.root_complex.is_some() => return Err(VmError::NotDirect),
            true => Firmware::Functions(Box::new(FunctionPlacement::new(file, &place)?)),
            false => Firmware::RootPorts(RootPortSetup::new(file, &place)?),
        };
        let mut guest = VmHost::above(host.to_owned(), handle, firmware);
        if options.direct {
            create(socket)?;
            for placed in guest.run(lab, guest.firmware.code()).map_err(VmError::Firmware)? {
                guest.listen(None, placed, socket)?;
            }
            if guest.clients.is_empty() {
                return Err(VmError::Nothing);
            }
        } else {
            let layout = super::layout(file, &place)?;
            let vmd = Box::new(Vmd::new(layout, PayloadPool::new())?);
            guest.clients.push(Client::bind(None, "vmd".to_owned(), vmd, socket)?);
            guest.place(lab).map_err(VmError::Firmware)?;
        }
        if !assigned.is_empty() {
            let names = assigned.iter().flat_map(|machine| machine.functions.iter().map(String::as_str));
            let placement = FunctionPlacement::of_virtual_functions(file, &place, names)?;
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
