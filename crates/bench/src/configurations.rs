// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configurations that the published pcie-bench measurements were made on: a server, its IOMMU's mode, and where on it
//! device, memory and program are. Source of every figure: `hosts.json` of the published data, which was derived from the
//! hosts' own records. What a server costs is a matter of its host profile.

use crate::BenchError;
use crate::results::sheet::SheetLink;
use lab::schema::IommuPages;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// Whether DMA goes through an IOMMU, and by which pages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize)]
pub enum Iommu {
    /// Addresses are physical ones.
    #[default]
    #[serde(rename = "off")]
    Off,
    /// 4 KiB pages: `intel_iommu=on,sp_off`, or an IOMMU that has no others.
    #[serde(rename = "4k")]
    Pages4k,
    /// 2 MiB pages: the host's buffer is in chunks of 4 MB (SIGCOMM'18, §5.3), which hold no larger ones.
    #[serde(rename = "2m")]
    Pages2m,
    /// 1 GiB pages: in no published configuration.
    #[serde(rename = "1g")]
    Pages1g,
}

impl Iommu {
    /// All modes.
    pub const ALL: [Iommu; 4] = [Iommu::Off, Iommu::Pages4k, Iommu::Pages2m, Iommu::Pages1g];

    /// Suffix of the names of configurations with this mode. The first three are those of the published data.
    #[must_use]
    pub const fn in_names(self) -> &'static str {
        match self {
            Iommu::Off => "",
            Iommu::Pages4k => "-iommu-nosp",
            Iommu::Pages2m => "-iommu",
            Iommu::Pages1g => "-iommu-1g",
        }
    }

    /// As the schema of labs has it.
    #[must_use]
    pub const fn pages(self) -> IommuPages {
        match self {
            Iommu::Off => IommuPages::Off,
            Iommu::Pages4k => IommuPages::Kib4,
            Iommu::Pages2m => IommuPages::Mib2,
            Iommu::Pages1g => IommuPages::Gib1,
        }
    }

    /// As `hosts.json` has it.
    #[must_use]
    pub const fn in_records(self) -> &'static str {
        match self {
            Iommu::Off => "off",
            Iommu::Pages4k => "on, 4 KiB pages",
            Iommu::Pages2m => "on, superpages",
            Iommu::Pages1g => "on, 1 GiB pages",
        }
    }

    /// As lab files have it.
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
        found.ok_or_else(|| BenchError::Unknown(format!("iommu {mode}: legal are {}", legal())))
    }
}

/// On which socket, 0 or 1, each is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Sockets {
    /// The card.
    pub device: u8,
    /// The host's buffer.
    pub memory: u8,
    /// The program that warms and thrashes the caches.
    pub program: u8,
}

/// A measured configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Configuration {
    /// Its name, which is that of its folder.
    pub name: &'static str,
    /// Host profile of the server.
    pub profile: &'static str,
    /// Megabytes (2^20) of last-level cache.
    pub llc_mib: u32,
    /// Max_Payload_Size in bytes.
    pub mps_bytes: u32,
    /// Max_Read_Request_Size in bytes.
    pub mrrs_bytes: u32,
    /// The IOMMU.
    pub iommu: Iommu,
    /// Where device, memory and program are; `None` where the server has one socket or the records do not say.
    pub sockets: Option<Sockets>,
    /// False where the host's buffer lies above 32 GB: there the command path and the DMA path of the card behave as if
    /// they touched different memory, so host warming does nothing to the one and device warming nothing to the other.
    pub cmd_path_valid: bool,
}

impl Configuration {
    /// Its link.
    pub const fn link(&self) -> SheetLink {
        let (mps_bytes, mrrs_bytes) = (self.mps_bytes, self.mrrs_bytes);
        SheetLink { generation: GENERATION, lanes: LANES, mps_bytes, mrrs_bytes }
    }

    /// The configuration of that name, with or without the card's prefix `nfp6000-1.2GHz_`.
    pub fn named(name: &str) -> Option<&'static Configuration> {
        CONFIGURATIONS.iter().find(|c| c.name == name || c.name.strip_prefix(CARD) == Some(name))
    }
}

/// What each name begins with: the card and its clock.
pub const CARD: &str = "nfp6000-1.2GHz_";
/// Generation of the link of every configuration.
pub const GENERATION: u8 = 3;
/// Lanes of the link of every configuration.
pub const LANES: u8 = 8;

/// A server, of which all figures but those of its modes are the same.
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

/// All of them, in the order of their names.
#[rustfmt::skip] // One line each, which is a table.
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
