// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab file that was read without errors.

use crate::BuildError;
use crate::schema::Lab;
use crate::tree;
use plug::file::Folder;

/// A valid lab, with the folder that its relative paths start from.
#[derive(Debug)]
pub struct LabFile {
    /// Contents of the file.
    pub lab: Lab,
    /// The folder of the file.
    pub base: Folder,
}

impl LabFile {
    /// Checks that the lab runs without an outside program above one of its hosts.
    ///
    /// # Errors
    /// Names the host that needs an outside program.
    pub fn check_runs_alone(&self) -> Result<(), BuildError> {
        match self.lab.external_host.first() {
            None if self.lab.host.outside => Err(BuildError::HostOutside),
            None => Ok(()),
            Some(host) => {
                Err(BuildError::ExternalHost { host: host.name.get_ref().clone(), simulated: tree::ROOT })
            }
        }
    }

    /// Names the first part that is a design with its own data link layer, like ``slot `nic` ``. It answers only if its native code runs.
    pub fn design(&self) -> Option<String> {
        let lab = &self.lab;
        let slots = lab.slot.iter().map(|slot| slot.data_link.is_some() || slot.needs().own_link);
        let switches = lab.switch.iter().map(|switch| switch.device.is_some());
        let below = lab.hanging().zip(slots.chain(switches)).find(|(_, is_design)| *is_design);
        let root_complex = lab.host.root_complex.as_ref().map(|_| "the root complex".to_owned());
        root_complex.or_else(|| below.map(|(own, _)| own.to_string()))
    }
}
