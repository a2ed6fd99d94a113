// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The optional tables of a host profile, for parts beyond a root complex with fixed latencies. `fabric::profile`
//! implements these parts.

use fabric::profile::{
    CompletionProfile, DramBanks, DramProfile, IommuProfile, LlcProfile, NumaProfile, PageWalkCache,
    PowerProfile, RefreshProfile, Replacement, RequestGaps, RetrainingProfile, SerialWalks, WeightedLatency,
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
    #[schemars(extend("minimum" = 8192, "maximum" = 1_073_741_824))]
    pub capacity_bytes: Figure<u64>,
    /// Number of ways of each set.
    #[schemars(extend("minimum" = 2, "maximum" = 64))]
    pub ways: Figure<u32>,
    /// Ways in which writes of devices allocate (DDIO): at least one less than `ways`. Lines of cores use the other
    /// ways.
    #[schemars(extend("minimum" = 1, "maximum" = 63))]
    pub ddio_ways: Figure<u32>,
    /// Extra latency of a read of a line that a core wrote, compared with one that a device wrote.
    pub core_snoop_latency_ps: Figure<Picoseconds>,
    /// Lines that devices read from memory are allocated in the cache. Default: false.
    pub read_allocate: Option<Figure<bool>>,
    /// Extra time until a write of a whole line is visible, if the line misses: the write evicts another line, which is
    /// first written to memory.
    pub eviction_latency_ps: Figure<Picoseconds>,
    /// Additional latencies of some reads of lines that a core wrote, while the core wakes.
    #[serde(default)]
    pub snoop_waits: Vec<LatencyRow>,
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
    /// Refresh, which delays some reads.
    pub refresh: Option<RefreshTable>,
}

/// Refresh of memory: a read that meets one waits until it ends.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RefreshTable {
    /// Time between two refreshes of a rank (tREFI): 1 to 100 us.
    #[schemars(extend("minimum" = 1_000_000, "maximum" = 100_000_000))]
    pub interval_ps: Figure<Picoseconds>,
    /// Time of a refresh (tRFC), by the size of the chips: 1 ns up to the interval.
    #[schemars(extend("minimum" = 1_000, "maximum" = 100_000_000))]
    pub cycle_ps: Figure<Picoseconds>,
    /// Parts per billion of the hits in the cache that wait for a refresh too. Default: 0.
    #[schemars(extend("minimum" = 0, "maximum" = 1_000_000_000))]
    pub hits_ppb: Option<Figure<u32>>,
    /// Waits of some reads from memory beyond a whole refresh.
    #[serde(default)]
    pub late: Vec<LatencyRow>,
}

/// Banks of memory.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BanksTable {
    /// Number of banks.
    #[schemars(extend("minimum" = 1, "maximum" = 65_536))]
    pub count: Figure<u32>,
    /// Contiguous bytes in one bank.
    #[schemars(extend("minimum" = 64, "maximum" = 1_073_741_824, "powerOfTwo" = true))]
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
    /// Entries of the IOTLB.
    #[schemars(extend("minimum" = 1, "maximum" = 4096))]
    pub entries: Figure<u32>,
    /// Ways of each set, 0 to `entries`; 0 means fully associative.
    #[schemars(extend("minimum" = 0, "maximum" = 4096))]
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
    /// Time that a miss occupies the lookup, up to 10 us: page walks start at least this far apart, and overlap.
    #[schemars(extend("minimum" = 0, "maximum" = 10_000_000))]
    pub miss_service_ps: Figure<Picoseconds>,
    /// Time that a read occupies the lookup for each 128 B or part of them, up to 1 us.
    #[schemars(extend("minimum" = 0, "maximum" = 1_000_000))]
    pub read_service_ps: Figure<Picoseconds>,
    /// Times for which the lookup stops before some requests.
    #[serde(default)]
    pub stalls: Vec<LatencyRow>,
    /// Page walks into the same table that do not overlap.
    pub serial_walks: Option<SerialWalksTable>,
    /// A cache of upper levels of page tables.
    pub page_walk_cache: Option<PageWalkCacheTable>,
}

/// Page walks into the same table follow one another. One walk may wait for that; a second one stops all lookups until the first
/// has started.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SerialWalksTable {
    /// Bytes of I/O addresses whose walks share a table: a power of two, 4096 to 2^39.
    #[schemars(extend("minimum" = 4096, "maximum" = 549_755_813_888_u64, "powerOfTwo" = true))]
    pub region_bytes: Figure<u64>,
    /// From the end of such a walk to the start of the next, up to 10 us.
    #[schemars(extend("minimum" = 0, "maximum" = 10_000_000))]
    pub restart_ps: Figure<Picoseconds>,
}

/// A cache of upper levels of page tables, fully associative, with least-recently-used replacement.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PageWalkCacheTable {
    /// Entries.
    #[schemars(extend("minimum" = 1, "maximum" = 4096))]
    pub entries: Figure<u32>,
    /// Pages covered by an entry.
    #[schemars(extend("minimum" = 1, "maximum" = 262_144, "powerOfTwo" = true))]
    pub pages_per_entry: Figure<u32>,
    /// Reduction of the walk latency on a hit; at most the walk latency.
    pub saves_ps: Figure<Picoseconds>,
}

/// Splitting and spacing of read completions.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompletionsTable {
    /// Maximum size of a completion in bytes. Default: Max_Payload_Size.
    #[schemars(extend("minimum" = 128, "maximum" = 4096, "powerOfTwo" = true))]
    pub unit_bytes: Option<Figure<u32>>,
    /// Reads of at least eight lines that follow another such read at their root port get completions of Max_Payload_Size
    /// regardless of `unit_bytes`.
    pub streaming: Figure<bool>,
    /// Reads of at least this many bytes, 1 to 4096, always get completions of Max_Payload_Size. Default: there is no
    /// such rule.
    #[schemars(extend("minimum" = 1, "maximum" = 4096))]
    pub whole_from_bytes: Option<Figure<u32>>,
    /// A read of at most this many bytes, 0 to 4096, that starts within a line gets the rest of that line in a separate
    /// completion. Default: 0.
    #[schemars(extend("minimum" = 0, "maximum" = 4096))]
    pub first_line_alone_bytes: Option<Figure<u32>>,
    /// A read that ends within a line gets the start of that line in a separate completion, if its last completion would be
    /// longer than a line. Default: false.
    pub last_line_alone: Option<Figure<bool>>,
    /// Bytes of a beat of the root complex: a power of two, 4 to 64. A completion occupies the wire in whole beats. Default: it
    /// ends anywhere.
    #[schemars(extend("minimum" = 4, "maximum" = 64, "powerOfTwo" = true))]
    pub beat_bytes: Option<Figure<u32>>,
    /// Idle time of the wire after a read of 64 to 128 B, up to 20 ns. Default: 0. Reads that continue one another directly count as
    /// one read here.
    #[schemars(extend("minimum" = 0, "maximum" = 20_000))]
    pub short_gap_ps: Option<Figure<Picoseconds>>,
    /// The same after a longer read of up to seven lines. Default: 0.
    #[schemars(extend("minimum" = 0, "maximum" = 20_000))]
    pub middle_gap_ps: Option<Figure<Picoseconds>>,
    /// The same after a longer read, or one that gets completions of Max_Payload_Size instead of `unit_bytes`. Default: 0.
    #[schemars(extend("minimum" = 0, "maximum" = 20_000))]
    pub long_gap_ps: Option<Figure<Picoseconds>>,
    /// The same between two reads that continue one another, both of 64 B to seven lines and together of more than 256 B.
    /// Default: 0.
    #[schemars(extend("minimum" = 0, "maximum" = 20_000))]
    pub further_gap_ps: Option<Figure<Picoseconds>>,
    /// Additional idle time after each completion of a read whose lines took a microsecond longer than a cache hit, otherwise
    /// in proportion. Applies if completions are split at `unit_bytes`; up to 40 ns. Default: 0. The idle time after one
    /// completion is at most 65 ns.
    #[schemars(extend("minimum" = 0, "maximum" = 40_000))]
    pub late_gap_ps: Option<Figure<Picoseconds>>,
}

/// A latency and its probability.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LatencyRow {
    /// Probability in parts per billion. All rows add up to at most a billion; the rest has no extra latency.
    #[schemars(extend("minimum" = 0, "maximum" = 1_000_000_000))]
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

/// Retraining of a link under load. The time that it takes is charged to the transfers between.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetrainingTable {
    /// Time lost while only writes flow, in parts per million of the rest of that time.
    #[schemars(extend("minimum" = 0, "maximum" = 10_000_000))]
    pub write_ppm: Figure<u32>,
    /// Time lost while only reads flow, in parts per million of the time in which the wire between completions is idle, less a
    /// quarter of that in which it is busy.
    #[schemars(extend("minimum" = 0, "maximum" = 10_000_000))]
    pub idle_ppm: Figure<u32>,
    /// Requests further apart are no load, up to 10 us. The link's sleep between them is in `power`.
    #[schemars(extend("minimum" = 0, "maximum" = 10_000_000))]
    pub apart_ps: Figure<Picoseconds>,
    /// Length of a wait of writes, 1 us to 10 ms. Lost time adds up to it. A shorter one than the link's shows the mean in shorter
    /// runs, but buffers of the card hide a part of it.
    #[schemars(extend("minimum" = 1_000_000, "maximum" = 10_000_000_000_u64))]
    pub write_wait_ps: Figure<Picoseconds>,
    /// The same for reads, of which no buffer hides a part.
    #[schemars(extend("minimum" = 1_000_000, "maximum" = 10_000_000_000_u64))]
    pub read_wait_ps: Figure<Picoseconds>,
}

impl RetrainingTable {
    pub(super) fn profile(&self) -> RetrainingProfile {
        RetrainingProfile {
            write_ppm: self.write_ppm.value,
            idle_ppm: self.idle_ppm.value,
            apart: ps(&self.apart_ps),
            write_wait: ps(&self.write_wait_ps),
            read_wait: ps(&self.read_wait_ps),
        }
    }
}

fn ps(figure: &Figure<Picoseconds>) -> Duration {
    Duration::from_ps(figure.value.0)
}

fn is_set(figure: Option<&Figure<bool>>) -> bool {
    figure.is_some_and(|figure| figure.value)
}

impl LlcTable {
    pub(super) fn check(&self, path: &Path) -> Result<(), ProfileError> {
        let ways = u64::from(self.ways.value);
        check(path, "llc.ddio_ways", self.ddio_ways.value.into(), 1, ways - 1)?;
        check(path, "llc.capacity_bytes", self.capacity_bytes.value, 64 * 64 * ways, 1 << 30)?;
        LatencyRow::check_all(path, "llc.snoop_waits", &self.snoop_waits)
    }

    pub(super) fn profile(&self) -> LlcProfile {
        LlcProfile {
            capacity_bytes: self.capacity_bytes.value,
            ways: self.ways.value,
            ddio_ways: self.ddio_ways.value,
            core_snoop_latency: ps(&self.core_snoop_latency_ps),
            read_allocate: is_set(self.read_allocate.as_ref()),
            eviction_latency: ps(&self.eviction_latency_ps),
            snoop_waits: LatencyRow::profiles(&self.snoop_waits),
        }
    }
}

impl DramTable {
    pub(super) fn profile(&self) -> DramProfile {
        DramProfile {
            latency: ps(&self.latency_ps),
            banks: self.banks.as_ref().map(BanksTable::profile),
            refresh: self.refresh.as_ref().map(RefreshTable::profile),
        }
    }
}

impl RefreshTable {
    pub(super) fn check(&self, path: &Path) -> Result<(), ProfileError> {
        check(path, "dram.refresh.cycle_ps", self.cycle_ps.value.0, 1_000, self.interval_ps.value.0)?;
        LatencyRow::check_all(path, "dram.refresh.late", &self.late)
    }

    fn profile(&self) -> RefreshProfile {
        RefreshProfile {
            interval: ps(&self.interval_ps),
            cycle: ps(&self.cycle_ps),
            hits: self.hits_ppb.as_ref().map_or(0, |figure| figure.value),
            late: LatencyRow::profiles(&self.late),
        }
    }
}

impl BanksTable {
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
        check(path, "iommu.ways", self.ways.value.into(), 0, self.entries.value.into())?;
        LatencyRow::check_all(path, "iommu.stalls", &self.stalls)?;
        let Some(cache) = &self.page_walk_cache else { return Ok(()) };
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
            miss_service: ps(&self.miss_service_ps),
            read_service: ps(&self.read_service_ps),
            stalls: LatencyRow::profiles(&self.stalls),
            serial_walks: self.serial_walks.as_ref().map(SerialWalksTable::profile),
            page_walk_cache: self.page_walk_cache.as_ref().map(|cache| PageWalkCache {
                entries: cache.entries.value,
                pages_per_entry: cache.pages_per_entry.value,
                saves: ps(&cache.saves_ps),
            }),
        }
    }
}

impl SerialWalksTable {
    fn profile(&self) -> SerialWalks {
        SerialWalks { region_bytes: self.region_bytes.value, restart: ps(&self.restart_ps) }
    }
}

impl CompletionsTable {
    pub(super) fn profile(&self) -> CompletionProfile {
        let gap = |figure: &Option<Figure<Picoseconds>>| figure.as_ref().map_or(Duration::ZERO, ps);
        CompletionProfile {
            // Checked earlier.
            unit_bytes: self.unit_bytes.as_ref().and_then(|unit| Mps::new(unit.value).ok()),
            streaming: self.streaming.value,
            whole_from_bytes: self.whole_from_bytes.as_ref().map(|bytes| bytes.value),
            first_line_alone_bytes: self.first_line_alone_bytes.as_ref().map_or(0, |bytes| bytes.value),
            last_line_alone: is_set(self.last_line_alone.as_ref()),
            beat_bytes: self.beat_bytes.as_ref().map_or(0, |bytes| bytes.value),
            request_gaps: RequestGaps {
                short: gap(&self.short_gap_ps),
                middle: gap(&self.middle_gap_ps),
                long: gap(&self.long_gap_ps),
                further: gap(&self.further_gap_ps),
            },
            late_gap: gap(&self.late_gap_ps),
            // A figure of the card.
            write_line_gap: Duration::ZERO,
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
            return Err(ProfileError::of_key(path, &format!("{key}.idle_ps"), message));
        }
        depths.iter().try_for_each(|depth| LatencyRow::check_all(path, &format!("{key}.wake"), &depth.wake))
    }

    pub(super) fn profile(&self) -> PowerProfile {
        PowerProfile { idle: ps(&self.idle_ps), wake: LatencyRow::profiles(&self.wake) }
    }
}
