// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is to be measured.

use devices::pcie_bench::Test;
use devices::pcie_bench::{CARDS, Pattern, card};
use lab::Folder;
use lab::profile;
use lab::profile::{HOSTS, Shelf};
use lab::schema::Link;
use plug::MemoryKind;
use plug::values::{Gen, Lanes, MpsBytes, MrrsBytes};
use std::path::Path;
use tlp::{Mps, Mrrs, Rate, Rcb, Width};

/// The tests that `name` stands for: one test of the paper, or a suite.
///
/// # Errors
/// The names that there are.
pub fn tests_named(name: &str) -> Result<Vec<Test>, String> {
    match name.to_ascii_lowercase().as_str() {
        "full" => Ok(Test::ALL.to_vec()),
        "short" => Ok(vec![Test::LatRd, Test::BwRd, Test::BwWr]),
        _ => {
            let found = Test::ALL.into_iter().find(|t| t.name().eq_ignore_ascii_case(name));
            let names = Test::ALL.map(Test::name).join(", ");
            found
                .map(|t| vec![t])
                .ok_or_else(|| format!("no test `{name}`: there are {names}, full (all), short"))
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
#[must_use]
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
    /// The tests.
    pub tests: Vec<Test>,
    /// Transfer sizes in bytes.
    pub sizes: Vec<u32>,
    /// Host profile.
    pub host: String,
    /// Device profile.
    pub device: String,
    /// The link.
    pub link: Link,
    /// Bytes of the window.
    pub window_bytes: u64,
    /// Offset from a cache line in bytes.
    pub host_offset_bytes: u32,
    /// Order of the units.
    pub pattern: Pattern,
    /// Where the window lies: below 2 GiB or from 4 GiB on.
    pub memory: MemoryKind,
    /// Transfers of a latency test.
    pub latency_transfers: u64,
    /// Transfers of a bandwidth test.
    pub bandwidth_transfers: u64,
    /// Transfers before either that do not count; `None`: [`DEFAULT_WARM_UP`]. Reads and writes in turn need many: while the
    /// queue of the slower kind fills, the other gets ahead. Without a figure, theirs grows until as many of the one as of
    /// the other end, or to [`MAX_WARM_UP`].
    pub warm_up: Option<u64>,
    /// Transfers under way in bandwidth tests; `None`: what the device profile says.
    pub outstanding: Option<u16>,
    /// Seed of the addresses.
    pub seed: u64,
}

impl Plan {
    /// Read Completion Boundary of the root port: that of the link, or else of the host profile.
    ///
    /// # Errors
    /// Where there is no such profile.
    pub fn rcb(&self) -> Result<Rcb, String> {
        let host = lab::profile::host(&self.host, Path::new(""))?;
        Ok(self.link.rcb_bytes.map_or(host.rcb, |r| r.0))
    }

    /// What of its profiles is extrapolated on its link, a line each.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let rate = self.link.generation.map_or(Rate::Gt8, |g| g.0);
        let of = |shelf: &Shelf, name: &str| shelf.extrapolated(name, &Folder::default(), [rate]);
        [of(&HOSTS, &self.host), of(&CARDS, &self.device)].into_iter().flatten().collect()
    }

    /// Transfers under way in bandwidth tests: that of the plan, or else of the device profile.
    ///
    /// # Errors
    /// Where there is no such profile.
    pub fn outstanding(&self) -> Result<u16, String> {
        let card = card(&self.device, &Folder::default())?;
        Ok(self.outstanding.unwrap_or(card.outstanding.value))
    }
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            tests: Test::ALL.to_vec(),
            sizes: DEFAULT_SIZES.to_vec(),
            host: "ideal".into(),
            device: "ideal".into(),
            link: Link::default(),
            window_bytes: 8192,
            host_offset_bytes: 0,
            pattern: Pattern::Random,
            memory: MemoryKind::High,
            latency_transfers: 2_000,
            bandwidth_transfers: 20_000,
            warm_up: None,
            outstanding: None,
            seed: 1,
        }
    }
}
