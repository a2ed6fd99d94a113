// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab's choices for its host in addition to the profile: the IOMMU, and the socket of each part. This module checks
//! the keys against the profile; `fabric` implements them.

use crate::read::{Checked, Wrong};
use crate::schema::Host;
use fabric::HostProfile;
use fabric::profile::{HostSettings, PageSize};
use host::firmware::EcrcPolicy;
use plug::FunctionId;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

/// Pages of the IOMMU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
pub enum IommuPages {
    /// The IOMMU is off.
    #[default]
    #[serde(rename = "off")]
    Off,
    /// 4 KiB.
    #[serde(rename = "4k")]
    Kib4,
    /// 2 MiB if the profile's IOMMU supports them, otherwise 4 KiB.
    #[serde(rename = "2m")]
    Mib2,
    /// 1 GiB if the profile's IOMMU supports them, otherwise 4 KiB.
    #[serde(rename = "1g")]
    Gib1,
}

/// Functions whose TLPs have an ECRC.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ecrc {
    /// None.
    Off,
    /// Root ports.
    RootPorts,
    /// Functions of devices.
    Devices,
    /// Root ports and functions of devices.
    All,
}

impl Ecrc {
    const fn policy(self) -> EcrcPolicy {
        EcrcPolicy {
            root_ports: matches!(self, Ecrc::RootPorts | Ecrc::All),
            devices: matches!(self, Ecrc::Devices | Ecrc::All),
        }
    }
}

/// Memory that a function may access by DMA. A request outside of its windows is completed with UR and counted as a
/// translation fault. Functions without windows may access all memory.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IommuWindow {
    /// The requesting function, such as `01:00.0`; `riser lspci` shows them.
    pub function: FunctionId,
    /// First address.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// Checks the lab's choices for a host against the host's profile.
pub(crate) fn check(host: &Host, profile: &HostProfile) -> Checked {
    let name = &profile.name;
    let sockets = [
        ("device_socket", &host.device_socket),
        ("memory_socket", &host.memory_socket),
        ("program_socket", &host.program_socket),
    ];
    for (key, socket) in sockets {
        match *socket.get_ref() {
            0 => {}
            1 if profile.numa.is_some() => {}
            1 => {
                let message = format!("{key} of 1: host profile `{name}` has one socket, 0");
                return Err(Wrong::at(socket.span(), message));
            }
            n => return Err(Wrong::at(socket.span(), format!("{key} of {n}, expected 0 or 1"))),
        }
    }
    let off = *host.iommu.get_ref() == IommuPages::Off;
    if !off && profile.iommu.is_none() {
        let message = format!("iommu: host profile `{name}` has none, expected \"off\"");
        return Err(Wrong::at(host.iommu.span(), message));
    }
    if off && let Some(shared) = &host.iotlb_shared {
        return Err(Wrong::at(shared.span(), "iotlb_shared: no effect, because iommu is \"off\""));
    }
    if off && let Some(window) = host.iommu_window.first() {
        return Err(Wrong::at(window.span(), "iommu_window: no effect, because iommu is \"off\""));
    }
    Ok(())
}

/// Applies the lab's choices to `profile`.
pub(crate) fn apply(host: &Host, profile: HostProfile) -> HostProfile {
    let settings = HostSettings {
        iommu: match *host.iommu.get_ref() {
            IommuPages::Off => None,
            IommuPages::Kib4 => Some(PageSize::Kib4),
            IommuPages::Mib2 => Some(PageSize::Mib2),
            IommuPages::Gib1 => Some(PageSize::Gib1),
        },
        device_socket: *host.device_socket.get_ref(),
        memory_socket: *host.memory_socket.get_ref(),
        program_socket: *host.program_socket.get_ref(),
    };
    let ecrc = host.ecrc.map_or(profile.ecrc, Ecrc::policy);
    let mut profile = HostProfile { settings, ecrc, ..profile };
    if let (Some(iommu), Some(shared)) = (&mut profile.iommu, &host.iotlb_shared) {
        iommu.shared = *shared.get_ref();
    }
    profile
}

/// The windows of functions: requester, first address, bytes.
pub(crate) fn windows(host: &Host) -> impl Iterator<Item = (tlp::Bdf, u64, u64)> + '_ {
    host.iommu_window
        .iter()
        .map(Spanned::get_ref)
        .map(|window| (window.function.0, window.address, window.bytes))
}
