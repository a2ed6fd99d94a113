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
}
