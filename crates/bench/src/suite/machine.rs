// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine of a suite: a host profile with an IOMMU mode, a card, and their link; and the lab of a row on it. This
//! module runs no simulation.

use crate::BenchError;
use crate::configurations::{Configuration, GENERATION, Iommu, LANES, Sockets};
use crate::experiments::{Cache, Key, Pattern, Test};
use crate::plan::usual_link;
use devices::pcie_bench::{self, Bench, CARDS, CacheState, CardPath};
use lab::Folder;
use lab::Spanned;
use lab::profile::{self, Basis, HOSTS, HostBasis, Shelf};
use lab::schema::{BufferPages, Host, Lab, Link, Slot};
use plug::MemoryKind;
use plug::values::{Gen, Lanes, MpsBytes, MrrsBytes};
use std::collections::BTreeSet;
use std::path::Path;
use tlp::Rate;

/// A host, a card, and their settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Name, also of its folder.
    pub name: String,
    /// Host profile.
    pub host: String,
    /// Device profile.
    pub device: String,
    /// Mode of the IOMMU.
    pub iommu: Iommu,
    /// Pages of the host's buffers.
    pub pages: BufferPages,
    /// Sockets of device, memory and program.
    pub sockets: Sockets,
    /// Max_Payload_Size in bytes.
    pub mps_bytes: u32,
    /// Max_Read_Request_Size in bytes.
    pub mrrs_bytes: u32,
    /// Generation of the link.
    pub generation: u8,
    /// Lanes of the link.
    pub lanes: u8,
}

impl Machine {
    /// Returns a measured configuration with the card of device profile `device`.
    pub fn configuration(configuration: &Configuration, device: &str) -> Machine {
        Machine {
            name: configuration.name.into(),
            host: configuration.profile.into(),
            device: device.into(),
            iommu: configuration.iommu,
            pages: BufferPages::default(),
            sockets: configuration.sockets.unwrap_or_default(),
            mps_bytes: configuration.mps_bytes,
            mrrs_bytes: configuration.mrrs_bytes,
            generation: GENERATION,
            lanes: LANES,
        }
    }

    /// Returns any host profile with the card of device profile `device`, over the host's [usual link](usual_link).
    pub fn profile(host: &str, device: &str) -> Machine {
        let stem = |name: &str| {
            let stem = Path::new(name).file_name().map(|n| n.to_string_lossy().into_owned());
            stem.map_or_else(|| "host".to_owned(), |n| n.trim_end_matches(".toml").to_owned())
        };
        let link = usual_link(host);
        Machine {
            name: format!("{}_{}", stem(device), stem(host)),
            host: host.into(),
            device: device.into(),
            iommu: Iommu::Off,
            pages: BufferPages::default(),
            sockets: Sockets::default(),
            mps_bytes: link.mps_bytes.map_or(256, |MpsBytes(mps)| mps.bytes()),
            mrrs_bytes: link.mrrs_bytes.map_or(512, |MrrsBytes(mrrs)| mrrs.bytes()),
            generation: link.generation.map_or(GENERATION, |Gen(rate)| rate.generation()),
            lanes: link.lanes.map_or(LANES, |Lanes(width)| width.lanes()),
        }
    }

    /// Returns the machine with its IOMMU in this mode. The name gets the suffix of the published data.
    #[must_use]
    pub fn with_iommu(self, iommu: Iommu) -> Machine {
        Machine { name: self.name + iommu.in_names(), iommu, ..self }
    }

    /// Returns the machine with its buffers in such pages.
    #[must_use]
    pub fn with_pages(self, pages: BufferPages) -> Machine {
        Machine { pages, ..self }
    }

    /// Returns a warning for each profile figure that is extrapolated on the link.
    pub fn warnings(&self) -> Vec<String> {
        let Some(rate) = Rate::from_generation(self.generation) else { return Vec::new() };
        let of = |shelf: &Shelf, name: &str| shelf.extrapolated(name, &Folder::default(), [rate]);
        [of(&HOSTS, &self.host), of(&CARDS, &self.device)].into_iter().flatten().collect()
    }

    /// Returns the weakest basis of the profile figures that these tests depend on; `None` without tests. Looks each test up once.
    pub(crate) fn basis(&self, tests: impl Iterator<Item = Test>) -> Option<Basis> {
        tests.collect::<BTreeSet<Test>>().into_iter().map(|test| self.basis_of_test(test)).max()
    }

    fn basis_of_test(&self, of: Test) -> Basis {
        let here = Folder::default();
        let card = pcie_bench::card_basis(&self.device, &here, test(of), path(of));
        crate::basis::of(&HostBasis::of(&self.host(), &here), card, test(of))
    }

    /// Returns the text of both profiles, so that changes are detected.
    ///
    /// # Errors
    /// An unknown or invalid profile.
    pub(super) fn profile_texts(&self) -> Result<[String; 2], BenchError> {
        let here = Folder::default();
        profile::host(&self.host, Path::new(""))?;
        pcie_bench::card(&self.device, &here)?;
        Ok([HOSTS.text(&self.host, &here)?, CARDS.text(&self.device, &here)?])
    }

    /// Returns the lab of a row.
    ///
    /// # Errors
    /// An invalid setting of the link.
    pub(super) fn lab(
        &self,
        key: &Key,
        transfers: u64,
        warm_up: u64,
        seen: u64,
        seed: u64,
    ) -> Result<Lab, BenchError> {
        let bench = Bench {
            test: test(key.test),
            profile: self.device.clone(),
            path: path(key.test),
            cache: cache(key.cache),
            size_bytes: key.size_bytes,
            window_bytes: key.window_bytes,
            host_offset_bytes: key.host_offset_bytes,
            device_offset_bytes: key.device_offset_bytes,
            pattern: match key.pattern {
                Pattern::Sequential => pcie_bench::Pattern::Sequential,
                Pattern::Random => pcie_bench::Pattern::Random,
            },
            outstanding: None,
            transfers,
            warm_up,
            seen_by_caches: seen,
            carry: false,
            memory: MemoryKind::High,
            address: None,
        };
        let (host, link, slot) = (self.host(), self.link()?, vec![Slot::new("card", bench)]);
        Ok(Lab { seed, host, link, slot, ..Lab::default() })
    }

    fn host(&self) -> Host {
        let socket = |n| Spanned::new(0..0, n);
        Host {
            profile: Spanned::new(0..0, self.host.clone()),
            iommu: Spanned::new(0..0, self.iommu.pages()),
            buffer_pages: Spanned::new(0..0, self.pages),
            device_socket: socket(self.sockets.device),
            memory_socket: socket(self.sockets.memory),
            program_socket: socket(self.sockets.program),
            ..Host::default()
        }
    }

    fn link(&self) -> Result<Link, BenchError> {
        Ok(Link {
            generation: Some(Gen::try_from(i64::from(self.generation))?),
            lanes: Some(Lanes::try_from(i64::from(self.lanes))?),
            mps_bytes: Some(MpsBytes::try_from(i64::from(self.mps_bytes))?),
            mrrs_bytes: Some(MrrsBytes::try_from(i64::from(self.mrrs_bytes))?),
            ..Link::default()
        })
    }
}

const fn test(test: Test) -> pcie_bench::Test {
    match test {
        Test::LatCmdRd | Test::LatDmaRd => pcie_bench::Test::LatRd,
        Test::LatCmdWrRd | Test::LatDmaWrRd => pcie_bench::Test::LatWrRd,
        Test::BwDmaRd => pcie_bench::Test::BwRd,
        Test::BwDmaWr => pcie_bench::Test::BwWr,
        Test::BwDmaRw => pcie_bench::Test::BwRdWr,
    }
}

const fn path(test: Test) -> CardPath {
    match test {
        Test::LatCmdRd | Test::LatCmdWrRd => CardPath::Command,
        _ => CardPath::Dma,
    }
}

const fn cache(cache: Cache) -> CacheState {
    match cache {
        Cache::Cold => CacheState::Cold,
        Cache::DeviceThrash => CacheState::DeviceThrash,
        Cache::DeviceWarm => CacheState::DeviceWarm,
        Cache::HostWarm => CacheState::HostWarm,
    }
}
