// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans: tests and the machine to measure them on.

use crate::BenchError;
use crate::configurations::Iommu;
use devices::packet_nic::RING_ENTRIES;
use devices::pcie_bench::Bench;
use lab::Folder;
use lab::profile;
use lab::schema::{BufferPages, Link};
use plug::transfers::{CacheState, Offer, Pattern, Test, Workload};
use plug::values::{Gen, Lanes, MpsBytes, MrrsBytes};
use plug::{Fault, MemoryKind, Offering};
use std::path::Path;
use tlp::{Mps, Mrrs, Rate, Rcb, Width};

/// Returns the tests of `name`: one test of the paper, or the `offered` tests of a suite.
///
/// # Errors
/// The known names.
pub fn tests_named(name: &str, offered: &[Test]) -> Result<Vec<Test>, BenchError> {
    let of = |suite: &[Test]| suite.iter().copied().filter(|test| offered.contains(test)).collect();
    match name.to_ascii_lowercase().as_str() {
        "full" => Ok(offered.to_vec()),
        "short" => Ok(of(&[Test::LatRd, Test::BwRd, Test::BwWr])),
        _ => {
            let found = Test::all().find(|t| t.name().eq_ignore_ascii_case(name));
            let names = Test::all().map(Test::name).collect::<Vec<_>>().join(", ");
            found.map(|t| vec![t]).ok_or_else(|| {
                BenchError::Unknown(format!("no test `{name}`; known tests: {names}, full (all), short"))
            })
        }
    }
}

/// Transfer sizes of the tables in bytes: powers of two, and the sizes next to packet boundaries.
pub const DEFAULT_SIZES: [u32; 9] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048];

/// Frame sizes of loop-back tests in bytes: powers of two, and the largest frame without FCS.
pub const DEFAULT_FRAMES: [u32; 6] = [64, 128, 256, 512, 1024, 1514];

/// Default number of transfers before the counted transfers.
pub const DEFAULT_WARM_UP: u64 = 16_384;
/// Default number of frames before the counted frames of a latency test, in which no queue fills: once around the ring of
/// `packet-nic`, so that each counted frame has a buffer that was used before.
const LOOP_WARM_UP: u64 = RING_ENTRIES as u64;
/// Largest warm-up that riser chooses itself.
pub const MAX_WARM_UP: u64 = DEFAULT_WARM_UP << 6;

/// Returns the default link to `host`: by its profile, or otherwise Gen3 x8 with payloads of 256 B and read requests of
/// 512 B.
pub fn usual_link(host: &str) -> Link {
    // The user of a profile reports read errors, not this function.
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
    /// The measured model.
    pub model: Offering,
    /// The tests.
    pub tests: Vec<Test>,
    /// Transfer sizes in bytes.
    pub sizes: Vec<u32>,
    /// Host profile.
    pub host: String,
    /// The host's IOMMU.
    pub iommu: Iommu,
    /// Pages of the host's buffers.
    pub pages: BufferPages,
    /// Device profile; `None`: the model decides. The same holds for the six options below.
    pub device: Option<String>,
    /// The link.
    pub link: Link,
    /// Size in bytes of the window of host memory that transfers access.
    pub window_bytes: Option<u64>,
    /// Offset of each transfer from the start of a cache line, in bytes.
    pub host_offset_bytes: Option<u32>,
    /// Order in which the units of the window are used.
    pub pattern: Option<Pattern>,
    /// State of the host's caches at the start.
    pub cache: Option<CacheState>,
    /// Region of the window: below 2 GiB, or from 4 GiB on.
    pub memory: Option<MemoryKind>,
    /// Transfers of a latency test.
    pub latency_transfers: u64,
    /// Transfers of a bandwidth test.
    pub bandwidth_transfers: u64,
    /// Transfers before either that do not count; `None`: [`DEFAULT_WARM_UP`]. Alternating reads and writes need many,
    /// because one kind advances further while the queue of the slower kind fills. With `None`, their warm-up grows
    /// until as many reads as writes complete, or up to [`MAX_WARM_UP`].
    pub warm_up: Option<u64>,
    /// Outstanding transfers in bandwidth tests.
    pub outstanding: Option<u16>,
    /// Seed of the addresses.
    pub seed: u64,
}

impl Plan {
    /// Returns the number of transfers before the counted ones.
    pub fn warm_up(&self, test: Test) -> u64 {
        let usual = if test == Test::LatLoop { LOOP_WARM_UP } else { DEFAULT_WARM_UP };
        self.warm_up.unwrap_or(usual)
    }

    /// Returns the Read Completion Boundary of the root port: the link's, or else the host profile's.
    ///
    /// # Errors
    /// An unknown host profile.
    pub fn rcb(&self) -> Result<Rcb, BenchError> {
        let host = lab::profile::host(&self.host, Path::new(""))?;
        Ok(self.link.rcb_bytes.map_or(host.rcb, |r| r.0))
    }

    /// Returns the model's offer for a row, after `warm_up` transfers that do not count.
    ///
    /// # Errors
    /// A part of the workload that the model cannot do.
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
        // Models without cache preparation do not check this themselves.
        Workload::only("cache", self.cache.as_ref(), offer.cache)?;
        Ok(offer)
    }
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            model: Offering::of::<Bench>(),
            tests: Test::DMA.to_vec(),
            sizes: DEFAULT_SIZES.to_vec(),
            host: "ideal".into(),
            iommu: Iommu::Off,
            pages: BufferPages::default(),
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
