// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab's choices for its host in addition to the profile: the IOMMU, and the socket of each part.

use host::firmware::EcrcPolicy;
use plug::FunctionId;
use schemars::JsonSchema;
use serde::Deserialize;

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
    pub(crate) const fn policy(self) -> EcrcPolicy {
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
