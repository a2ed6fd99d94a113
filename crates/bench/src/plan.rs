// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is to be measured.

use crate::BenchError;
use crate::configurations::Iommu;
use devices::pcie_bench::Bench;
use lab::Folder;
use lab::profile;
use lab::schema::Link;
use plug::transfers::{CacheState, Offer, Pattern, Test, Workload};
use plug::values::{Gen, Lanes, MpsBytes, MrrsBytes};
use plug::{Fault, MemoryKind, Offering};
use std::path::Path;
use tlp::{Mps, Mrrs, Rate, Rcb, Width};

/// The tests that `name` stands for: one test of the paper, or those of a suite that are among the `offered`.
///
/// # Errors
/// The names that there are.
pub fn tests_named(name: &str, offered: &[Test]) -> Result<Vec<Test>, BenchError> {
    let of = |suite: &[Test]| suite.iter().copied().filter(|test| offered.contains(test)).collect();
    match name.to_ascii_lowercase().as_str() {
        "full" => Ok(of(&Test::ALL)),
        "short" => Ok(of(&[Test::LatRd, Test::BwRd, Test::BwWr])),
        _ => {
            let found = Test::ALL.into_iter().find(|t| t.name().eq_ignore_ascii_case(name));
            let names = Test::ALL.map(Test::name).join(", ");
            found.map(|t| vec![t]).ok_or_else(|| {
                BenchError::Unknown(format!("no test `{name}`: there are {names}, full (all), short"))
            })
        }
    }
}

/// Transfer sizes of the tables: powers of two, and the sizes beside the boundaries of packets, in bytes.
pub const DEFAULT_SIZES: [u32; 9] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048];

/// Transfers before those that count.
pub const DEFAULT_WARM_UP: u64 = 16_384;
/// The most that a warm-up grows to by itself.
pub const MAX_WARM_UP: u64 = DEFAULT_WARM_UP << 6;

/// The link that is measured over where none is told: what the profile of the host says that it is, and beside that Gen3 x8 with
/// payloads of 256 B and read requests of 512 B.
pub fn usual_link(host: &str) -> Link {
    // A profile that cannot be read is told of where it is used.
    let own = profile::host_link(host, Path::new("")).unwrap_or_default();
    Link {
        generation: own.generation.or(Some(Gen(Rate::Gt8))),
        lanes: own.lanes.or(Width::new(8).map(Lanes)),
        mps_bytes: own.mps_bytes.or(Mps::new(256).ok().map(MpsBytes)),
        mrrs_bytes: own.mrrs_bytes.or(Mrrs::new(512).ok().map(MrrsBytes)),
        ..Link::default()
    }
}

/// A set of tests on one machine.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The model that is measured.
    pub model: Offering,
    /// The tests.
    pub tests: Vec<Test>,
    /// Transfer sizes in bytes.
    pub sizes: Vec<u32>,
    /// Host profile.
    pub host: String,
    /// The host's IOMMU.
    pub iommu: Iommu,
    /// Device profile; `None`: what the model says, as of the six below.
    pub device: Option<String>,
    /// The link.
    pub link: Link,
    /// Bytes of the window of host memory that transfers go to.
    pub window_bytes: Option<u64>,
    /// Offset from a cache line in bytes.
    pub host_offset_bytes: Option<u32>,
    /// Order in which the units of the window are used.
    pub pattern: Option<Pattern>,
    /// State of the host's caches at the start.
    pub cache: Option<CacheState>,
    /// Where the window lies: below 2 GiB or from 4 GiB on.
    pub memory: Option<MemoryKind>,
    /// Transfers of a latency test.
    pub latency_transfers: u64,
    /// Transfers of a bandwidth test.
    pub bandwidth_transfers: u64,
    /// Transfers before either that do not count; `None`: [`DEFAULT_WARM_UP`]. Reads and writes in turn need many: while the
    /// queue of the slower kind fills, the other gets ahead. Without a figure, theirs grows until as many of the one as of
    /// the other end, or to [`MAX_WARM_UP`].
    pub warm_up: Option<u64>,
    /// Transfers under way in bandwidth tests.
    pub outstanding: Option<u16>,
    /// Seed of the addresses.
    pub seed: u64,
}

impl Plan {
    /// Read Completion Boundary of the root port: that of the link, or else of the host profile.
    ///
    /// # Errors
    /// Where there is no such profile.
    pub fn rcb(&self) -> Result<Rcb, BenchError> {
        let host = lab::profile::host(&self.host, Path::new(""))?;
        Ok(self.link.rcb_bytes.map_or(host.rcb, |r| r.0))
    }

    /// What the model does for a row, behind `warm_up` transfers that do not count.
    ///
    /// # Errors
    /// What of it the model cannot do.
    pub fn offer(&self, test: Test, size: u32, warm_up: u64) -> Result<Offer, Fault> {
        let workload = Workload {
            test,
            size_bytes: size,
            transfers: if test.is_latency() { self.latency_transfers } else { self.bandwidth_transfers },
            warm_up,
            outstanding: self.outstanding,
            profile: self.device.clone(),
            window_bytes: self.window_bytes,
            host_offset_bytes: self.host_offset_bytes,
            pattern: self.pattern,
            cache: self.cache,
            memory: self.memory,
        };
        let offer = self.model.offer(&workload, &Folder::default())?;
        // Models that prepare no caches do not look at this.
        Workload::only("cache", self.cache.as_ref(), offer.cache)?;
        Ok(offer)
    }
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            model: Offering::of::<Bench>(),
            tests: Test::ALL.to_vec(),
            sizes: DEFAULT_SIZES.to_vec(),
            host: "ideal".into(),
            iommu: Iommu::Off,
            device: None,
            link: Link::default(),
            window_bytes: None,
            host_offset_bytes: None,
            pattern: None,
            cache: None,
            memory: None,
            latency_transfers: 2_000,
            bandwidth_transfers: 20_000,
            warm_up: None,
            outstanding: None,
            seed: 1,
        }
    }
}
