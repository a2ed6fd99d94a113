// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab's choices for its host in addition to the profile: the IOMMU, and the socket of each part.

use fabric::profile::PageSize;
use host::firmware::EcrcPolicy;
use plug::FunctionId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// Pages of the buffers in host memory that devices access. A buffer is contiguous only within a page, so the IOMMU maps it
/// with pages of at most this size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub enum BufferPages {
    /// Ordinary pages.
    #[serde(rename = "4KiB")]
    Kib4,
    /// Huge pages.
    #[serde(rename = "2MiB")]
    Mib2,
    /// Huge pages of the largest size.
    #[default]
    #[serde(rename = "1GiB")]
    Gib1,
}

impl BufferPages {
    /// All sizes.
    pub const ALL: [BufferPages; 3] = [BufferPages::Kib4, BufferPages::Mib2, BufferPages::Gib1];

    /// Returns the size as in lab files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            BufferPages::Kib4 => "4KiB",
            BufferPages::Mib2 => "2MiB",
            BufferPages::Gib1 => "1GiB",
        }
    }

    pub(crate) const fn size(self) -> PageSize {
        match self {
            BufferPages::Kib4 => PageSize::Kib4,
            BufferPages::Mib2 => PageSize::Mib2,
            BufferPages::Gib1 => PageSize::Gib1,
        }
    }
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
