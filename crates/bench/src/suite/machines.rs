// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machines of a suite, as users give them.

use super::Machine;
use crate::ask::{Ask, AskError, check_host, check_pages, check_profiles};
use crate::configurations::{CARD, CONFIGURATIONS, Configuration, Iommu, PUBLISHED_CARD};
use lab::Folder;
use lab::profile::HOSTS;
use lab::schema::BufferPages;
use plug::values::{MpsBytes, MrrsBytes};

impl Ask {
    /// Returns the machines for the files of the published format: all configurations (`all`), one of them, or a host profile.
    ///
    /// # Errors
    /// Settings that a configuration already has, or values that the link of a host profile cannot have.
    pub fn machines(&self) -> Result<Vec<Machine>, AskError> {
        let device = self.device.as_deref().unwrap_or(PUBLISHED_CARD);
        let host = self.host.as_deref().ok_or_else(|| {
            AskError::wrong(
                "--format pcie-bench requires --host: all, a configuration of the published data, or a host profile",
            )
        })?;
        let configurations: Vec<&Configuration> = match host {
            "all" => CONFIGURATIONS.iter().collect(),
            _ => Configuration::named(host).into_iter().collect(),
        };
        if configurations.is_empty() {
            return Ok(vec![self.machine(host, device)?]);
        }
        let given = self.generation.is_some() || self.lanes.is_some() || self.iommu != Iommu::Off;
        let given = given || self.pages != BufferPages::default();
        if given || !self.mps.is_empty() || !self.mrrs.is_empty() {
            return Err(AskError::wrong(
                "--gen, --lanes, --mps, --mrrs, --iommu and --buffer-pages: a configuration already has these settings; use them only with a host profile",
            ));
        }
        Ok(configurations.into_iter().map(|c| Machine::configuration(c, device)).collect())
    }

    /// Returns a machine with this host profile and the given link.
    fn machine(&self, host: &str, device: &str) -> Result<Machine, AskError> {
        if let Err(why) = HOSTS.text(host, &Folder::default()) {
            let names = CONFIGURATIONS.map(|c| c.name.trim_start_matches(CARD)).join(", ");
            return Err(AskError::of_name(host, &format!("{why}; configurations are all, {names}")));
        }
        check_profiles(host, Some(device))?;
        check_host(host, self.iommu, None)?;
        check_pages(self.iommu, self.pages)?;
        let mut machine = Machine::profile(host, device).with_iommu(self.iommu).with_pages(self.pages);
        self.link(host).map_err(AskError::wrong)?;
        machine.generation = self.generation.map_or(machine.generation, |n| n as u8);
        machine.lanes = self.lanes.map_or(machine.lanes, |n| n as u8);
        if let Some(mps) = one("--mps", &self.mps)? {
            machine.mps_bytes = MpsBytes::try_from(mps).map_err(AskError::wrong)?.0.bytes();
        }
        if let Some(mrrs) = one("--mrrs", &self.mrrs)? {
            machine.mrrs_bytes = MrrsBytes::try_from(mrrs).map_err(AskError::wrong)?.0.bytes();
        }
        Ok(machine)
    }
}

/// Returns the only value of an argument that is a list in other formats: a folder has results of one link.
fn one(flag: &str, values: &[i64]) -> Result<Option<i64>, AskError> {
    match values {
        [] => Ok(None),
        [value] => Ok(Some(*value)),
        _ => Err(AskError::Wrong(format!("{flag}: --format pcie-bench takes one value for each run"))),
    }
}
