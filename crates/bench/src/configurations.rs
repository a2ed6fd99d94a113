// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configurations of the published pcie-bench measurements: the server, the mode of its IOMMU, and the sockets of device, memory and program. Source of
//! every figure: `hosts.json` of the published data, which was derived from the hosts' own records. The costs of a server are in its host profile.

use crate::BenchError;
use lab::schema::IommuPages;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// Mode of the IOMMU: off, or its page size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize)]
pub enum Iommu {
    /// Addresses are physical addresses.
    #[default]
    #[serde(rename = "off")]
    Off,
    /// 4 KiB pages: `intel_iommu=on,sp_off`, or an IOMMU without superpages.
    #[serde(rename = "4k")]
    Pages4k,
    /// 2 MiB pages: the host's buffer consists of chunks of 4 MB (SIGCOMM'18, §5.3), which rules out larger pages.
    #[serde(rename = "2m")]
    Pages2m,
    /// 1 GiB pages. No published configuration uses them.
    #[serde(rename = "1g")]
    Pages1g,
}

impl Iommu {
    /// All modes.
    pub const ALL: [Iommu; 4] = [Iommu::Off, Iommu::Pages4k, Iommu::Pages2m, Iommu::Pages1g];

    /// Returns the suffix of configuration names with this mode. The first three are those of the published data.
    #[must_use]
    pub const fn in_names(self) -> &'static str {
        match self {
            Iommu::Off => "",
            Iommu::Pages4k => "-iommu-nosp",
            Iommu::Pages2m => "-iommu",
            Iommu::Pages1g => "-iommu-1g",
        }
    }

    /// Returns the mode as a value of the lab schema.
    #[must_use]
    pub const fn pages(self) -> IommuPages {
        match self {
            Iommu::Off => IommuPages::Off,
            Iommu::Pages4k => IommuPages::Kib4,
            Iommu::Pages2m => IommuPages::Mib2,
            Iommu::Pages1g => IommuPages::Gib1,
        }
    }

    /// Returns the mode in the words of `hosts.json`.
    #[must_use]
    pub const fn in_records(self) -> &'static str {
        match self {
            Iommu::Off => "off",
            Iommu::Pages4k => "on, 4 KiB pages",
            Iommu::Pages2m => "on, superpages",
            Iommu::Pages1g => "on, 1 GiB pages",
        }
    }

    /// Returns the mode in the words of lab files.
    #[must_use]
    pub const fn in_labs(self) -> &'static str {
        match self {
            Iommu::Off => "off",
            Iommu::Pages4k => "4k",
            Iommu::Pages2m => "2m",
            Iommu::Pages1g => "1g",
        }
    }
}

impl fmt::Display for Iommu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.in_labs())
    }
}

impl FromStr for Iommu {
    type Err = BenchError;

    fn from_str(mode: &str) -> Result<Iommu, BenchError> {
        let found = Iommu::ALL.into_iter().find(|iommu| iommu.in_labs() == mode);
        let legal = || Iommu::ALL.map(Iommu::in_labs).join(", ");
        found.ok_or_else(|| BenchError::Unknown(format!("iommu {mode}: expected {}", legal())))
    }
}

/// Sockets of device, memory and program, each 0 or 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Sockets {
    /// Socket of the card.
    pub device: u8,
    /// Socket of the host's buffer.
    pub memory: u8,
    /// Socket of the program that warms and thrashes the caches.
    pub program: u8,
}

/// The link that results were measured over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SheetLink {
    /// Its generation.
    pub generation: u8,
    /// Its lanes.
    pub lanes: u8,
    /// Max_Payload_Size in bytes.
    pub mps_bytes: u32,
    /// Max_Read_Request_Size in bytes.
    pub mrrs_bytes: u32,
}

/// A measured configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Configuration {
    /// Name of the configuration and of its folder.
    pub name: &'static str,
    /// Host profile of the server.
    pub profile: &'static str,
    /// Megabytes (2^20) of last-level cache.
    pub llc_mib: u32,
    /// Max_Payload_Size in bytes.
    pub mps_bytes: u32,
    /// Max_Read_Request_Size in bytes.
    pub mrrs_bytes: u32,
    /// Mode of the IOMMU.
    pub iommu: Iommu,
    /// Sockets of device, memory and program; `None` if the server has one socket or the records do not give them.
    pub sockets: Option<Sockets>,
    /// False if the host's buffer is above 32 GB. On these hosts, the card's command path and its DMA path behave as if
    /// they accessed different memory. Host warming does not affect one path, and device warming does not affect the
    /// other.
    pub cmd_path_valid: bool,
}

impl Configuration {
    /// Returns the link of the configuration.
    pub const fn link(&self) -> SheetLink {
        let (mps_bytes, mrrs_bytes) = (self.mps_bytes, self.mrrs_bytes);
        SheetLink { generation: GENERATION, lanes: LANES, mps_bytes, mrrs_bytes }
    }

    /// Returns the configuration `name`, with or without the prefix `nfp6000-1.2GHz_` of the card.
    pub fn named(name: &str) -> Option<&'static Configuration> {
        CONFIGURATIONS.iter().find(|c| c.name == name || c.name.strip_prefix(CARD) == Some(name))
    }
}

/// Prefix of each name: the card and its clock.
pub const CARD: &str = "nfp6000-1.2GHz_";
/// Device profile of this card.
pub(crate) const PUBLISHED_CARD: &str = "nfp6000";
/// Generation of the link of every configuration.
pub const GENERATION: u8 = 3;
/// Lanes of the link of every configuration.
pub const LANES: u8 = 8;

/// Returns a configuration with the figures of a server that do not depend on its modes.
const fn server(profile: &'static str, llc_mib: u32, mps_bytes: u32, mrrs_bytes: u32) -> Configuration {
    let (iommu, sockets, cmd_path_valid) = (Iommu::Off, None, true);
    Configuration { name: "", profile, llc_mib, mps_bytes, mrrs_bytes, iommu, sockets, cmd_path_valid }
}

const BDW: Configuration = server("xeon-e5-2630v4", 25, 256, 4096);
const E3: Configuration = server("xeon-e3-1226v3", 8, 128, 512);
const HSW_DELL: Configuration = server("xeon-e5-2620v3", 15, 256, 512);
const HSW_SUPERMICRO: Configuration = server("xeon-e5-2637v3", 15, 256, 512);
const IB: Configuration = server("xeon-e5-2620v2", 15, 256, 512);
const SNB: Configuration = server("xeon-e5-2630", 15, 256, 512);

impl Configuration {
    const fn called(self, name: &'static str) -> Configuration {
        Configuration { name, ..self }
    }

    const fn iommu(self, iommu: Iommu) -> Configuration {
        Configuration { iommu, ..self }
    }

    const fn at(self, device: u8, memory: u8, program: u8) -> Configuration {
        Configuration { sockets: Some(Sockets { device, memory, program }), ..self }
    }

    const fn above_32_gb(self) -> Configuration {
        Configuration { cmd_path_valid: false, ..self }
    }
}

use Iommu::{Pages2m, Pages4k};

/// All configurations, sorted by name.
#[rustfmt::skip] // A table with one line for each.
pub const CONFIGURATIONS: [Configuration; 21] = [
    BDW.called("nfp6000-1.2GHz_bdw-Xeon-E5-2630v4-dell-t430-s0-s0-s0").at(0, 0, 0).above_32_gb(),
    BDW.called("nfp6000-1.2GHz_bdw-Xeon-E5-2630v4-dell-t430-s0-s0-s0-iommu-nosp").at(0, 0, 0).iommu(Pages4k),
    BDW.called("nfp6000-1.2GHz_bdw-Xeon-E5-2630v4-dell-t430-s0-s0-s1").at(0, 0, 1).above_32_gb(),
    BDW.called("nfp6000-1.2GHz_bdw-Xeon-E5-2630v4-dell-t430-s0-s1-s0").at(0, 1, 0).above_32_gb(),
    BDW.called("nfp6000-1.2GHz_bdw-Xeon-E5-2630v4-dell-t430-s0-s1-s1").at(0, 1, 1).above_32_gb(),
    BDW.called("nfp6000-1.2GHz_bdw-Xeon-E5-2630v4-dell-t430-s0-s1-s1-iommu-nosp").at(0, 1, 1).iommu(Pages4k),
    E3.called("nfp6000-1.2GHz_hsw-Xeon-E3-1226v3_fujitsu-tx1310"),
    E3.called("nfp6000-1.2GHz_hsw-Xeon-E3-1226v3_fujitsu-tx1310-iommu-nosp").iommu(Pages4k),
    HSW_DELL.called("nfp6000-1.2GHz_hsw-Xeon-E5-2620v3_dell-t630").above_32_gb(),
    HSW_DELL.called("nfp6000-1.2GHz_hsw-Xeon-E5-2620v3_dell-t630-iommu").iommu(Pages2m),
    HSW_DELL.called("nfp6000-1.2GHz_hsw-Xeon-E5-2620v3_dell-t630-iommu-nosp").iommu(Pages4k),
    HSW_SUPERMICRO.called("nfp6000-1.2GHz_hsw-Xeon-E5-2637v3_supermicro").above_32_gb(),
    HSW_SUPERMICRO.called("nfp6000-1.2GHz_hsw-Xeon-E5-2637v3_supermicro-iommu-nosp").iommu(Pages4k),
    IB.called("nfp6000-1.2GHz_ib-Xeon-E5-2620v2_dell-t620-s0-s0-s0").at(0, 0, 0),
    IB.called("nfp6000-1.2GHz_ib-Xeon-E5-2620v2_dell-t620-s0-s0-s0-iommu").at(0, 0, 0).iommu(Pages2m),
    IB.called("nfp6000-1.2GHz_ib-Xeon-E5-2620v2_dell-t620-s0-s0-s0-iommu-nosp").at(0, 0, 0).iommu(Pages4k),
    IB.called("nfp6000-1.2GHz_ib-Xeon-E5-2620v2_dell-t620-s0-s1-s1").at(0, 1, 1).above_32_gb(),
    IB.called("nfp6000-1.2GHz_ib-Xeon-E5-2620v2_dell-t620-s0-s1-s1-iommu").at(0, 1, 1).iommu(Pages2m),
    IB.called("nfp6000-1.2GHz_ib-Xeon-E5-2620v2_dell-t620-s0-s1-s1-iommu-nosp").at(0, 1, 1).iommu(Pages4k),
    SNB.called("nfp6000-1.2GHz_snb-Xeon-E5-2630_dell-t620"),
    SNB.called("nfp6000-1.2GHz_snb-Xeon-E5-2630_dell-t620-iommu").iommu(Pages4k),
];
