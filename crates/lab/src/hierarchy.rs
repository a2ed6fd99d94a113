// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The hierarchy below a host, for an outside world that acts as this host. Derived from the lab file without enumeration.

use crate::BuildError;
use crate::bridges;
use crate::build::ROOT_HOST;
use crate::file::LabFile;
use crate::tree::Tree;
use config::cap::pcie::DEVICE_CONTROL;
use fabric::HostId;
use host::firmware::Path;
use tlp::{Bdf, Mps, Rcb};

/// The hierarchy below one host of a lab.
pub struct Hierarchy<'f> {
    file: &'f LabFile,
    tree: Tree,
    host: HostId,
}

/// A root port, with the data that configuration software finds.
#[derive(Clone, Copy, Debug)]
pub struct RootPort {
    /// The root port's function.
    pub function: Bdf,
    /// DW number of its Device Control register; `None` for a root complex that is not riser's, whose capability list must be searched.
    pub device_control: Option<u16>,
    /// The largest payload that the root port and all components below it support.
    pub mps: Mps,
}

impl<'f> Hierarchy<'f> {
    /// Returns the names of the hosts that are outside of the lab: `host root`, `host NAME`.
    pub fn hosts(file: &LabFile) -> Vec<String> {
        let root = file.lab.host.outside.then(|| ROOT_HOST.to_owned());
        let others = file.lab.external_host.iter().map(|host| format!("host {}", host.name.get_ref()));
        root.into_iter().chain(others).collect()
    }

    /// Returns the hierarchy below the host of this name: `host root` or `host NAME`.
    ///
    /// # Errors
    /// The lab has no such host, or its topology is invalid.
    pub fn new(file: &'f LabFile, host: &str) -> Result<Hierarchy<'f>, BuildError> {
        let tree = Tree::of(&file.lab)?;
        let names =
            std::iter::once("root").chain(file.lab.external_host.iter().map(|h| h.name.get_ref().as_str()));
        let found = tree.host_ids().zip(names).find(|(_, name)| host.strip_prefix("host ") == Some(name));
        let (host, _) = found.ok_or_else(|| BuildError::NoPlace(host.to_owned()))?;
        Ok(Hierarchy { file, tree, host })
    }

    /// Returns the paths of the ports above the slots, then above the switches. The path is empty below hosts other
    /// than the simulated host.
    ///
    /// # Errors
    /// The topology is invalid.
    pub fn port_paths(file: &LabFile) -> Result<Vec<Path>, BuildError> {
        let tree = Tree::of(&file.lab)?;
        let path = |n| if tree.is_simulated(n) { tree.port_path(n) } else { Path(Vec::new()) };
        Ok((0..file.lab.hanging().count()).map(path).collect())
    }

    /// Returns the number of buses, with bus 0.
    pub fn buses(&self) -> u16 {
        self.tree.buses(self.host)
    }

    /// Returns the slots, each with the path of function 0 and its name.
    pub fn slots(&self) -> Vec<(Path, String)> {
        let slots = self.tree.slot_paths().into_iter().zip(&self.file.lab.slot).enumerate();
        let own = slots.filter(|(n, _)| self.tree.host_of(*n) == self.host);
        own.map(|(_, (path, slot))| (path, slot.name.get_ref().clone())).collect()
    }

    /// Returns the root ports, in the order of their device numbers.
    ///
    /// # Errors
    /// The configuration space of a root port cannot be built.
    pub fn root_ports(&self) -> Result<Vec<RootPort>, BuildError> {
        let links = bridges::all_links(&self.file.lab, &self.tree);
        let least = bridges::least_mps(&self.tree, &links);
        if self.tree.has_design(self.host) {
            let port =
                |link| RootPort { function: Bdf::from_bits(0), device_control: None, mps: least[&link] };
            return Ok(self.tree.root_links(self.host).map(port).collect());
        }
        // The addresses of capabilities do not depend on the Read Completion Boundary.
        let spaces = bridges::root_ports(&self.tree, self.host, &links, Rcb::default())?;
        let port = |((device, link), space): ((u8, usize), config::ConfigSpace)| {
            let device_control = Some(space.pcie_capability()? + DEVICE_CONTROL);
            Some(RootPort { function: Bdf::new(0, device, 0)?, device_control, mps: least[&link] })
        };
        Ok((1..).zip(self.tree.root_links(self.host)).zip(spaces).filter_map(port).collect())
    }
}
