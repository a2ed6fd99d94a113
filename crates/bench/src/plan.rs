// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is to be measured.

use lab::schema::{BenchTest, Link, MemoryKind, Pattern};
use std::fmt;
use std::str::FromStr;

/// A test of pcie-bench.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Test {
    /// Latency of a DMA read.
    LatRd,
    /// Latency of a DMA write and a read of the same address behind it.
    LatWrRd,
    /// Bandwidth of DMA reads.
    BwRd,
    /// Bandwidth of DMA writes.
    BwWr,
    /// Bandwidth of DMA reads and writes in turn; one direction is counted.
    BwRdWr,
}

impl Test {
    /// All tests, in the order of the paper.
    pub const ALL: [Test; 5] = [Test::LatRd, Test::LatWrRd, Test::BwRd, Test::BwWr, Test::BwRdWr];

    /// The paper's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Test::LatRd => "LAT_RD",
            Test::LatWrRd => "LAT_WRRD",
            Test::BwRd => "BW_RD",
            Test::BwWr => "BW_WR",
            Test::BwRdWr => "BW_RDWR",
        }
    }

    /// True for a latency test.
    #[must_use]
    pub const fn is_latency(self) -> bool {
        matches!(self, Test::LatRd | Test::LatWrRd)
    }

    pub(crate) const fn in_lab(self) -> BenchTest {
        match self {
            Test::LatRd => BenchTest::LatRd,
            Test::LatWrRd => BenchTest::LatWrRd,
            Test::BwRd => BenchTest::BwRd,
            Test::BwWr => BenchTest::BwWr,
            Test::BwRdWr => BenchTest::BwRdWr,
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Test {
    type Err = String;
    fn from_str(s: &str) -> Result<Test, String> {
        let found = Test::ALL.into_iter().find(|t| t.name().eq_ignore_ascii_case(s));
        found.ok_or_else(|| {
            format!("no test `{s}`: there are {}, and the suites full and short", Test::ALL.map(Test::name).join(", "))
        })
    }
}

/// Transfer sizes of the tables: powers of two, and the sizes beside the boundaries of packets, in bytes.
pub const DEFAULT_SIZES: [u32; 9] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048];

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
    /// Transfers before either that do not count.
    pub warm_up: u64,
    /// Transfers under way in bandwidth tests; `None`: what the device profile says.
    pub outstanding: Option<u16>,
    /// Seed of the addresses.
    pub seed: u64,
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
            warm_up: 1_000,
            outstanding: None,
            seed: 1,
        }
    }
}
