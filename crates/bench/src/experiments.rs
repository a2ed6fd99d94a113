// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The experiments of the published pcie-bench measurements (SIGCOMM'18; the tables of its NFP-6000 card), as rows with
//! exact parameters in the order of the files. A file has the same rows for every measured host that has this file.
//!
//! This module does not measure and reads no files.

use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A test of the card, by its name in the column `Test`. CMD is the card's direct command interface, DMA its engine
/// with descriptors (SIGCOMM'18, §5.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Test {
    /// `LAT_CMD_RD`: latency of a read through the command interface.
    LatCmdRd,
    /// `LAT_CMD_WRRD`: latency of a write followed by a read of the same address, through the command interface.
    LatCmdWrRd,
    /// `LAT_DMA_RD`: latency of a read through the DMA engine.
    LatDmaRd,
    /// `LAT_DMA_WRRD`: latency of a write followed by a read of the same address, through the DMA engine.
    LatDmaWrRd,
    /// `BW_DMA_RD`: bandwidth of reads.
    BwDmaRd,
    /// `BW_DMA_WR`: bandwidth of writes.
    BwDmaWr,
    /// `BW_DMA_RW`: bandwidth of alternating reads and writes. Its figures are for one direction.
    BwDmaRw,
}

impl Test {
    /// Every test.
    pub const ALL: [Test; 7] = [
        Test::LatCmdRd,
        Test::LatCmdWrRd,
        Test::LatDmaRd,
        Test::LatDmaWrRd,
        Test::BwDmaRd,
        Test::BwDmaWr,
        Test::BwDmaRw,
    ];

    /// Returns its name in the column `Test`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Test::LatCmdRd => "LAT_CMD_RD",
            Test::LatCmdWrRd => "LAT_CMD_WRRD",
            Test::LatDmaRd => "LAT_DMA_RD",
            Test::LatDmaWrRd => "LAT_DMA_WRRD",
            Test::BwDmaRd => "BW_DMA_RD",
            Test::BwDmaWr => "BW_DMA_WR",
            Test::BwDmaRw => "BW_DMA_RW",
        }
    }

    /// Returns true for a latency test, which times each transfer and has one in flight.
    #[must_use]
    pub const fn is_latency(self) -> bool {
        !matches!(self, Test::BwDmaRd | Test::BwDmaWr | Test::BwDmaRw)
    }

    /// Returns true for a test of the command interface.
    #[must_use]
    pub const fn is_command(self) -> bool {
        matches!(self, Test::LatCmdRd | Test::LatCmdWrRd)
    }
}

/// The order of the units in the window: column `PAT`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Pattern {
    /// `Seq`: ascending.
    Sequential,
    /// `Rand`: random, with replacement.
    Random,
}

impl Pattern {
    /// Both orders.
    pub const ALL: [Pattern; 2] = [Pattern::Sequential, Pattern::Random];

    /// Returns its name in the column `PAT`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Pattern::Sequential => "Seq",
            Pattern::Random => "Rand",
        }
    }
}

/// Preparation of the caches before the test: column `Cache`. For all states the host thrashes the caches first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cache {
    /// `Cold`: no further preparation.
    Cold,
    /// `DThrash`: the device writes to random addresses of 64 MiB.
    DeviceThrash,
    /// `DWarm`: the device writes the window twice.
    DeviceWarm,
    /// `HWarm`: the host writes the window.
    HostWarm,
}

impl Cache {
    /// Every state, in the order of the window sweeps.
    pub const ALL: [Cache; 4] = [Cache::Cold, Cache::DeviceThrash, Cache::DeviceWarm, Cache::HostWarm];

    /// Returns its name in the column `Cache`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Cache::Cold => "Cold",
            Cache::DeviceThrash => "DThrash",
            Cache::DeviceWarm => "DWarm",
            Cache::HostWarm => "HWarm",
        }
    }

    /// Returns true if the device wrote to memory before the test.
    #[must_use]
    pub const fn is_by_device(self) -> bool {
        matches!(self, Cache::DeviceThrash | Cache::DeviceWarm)
    }
}

/// An unknown name in this column.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{name}`: expected {legal}")]
pub struct UnknownName {
    name: String,
    legal: String,
}

macro_rules! named {
    ($type:ty) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl FromStr for $type {
            type Err = UnknownName;

            fn from_str(name: &str) -> Result<Self, UnknownName> {
                let legal = || Self::ALL.map(Self::name).join(", ");
                let found = Self::ALL.into_iter().find(|one| one.name() == name);
                found.ok_or_else(|| UnknownName { name: name.chars().take(40).collect(), legal: legal() })
            }
        }
    };
}

named!(Test);
named!(Pattern);
named!(Cache);

/// Key of a row: the first seven columns of every file. Rows with equal keys are the same measurement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Key {
    /// `Test`.
    pub test: Test,
    /// `PAT`.
    pub pattern: Pattern,
    /// `Cache`.
    pub cache: Cache,
    /// `HO`: offset of a transfer from a cache line of the host, in bytes.
    pub host_offset_bytes: u32,
    /// `DO`: its offset from a cache line in the card's memory, in bytes.
    pub device_offset_bytes: u32,
    /// `WinSZ`: bytes of the window.
    pub window_bytes: u64,
    /// `SZ`: bytes of a transfer.
    pub size_bytes: u32,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Key { test, pattern, cache, host_offset_bytes, device_offset_bytes, window_bytes, size_bytes } =
            self;
        write!(
            f,
            "{test} {pattern} {cache} HO {host_offset_bytes} DO {device_offset_bytes} window {window_bytes} size {size_bytes}"
        )
    }
}

/// Number of samples that the card takes for a latency row, except in the detail experiments.
pub const CARD_LATENCY_SAMPLES: u64 = 2_097_152;
/// Samples that the card takes for a row of `lat_cmd_details` and `lat_dma_details`.
pub const CARD_DETAIL_SAMPLES: u64 = 16_777_216;
/// Transfers that the card makes for a bandwidth row; for `BW_DMA_RW`, reads and writes together.
pub const CARD_TRANSFERS: u64 = 8_388_608;

/// An experiment, which is a file of the public format.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name, which is the file name without `.csv`.
    pub name: &'static str,
    /// Parameters that vary from row to row.
    pub about: &'static str,
    /// True if Figures 4 to 7 of the paper show the experiment. `--suite short` runs these.
    pub short: bool,
    rows: fn() -> Vec<Key>,
}

impl Experiment {
    /// Returns its rows in the order of the file.
    pub fn rows(&self) -> Vec<Key> {
        (self.rows)()
    }

    /// Returns true if its rows are latencies.
    pub fn is_latency(&self) -> bool {
        self.name.starts_with("lat_")
    }

    /// Returns true if `NAME_cdf.csv` holds the distribution of each row.
    pub fn has_distribution(&self) -> bool {
        self.name.ends_with("_details")
    }

    /// Returns the samples or transfers of each of its rows on the card.
    pub fn card_samples(&self) -> u64 {
        match (self.is_latency(), self.has_distribution()) {
            (true, true) => CARD_DETAIL_SAMPLES,
            (true, false) => CARD_LATENCY_SAMPLES,
            (false, _) => CARD_TRANSFERS,
        }
    }

    /// Returns the experiment `name`.
    pub fn named(name: &str) -> Option<&'static Experiment> {
        EXPERIMENTS.iter().find(|e| e.name == name)
    }
}

const fn full(name: &'static str, about: &'static str, rows: fn() -> Vec<Key>) -> Experiment {
    Experiment { name, about, short: false, rows }
}

const fn short(name: &'static str, about: &'static str, rows: fn() -> Vec<Key>) -> Experiment {
    Experiment { name, about, short: true, rows }
}

/// All experiments of the published data, 2472 rows in total.
pub const EXPERIMENTS: [Experiment; 28] = [
    short("lat_cmd_sizes", "transfer sizes 4 to 64 B", || sizes(LAT_CMD, &CMD_SIZES, 4 * KIB)),
    full("lat_cmd_off_rd", "host offsets", || cmd_offsets(Test::LatCmdRd)),
    full("lat_cmd_off_wrrd", "host offsets", || cmd_offsets(Test::LatCmdWrRd)),
    short("lat_cmd_sweep_rd_rnd_08", "windows, cache states", || windows(Test::LatCmdRd, 8, &CMD_KIB)),
    full("lat_cmd_sweep_rd_rnd_64", "windows, cache states", || windows(Test::LatCmdRd, 64, &CMD_KIB)),
    short("lat_cmd_sweep_wrrd_rnd_08", "windows, cache states", || windows(Test::LatCmdWrRd, 8, &CMD_KIB)),
    full("lat_cmd_sweep_wrrd_rnd_64", "windows, cache states", || windows(Test::LatCmdWrRd, 64, &CMD_KIB)),
    full("lat_cmd_details", "distributions", || details(LAT_CMD, &[8])),
    short("lat_dma_sizes", "transfer sizes 4 to 2048 B", || sizes(LAT_DMA, &DMA_SIZES, 8 * KIB)),
    full("lat_dma_sizes_byte_inc", "transfer sizes byte by byte", dma_sizes_byte_inc),
    full("lat_dma_off_rd", "host and device offsets", || offsets(Test::LatDmaRd, Cache::HostWarm)),
    full("lat_dma_off_wrrd", "host and device offsets", || offsets(Test::LatDmaWrRd, Cache::HostWarm)),
    full("lat_dma_sweep_rd_rnd_64", "windows, cache states", || windows(Test::LatDmaRd, 64, &DMA_KIB)),
    full("lat_dma_sweep_wrrd_rnd_64", "windows, cache states", || windows(Test::LatDmaWrRd, 64, &DMA_KIB)),
    short("lat_dma_details", "distributions", || details(LAT_DMA, &[64, 2048])),
    short("bw_dma_sz_sweep", "transfer sizes 16 to 2048 B", bw_sizes),
    full("bw_dma_off_rd", "host and device offsets", || offsets(Test::BwDmaRd, Cache::HostWarm)),
    full("bw_dma_off_rd_cold", "host and device offsets", || offsets(Test::BwDmaRd, Cache::Cold)),
    full("bw_dma_off_wr", "host and device offsets", || offsets(Test::BwDmaWr, Cache::HostWarm)),
    full("bw_dma_off_wr_cold", "host and device offsets", || offsets(Test::BwDmaWr, Cache::Cold)),
    short("bw_dma_win_sweep_rd_rnd_64", "windows, cache states", || windows(Test::BwDmaRd, 64, &BW_KIB)),
    full("bw_dma_win_sweep_rd_rnd_128", "windows, cache states", || windows(Test::BwDmaRd, 128, &BW_KIB)),
    full("bw_dma_win_sweep_rd_rnd_256", "windows, cache states", || windows(Test::BwDmaRd, 256, &BW_KIB)),
    full("bw_dma_win_sweep_rd_rnd_512", "windows, cache states", || windows(Test::BwDmaRd, 512, &BW_KIB)),
    short("bw_dma_win_sweep_wr_rnd_64", "windows, cache states", || windows(Test::BwDmaWr, 64, &BW_KIB)),
    full("bw_dma_win_sweep_wr_rnd_128", "windows, cache states", || windows(Test::BwDmaWr, 128, &BW_KIB)),
    full("bw_dma_win_sweep_wr_rnd_256", "windows, cache states", || windows(Test::BwDmaWr, 256, &BW_KIB)),
    full("bw_dma_win_sweep_wr_rnd_512", "windows, cache states", || windows(Test::BwDmaWr, 512, &BW_KIB)),
];

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Latency tests of the command interface and of the DMA engine.
const LAT_CMD: [Test; 2] = [Test::LatCmdRd, Test::LatCmdWrRd];
const LAT_DMA: [Test; 2] = [Test::LatDmaRd, Test::LatDmaWrRd];

/// Windows of the command interface's sweeps, in KiB.
const CMD_KIB: [u64; 14] = [1, 4, 16, 256, 512, 1024, 1536, 2048, 3072, 4096, 8192, 16_384, 32_768, 65_536];
/// Windows of the DMA engine's latency sweeps, in KiB.
const DMA_KIB: [u64; 12] = [8, 64, 256, 512, 1024, 1536, 2048, 4096, 8192, 16_384, 32_768, 65_536];
/// Windows of the bandwidth sweeps, in KiB.
const BW_KIB: [u64; 13] = [4, 16, 256, 512, 1024, 1536, 2048, 3072, 4096, 8192, 16_384, 32_768, 65_536];
/// Transfer sizes of the command interface.
const CMD_SIZES: [u32; 7] = [4, 8, 16, 24, 32, 48, 64];
/// Transfer sizes of the DMA engine's latencies.
const DMA_SIZES: [u32; 15] = [4, 8, 16, 24, 32, 48, 64, 128, 256, 512, 768, 1024, 1280, 1520, 2048];
/// Transfer sizes of the bandwidths.
const BW_SIZES: [u32; 40] = [
    16, 32, 63, 64, 65, 127, 128, 129, 192, 255, 256, 257, 320, 384, 511, 512, 513, 576, 640, 704, 767, 768,
    769, 832, 896, 960, 1023, 1024, 1025, 1279, 1280, 1281, 1535, 1536, 1537, 1791, 1792, 1793, 2047, 2048,
];
/// Host offsets of the command interface's experiments.
const CMD_OFFSETS: [u32; 10] = [0, 1, 2, 3, 4, 6, 8, 16, 32, 48];
/// Host and device offsets of the DMA engine's experiments.
const DMA_OFFSETS: [u32; 15] = [0, 1, 2, 3, 4, 6, 8, 12, 16, 20, 25, 32, 41, 48, 63];
/// Transfer sizes of the DMA engine's experiments with offsets.
const OFFSET_SIZES: [u32; 7] = [64, 128, 256, 407, 416, 1024, 2048];

/// A row without offsets.
pub(crate) const fn row(
    test: Test,
    pattern: Pattern,
    cache: Cache,
    window_bytes: u64,
    size_bytes: u32,
) -> Key {
    Key { test, pattern, cache, host_offset_bytes: 0, device_offset_bytes: 0, window_bytes, size_bytes }
}

fn dma_sizes_byte_inc() -> Vec<Key> {
    let around = |first: u32| {
        let sizes: Vec<u32> = (first..first + 32).collect();
        self::sizes(LAT_DMA, &sizes, 8 * KIB)
    };
    [240, 1008].into_iter().flat_map(around).collect()
}

fn sizes(tests: [Test; 2], sizes: &[u32], window: u64) -> Vec<Key> {
    let of = |test| sizes.iter().map(move |s| row(test, Pattern::Sequential, Cache::HostWarm, window, *s));
    tests.into_iter().flat_map(of).collect()
}

fn bw_sizes() -> Vec<Key> {
    let of = |test| BW_SIZES.map(|size| row(test, Pattern::Random, Cache::HostWarm, 8 * KIB, size));
    [Test::BwDmaRd, Test::BwDmaWr, Test::BwDmaRw].into_iter().flat_map(of).collect()
}

fn cmd_offsets(test: Test) -> Vec<Key> {
    let mut rows = Vec::new();
    for size in [8, 64] {
        for window in [4 * KIB, 8 * MIB] {
            for cache in [Cache::Cold, Cache::HostWarm] {
                let base = row(test, Pattern::Sequential, cache, window, size);
                rows.extend(CMD_OFFSETS.map(|host_offset_bytes| Key { host_offset_bytes, ..base }));
            }
        }
    }
    rows
}

fn offsets(test: Test, cache: Cache) -> Vec<Key> {
    let mut rows = Vec::new();
    for size in OFFSET_SIZES {
        let base = row(test, Pattern::Sequential, cache, 8 * KIB, size);
        rows.extend(DMA_OFFSETS.map(|host_offset_bytes| Key { host_offset_bytes, ..base }));
        rows.extend(DMA_OFFSETS.map(|device_offset_bytes| Key { device_offset_bytes, ..base }));
    }
    rows
}

fn windows(test: Test, size: u32, windows_kib: &[u64]) -> Vec<Key> {
    let of = |cache| windows_kib.iter().map(move |kib| row(test, Pattern::Random, cache, kib * KIB, size));
    Cache::ALL.into_iter().flat_map(of).collect()
}

fn details(tests: [Test; 2], sizes: &[u32]) -> Vec<Key> {
    let mut rows = Vec::new();
    for test in tests {
        for size in sizes {
            for window in [8 * KIB, 64 * MIB] {
                let of = |cache| row(test, Pattern::Random, cache, window, *size);
                rows.extend([Cache::Cold, Cache::HostWarm].map(of));
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of rows of each file, from the README.md of the published data.
    #[test]
    fn experiments_have_the_published_number_of_rows() {
        let rows = |name| Experiment::named(name).map(|e| e.rows().len());
        for (name, count) in [
            ("lat_cmd_sizes", 14),
            ("lat_cmd_off_rd", 80),
            ("lat_cmd_sweep_wrrd_rnd_08", 56),
            ("lat_cmd_details", 8),
            ("lat_dma_sizes", 30),
            ("lat_dma_sizes_byte_inc", 128),
            ("lat_dma_off_wrrd", 210),
            ("lat_dma_sweep_rd_rnd_64", 48),
            ("lat_dma_details", 16),
            ("bw_dma_sz_sweep", 120),
            ("bw_dma_off_wr_cold", 210),
            ("bw_dma_win_sweep_rd_rnd_512", 52),
        ] {
            assert_eq!(rows(name), Some(count), "{name}");
        }
        assert_eq!(EXPERIMENTS.iter().map(|e| e.rows().len()).sum::<usize>(), 2472);
        assert_eq!(EXPERIMENTS.iter().filter(|e| e.short).map(|e| e.rows().len()).sum::<usize>(), 396);
        assert_eq!(rows("lat_dma_sizes.csv"), None);
    }

    /// One row from the middle of each kind of file.
    #[test]
    fn rows_match_published_files() {
        let at = |name: &str, line: usize| Experiment::named(name).unwrap().rows()[line - 2].to_string();
        for (name, line, text) in [
            ("lat_cmd_sizes", 9, "LAT_CMD_WRRD Seq HWarm HO 0 DO 0 window 4096 size 4"),
            ("lat_cmd_off_rd", 22, "LAT_CMD_RD Seq Cold HO 0 DO 0 window 8388608 size 8"),
            ("lat_dma_off_rd", 18, "LAT_DMA_RD Seq HWarm HO 0 DO 1 window 8192 size 64"),
            ("lat_dma_sizes_byte_inc", 66, "LAT_DMA_RD Seq HWarm HO 0 DO 0 window 8192 size 1008"),
            ("lat_dma_details", 5, "LAT_DMA_RD Rand HWarm HO 0 DO 0 window 67108864 size 64"),
            ("bw_dma_win_sweep_wr_rnd_256", 15, "BW_DMA_WR Rand DThrash HO 0 DO 0 window 4096 size 256"),
        ] {
            assert_eq!(at(name, line), text, "{name}:{line}");
        }
    }

    #[test]
    fn parses_own_names_and_rejects_others() {
        for test in Test::ALL {
            assert_eq!(test.name().parse(), Ok(test));
        }
        let error = "hwarm".parse::<Cache>().unwrap_err().to_string();
        assert_eq!(error, "`hwarm`: expected Cold, DThrash, DWarm, HWarm");
    }
}
