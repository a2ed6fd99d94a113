// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The optional tables of a host profile, for parts beyond a root complex with fixed latencies. `fabric::profile`
//! implements these parts.

use fabric::profile::{
    CompletionProfile, DramBanks, DramProfile, IommuProfile, LlcProfile, NumaProfile, PageWalkCache,
    PowerProfile, Replacement, WeightedLatency,
};
use plug::profile::{Figure, ProfileError, check};
use plug::values::Picoseconds;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::Path;
use tlp::{Duration, Mps};

/// The last-level cache of each socket, with lines of 64 B. Device reads do not allocate.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LlcTable {
    /// Capacity in bytes: at least 64 sets of 64 B lines.
    pub capacity_bytes: Figure<u64>,
    /// Number of ways of each set.
    pub ways: Figure<u32>,
    /// Ways in which writes of devices allocate (DDIO): at least one less than `ways`. Lines of cores use the other
    /// ways.
    pub ddio_ways: Figure<u32>,
    /// Extra latency of a read of a line that a core wrote, compared with one that a device wrote.
    pub core_snoop_latency_ps: Figure<Picoseconds>,
    /// Lines that devices read from memory are allocated in the cache. Default: false.
    pub read_allocate: Option<Figure<bool>>,
    /// Extra time until a write of a whole line is visible, if the line misses: the write evicts another line, which is
    /// first written to memory.
    pub eviction_latency_ps: Figure<Picoseconds>,
}

/// Memory below the caches.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DramTable {
    /// Extra latency of a read from memory compared with a cache hit. This is also the extra time until a partial write is
    /// visible, if its line misses.
    pub latency_ps: Figure<Picoseconds>,
    /// Banks, if lines of one bank are served one after another.
    pub banks: Option<BanksTable>,
    /// Sleep state of memory while the root complex is awake. Waking the root complex from its deepest sleep also wakes
    /// memory.
    pub sleep: Option<PowerTable>,
}

/// Banks of memory.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BanksTable {
    /// Number of banks, 1 to 65536.
    pub count: Figure<u32>,
    /// Contiguous bytes in one bank: a power of two, 64 to 2^30.
    pub row_bytes: Figure<u64>,
    /// Service time of a line.
    pub line_service_ps: Figure<Picoseconds>,
    /// Reads of lines that a core wrote also occupy a bank: memory is accessed while cores are snooped.
    pub speculative_reads: Figure<bool>,
}

/// The other socket; `host.device_socket`, `memory_socket` and `program_socket` of a lab place the parts.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NumaTable {
    /// Extra latency of a read of local memory whose line is in the other socket's cache, compared with a hit in the local
    /// cache.
    pub remote_snoop_latency_ps: Figure<Picoseconds>,
    /// Extra latency of a read of the other socket's memory whose line is not in the local cache.
    pub remote_memory_latency_ps: Figure<Picoseconds>,
    /// Extra time until a write is visible, if it evicts a line of the other socket's memory.
    pub remote_eviction_latency_ps: Figure<Picoseconds>,
}

/// The IOMMU; `host.iommu` of a lab enables it. All memory is identity-mapped, except for a lab's `[[host.iommu_window]]`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IommuTable {
    /// Entries of the IOTLB, 1 to 4096.
    pub entries: Figure<u32>,
    /// Ways of each set, 0 to `entries`; 0 means fully associative.
    pub ways: Figure<u32>,
    /// Replacement policy.
    pub replacement: Figure<Replacement>,
    /// True: one IOTLB for all root ports. False: each root port has its own with `entries` entries.
    pub shared: Figure<bool>,
    /// True if pages of 2 MiB and 1 GiB exist; otherwise all pages are 4 KiB.
    pub superpages: Figure<bool>,
    /// Latency of a translation that hits in the IOTLB.
    pub hit_latency_ps: Figure<Picoseconds>,
    /// Latency of a page walk.
    pub page_walk_latency_ps: Figure<Picoseconds>,
    /// Number of concurrent page walks, 1 to 64. If all walkers are busy, the next walk and all later requests of its
    /// root port wait. Such requests wait until these walks have ended, and until memory has served the requests that
    /// were translated by then.
    pub walkers: Figure<u32>,
    /// A cache of upper levels of page tables.
    pub page_walk_cache: Option<PageWalkCacheTable>,
}

/// A cache of upper levels of page tables, fully associative, with least-recently-used replacement.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PageWalkCacheTable {
    /// Entries, 1 to 4096.
    pub entries: Figure<u32>,
    /// Pages covered by an entry: a power of two, 1 to 2^18.
    pub pages_per_entry: Figure<u32>,
    /// Reduction of the walk latency on a hit; at most the walk latency.
    pub saves_ps: Figure<Picoseconds>,
}

/// Splitting and spacing of read completions.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompletionsTable {
    /// Maximum size of a completion in bytes: 128, 256, ... 4096. Default: Max_Payload_Size.
    pub unit_bytes: Option<Figure<u32>>,
    /// Reads of at least eight lines that follow another such read at their root port get completions of Max_Payload_Size
    /// regardless of `unit_bytes`.
    pub streaming: Figure<bool>,
    /// Reads of at least this many bytes, 1 to 4096, always get completions of Max_Payload_Size. Default: there is no
    /// such rule.
    pub whole_from_bytes: Option<Figure<u32>>,
    /// A read that starts within a line gets the rest of that line in a separate completion. Default: false.
    pub first_line_alone: Option<Figure<bool>>,
    /// A read that ends within a line gets the start of that line in a separate completion, if its last completion would be
    /// longer than a line. Default: false.
    pub last_line_alone: Option<Figure<bool>>,
    /// Idle time of the wire after each completion with at least a line of data, up to 20 ns.
    pub gap_ps: Figure<Picoseconds>,
    /// Additional idle time after the last completion of a request whose completions are split at `unit_bytes`, up to 20 ns.
    /// Default: 0.
    pub request_gap_ps: Option<Figure<Picoseconds>>,
    /// Additional idle time after each completion of a read whose lines took a microsecond longer than a cache hit, otherwise
    /// in proportion. Applies if completions are split at `unit_bytes`; up to 50 ns. Default: 0. The three gaps after one
    /// completion add up to at most 65 ns.
    pub late_gap_ps: Option<Figure<Picoseconds>>,
}

/// A latency and its probability.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LatencyRow {
    /// Probability in parts per billion. All rows add up to at most a billion; the rest has no extra latency.
    pub probability_ppb: Figure<u32>,
    /// The latency.
    pub latency_ps: Figure<Picoseconds>,
}

/// A sleep state of an idle root complex.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PowerTable {
    /// Idle time after which the server enters this state.
    pub idle_ps: Figure<Picoseconds>,
    /// Wake-up latencies.
    pub wake: Vec<LatencyRow>,
}

fn ps(figure: &Figure<Picoseconds>) -> Duration {
    Duration::from_ps(figure.value.0)
}

fn is_set(figure: Option<&Figure<bool>>) -> bool {
    figure.is_some_and(|figure| figure.value)
}

fn check_power_of_two(path: &Path, key: &str, value: u64) -> Result<(), ProfileError> {
    if value.is_power_of_two() {
        return Ok(());
    }
    let message = format!("{key} of {value}, expected powers of two");
    Err(ProfileError::Wrong { path: path.to_owned(), message })
}

impl LlcTable {
    pub(super) fn check(&self, path: &Path) -> Result<(), ProfileError> {
        let ways = u64::from(self.ways.value);
        check(path, "llc.ways", ways, 2, 64)?;
        check(path, "llc.ddio_ways", self.ddio_ways.value.into(), 1, ways - 1)?;
        check(path, "llc.capacity_bytes", self.capacity_bytes.value, 64 * 64 * ways, 1 << 30)
    }

    pub(super) fn profile(&self) -> LlcProfile {
        LlcProfile {
            capacity_bytes: self.capacity_bytes.value,
            ways: self.ways.value,
            ddio_ways: self.ddio_ways.value,
            core_snoop_latency: ps(&self.core_snoop_latency_ps),
            read_allocate: is_set(self.read_allocate.as_ref()),
            eviction_latency: ps(&self.eviction_latency_ps),
        }
    }
}

impl DramTable {
    pub(super) fn profile(&self) -> DramProfile {
        DramProfile {
            latency: ps(&self.latency_ps),
            banks: self.banks.as_ref().map(BanksTable::profile),
            sleep: self.sleep.as_ref().map(PowerTable::profile),
        }
    }
}

impl BanksTable {
    pub(super) fn check(&self, path: &Path) -> Result<(), ProfileError> {
        check(path, "dram.banks.count", self.count.value.into(), 1, 65_536)?;
        check(path, "dram.banks.row_bytes", self.row_bytes.value, 64, 1 << 30)?;
        check_power_of_two(path, "dram.banks.row_bytes", self.row_bytes.value)
    }

    fn profile(&self) -> DramBanks {
        DramBanks {
            count: self.count.value,
            row_bytes: self.row_bytes.value,
            line_service: ps(&self.line_service_ps),
            speculative_reads: self.speculative_reads.value,
        }
    }
}

impl NumaTable {
    pub(super) fn profile(&self) -> NumaProfile {
        NumaProfile {
            remote_snoop_latency: ps(&self.remote_snoop_latency_ps),
            remote_memory_latency: ps(&self.remote_memory_latency_ps),
            remote_eviction_latency: ps(&self.remote_eviction_latency_ps),
        }
    }
}

impl IommuTable {
    pub(super) fn check(&self, path: &Path) -> Result<(), ProfileError> {
        let entries = u64::from(self.entries.value);
        check(path, "iommu.entries", entries, 1, 4096)?;
        check(path, "iommu.ways", self.ways.value.into(), 0, entries)?;
        check(path, "iommu.walkers", self.walkers.value.into(), 1, 64)?;
        let Some(cache) = &self.page_walk_cache else { return Ok(()) };
        check(path, "iommu.page_walk_cache.entries", cache.entries.value.into(), 1, 4096)?;
        let pages = u64::from(cache.pages_per_entry.value);
        check(path, "iommu.page_walk_cache.pages_per_entry", pages, 1, 1 << 18)?;
        check_power_of_two(path, "iommu.page_walk_cache.pages_per_entry", pages)?;
        let walk = self.page_walk_latency_ps.value.0;
        check(path, "iommu.page_walk_cache.saves_ps", cache.saves_ps.value.0, 0, walk)
    }

    pub(super) fn profile(&self) -> IommuProfile {
        IommuProfile {
            entries: self.entries.value,
            ways: self.ways.value,
            replacement: self.replacement.value,
            shared: self.shared.value,
            superpages: self.superpages.value,
            hit_latency: ps(&self.hit_latency_ps),
            page_walk_latency: ps(&self.page_walk_latency_ps),
            walkers: self.walkers.value,
            page_walk_cache: self.page_walk_cache.as_ref().map(|cache| PageWalkCache {
                entries: cache.entries.value,
                pages_per_entry: cache.pages_per_entry.value,
                saves: ps(&cache.saves_ps),
            }),
        }
    }
}

impl CompletionsTable {
    pub(super) fn check(&self, path: &Path) -> Result<(), ProfileError> {
        check(path, "completions.gap_ps", self.gap_ps.value.0, 0, 20_000)?;
        let request_gap = self.request_gap_ps.as_ref().map_or(0, |gap| gap.value.0);
        check(path, "completions.request_gap_ps", request_gap, 0, 20_000)?;
        let late_gap = self.late_gap_ps.as_ref().map_or(0, |gap| gap.value.0);
        check(path, "completions.late_gap_ps", late_gap, 0, 50_000)?;
        let whole_from = self.whole_from_bytes.as_ref().map_or(1, |bytes| u64::from(bytes.value));
        check(path, "completions.whole_from_bytes", whole_from, 1, 4096)?;
        let Some(unit) = self.unit_bytes.as_ref().map(|unit| u64::from(unit.value)) else { return Ok(()) };
        check(path, "completions.unit_bytes", unit, 128, 4096)?;
        check_power_of_two(path, "completions.unit_bytes", unit)
    }

    pub(super) fn profile(&self) -> CompletionProfile {
        CompletionProfile {
            // Checked earlier.
            unit_bytes: self.unit_bytes.as_ref().and_then(|unit| Mps::new(unit.value).ok()),
            streaming: self.streaming.value,
            whole_from_bytes: self.whole_from_bytes.as_ref().map(|bytes| bytes.value),
            first_line_alone: is_set(self.first_line_alone.as_ref()),
            last_line_alone: is_set(self.last_line_alone.as_ref()),
            gap: ps(&self.gap_ps),
            request_gap: self.request_gap_ps.as_ref().map_or(Duration::ZERO, ps),
            late_gap: self.late_gap_ps.as_ref().map_or(Duration::ZERO, ps),
        }
    }
}

impl LatencyRow {
    pub(super) fn check_all(path: &Path, key: &str, rows: &[LatencyRow]) -> Result<(), ProfileError> {
        let sum: u64 = rows.iter().map(|row| u64::from(row.probability_ppb.value)).sum();
        check(path, &format!("sum of {key}.probability_ppb"), sum, 0, 1_000_000_000)
    }

    pub(super) fn profiles(rows: &[LatencyRow]) -> Vec<WeightedLatency> {
        let row = |row: &LatencyRow| WeightedLatency {
            parts_per_billion: row.probability_ppb.value,
            latency: ps(&row.latency_ps),
        };
        rows.iter().map(row).collect()
    }
}

impl PowerTable {
    /// Checks the sleep states: a deeper state has a longer idle time. Each has a table of wake-up latencies.
    pub(super) fn check_all(path: &Path, key: &str, depths: &[PowerTable]) -> Result<(), ProfileError> {
        let idle = |depth: &PowerTable| depth.idle_ps.value.0;
        if let Some(pair) = depths.windows(2).find(|pair| idle(&pair[0]) >= idle(&pair[1])) {
            let (one, next) = (idle(&pair[0]), idle(&pair[1]));
            let message = format!("{key}.idle_ps of {next} after {one}, expected rising values");
            return Err(ProfileError::Wrong { path: path.to_owned(), message });
        }
        depths.iter().try_for_each(|depth| LatencyRow::check_all(path, &format!("{key}.wake"), &depth.wake))
    }

    pub(super) fn profile(&self) -> PowerProfile {
        PowerProfile { idle: ps(&self.idle_ps), wake: LatencyRow::profiles(&self.wake) }
    }
}
