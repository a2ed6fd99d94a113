// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Optional parts of a host's profile besides the root complex: caches, DRAM, sockets, IOMMU, splitting of completions,
//! noise, power states. These are figures; `memory_system` uses them.

use super::LINE_BYTES;
use schemars::JsonSchema;
use serde::Deserialize;
use tlp::split::completion_piece;
use tlp::{Duration, Mps, Rcb};

/// The last-level cache of a socket. Lines have 64 B; each was last written by a core or by a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LlcProfile {
    /// Capacity in bytes. With `ways` of 64 B lines, the size must give at least 64 sets.
    pub capacity_bytes: u64,
    /// Ways of a set, 2 to 64.
    pub ways: u32,
    /// Number of ways in which writes of devices allocate (DDIO), 1 to `ways - 1`. Lines of cores use the other ways:
    /// host-warmed windows of 16 to 64 MB hit as if the cache had 18 of its 20 ways (pcie-bench data,
    /// `lat_dma_sweep_rd_rnd_64`).
    pub ddio_ways: u32,
    /// Extra time to read a line that a core wrote, compared with a line that a device wrote.
    pub core_snoop_latency: Duration,
    /// Lines that devices read from memory stay in the cache, as in client chips.
    pub read_allocate: bool,
    /// Extra time until a write that allocates a line is visible. The evicted line goes to memory first.
    pub eviction_latency: Duration,
}

/// Memory below the caches.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DramProfile {
    /// Extra time for a line from memory, compared with a line from the cache.
    pub latency: Duration,
    /// Banks, if they are modelled. A bank serves one line at a time.
    pub banks: Option<DramBanks>,
    /// Sleep of memory by itself (self-refresh), while the root complex is awake. Waking the root complex from its deepest sleep
    /// wakes memory too.
    pub sleep: Option<PowerProfile>,
}

/// Banks of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DramBanks {
    /// Number of banks, 1 to 65536.
    pub count: u32,
    /// Contiguous bytes of one bank; a power of two, at least 64.
    pub row_bytes: u64,
    /// Service time of a line.
    pub line_service: Duration,
    /// Reads of lines that a core wrote occupy a bank as well, because the home agent reads memory while it snoops.
    pub speculative_reads: bool,
}

/// The other socket. Both caches are alike; [`HostSettings`] assigns parts to sockets.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NumaProfile {
    /// Extra time to read local memory whose line is in the cache of the other socket.
    pub remote_snoop_latency: Duration,
    /// Extra time to read memory of the other socket whose line is not in the local cache, and until a write of part of
    /// such a line is visible.
    pub remote_memory_latency: Duration,
    /// Extra time until a write that evicts a line of memory of the other socket is visible.
    pub remote_eviction_latency: Duration,
}

/// The IOMMU, which translates requests of devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IommuProfile {
    /// Entries of the IOTLB, 1 to 4096.
    pub entries: u32,
    /// Ways of its sets; 0: any entry holds any page.
    pub ways: u32,
    /// Selection of the entry that a new entry replaces.
    pub replacement: Replacement,
    /// One IOTLB for all root ports; otherwise each has its own, with `entries` entries.
    pub shared: bool,
    /// Supports pages of 2 MiB and 1 GiB; otherwise all pages have 4 KiB, whatever [`HostSettings::iommu`] is.
    pub superpages: bool,
    /// Latency of a translation that is in the IOTLB.
    pub hit_latency: Duration,
    /// Latency of a page walk.
    pub page_walk_latency: Duration,
    /// Maximum number of walks in a batch, 1 to 64. If all are busy, the next walk and all later requests of its root
    /// port wait until the running walks have ended and all requests translated by then have been served.
    pub walkers: u32,
    /// A cache of upper levels of page tables.
    pub page_walk_cache: Option<PageWalkCache>,
}

/// A cache of upper levels of page tables, fully associative, with LRU replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageWalkCache {
    /// Entries, 1 to 4096.
    pub entries: u32,
    /// Pages that an entry covers, a power of two: 512 of a last-level table, 8 of a cache line of entries.
    pub pages_per_entry: u32,
    /// Time that a walk saves if its entry is cached. At most the duration of the walk.
    pub saves: Duration,
}

/// The entry of a full set that is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// The least recently used one.
    #[default]
    Lru,
    /// Any, drawn with the seed of the lab.
    Random,
}

/// Page sizes of the IOMMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageSize {
    /// 4 KiB.
    Kib4,
    /// 2 MiB.
    Mib2,
    /// 1 GiB.
    Gib1,
}

impl PageSize {
    /// Binary logarithm of the size in bytes.
    #[must_use]
    pub const fn shift(self) -> u32 {
        match self {
            PageSize::Kib4 => 12,
            PageSize::Mib2 => 21,
            PageSize::Gib1 => 30,
        }
    }
}

/// How read completions are split and spaced.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CompletionProfile {
    /// Maximum number of bytes of a completion, if that is less than Max_Payload_Size.
    pub unit_bytes: Option<Mps>,
    /// Reads of eight or more lines that follow another such read at a root port get completions of Max_Payload_Size.
    pub streaming: bool,
    /// Reads of at least this many bytes always get completions of Max_Payload_Size.
    pub whole_from_bytes: Option<u32>,
    /// A read that begins within a line gets that part in its own completion. Lines have 64 B, or the length of the
    /// Read Completion Boundary if that is longer, because completions of a read end only there (`PCIe 5.0 §2.3.1.1`).
    pub first_line_alone: bool,
    /// A read that ends within a line gets that line's part in its own completion if more than a line is left for the
    /// last one. Lines as above.
    pub last_line_alone: bool,
    /// Idle time of the wire after each completion with a line of data or more.
    pub gap: Duration,
    /// Additional idle time after the last completion of a request whose completions are split to `unit_bytes`.
    pub request_gap: Duration,
    /// Additional idle time after each completion of a read whose lines took a microsecond longer than a hit in the
    /// cache, in proportion, if completions are split to `unit_bytes`. Shorter completions make the link wait sooner
    /// for the next one.
    pub late_gap: Duration,
}

impl CompletionProfile {
    /// Returns the idle time, in picoseconds, after a completion of `bytes` from `address` on. `last` is true for the
    /// last completion of its read, `cut` if the read is split to `unit_bytes`. Its lines took `late` longer than a
    /// hit.
    pub(crate) fn rest_ps(&self, address: u64, bytes: u32, last: bool, cut: bool, late: Duration) -> u16 {
        let dws = ((address % 4) as u32 + bytes).div_ceil(4);
        // The idle time of a shorter completion passes while the next one is gathered.
        let mut ps = if u64::from(dws * 4) < LINE_BYTES { 0 } else { self.gap.as_ps() };
        if cut {
            ps += late.as_ps() * self.late_gap.as_ps() / 1_000_000;
            ps += if last { self.request_gap.as_ps() } else { 0 };
        }
        u16::try_from(ps).unwrap_or(u16::MAX)
    }

    /// Returns the bytes of the next completion of a read, from `address` on, after `sent` bytes have been sent and `left`
    /// remain.
    pub(crate) fn piece(&self, address: u64, sent: u32, left: u32, mps: Mps, rcb: Rcb) -> u32 {
        let usual = completion_piece(address, left, mps, rcb);
        let line = rcb.bytes();
        let into_line = address as u32 & (line - 1);
        if self.first_line_alone && sent == 0 && into_line > 0 {
            return usual.min(line - into_line);
        }
        let beyond = (address as u32).wrapping_add(left) & (line - 1);
        if self.last_line_alone && usual == left && left > line && beyond > 0 {
            return left - beyond;
        }
        usual
    }
}

/// A latency, and how often it applies to requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightedLatency {
    /// How often, in parts per billion.
    pub parts_per_billion: u32,
    /// The latency itself.
    pub latency: Duration,
}

/// A sleep state of a root complex or of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PowerProfile {
    /// Idle time after which the part sleeps.
    pub idle: Duration,
    /// Time to wake; if the parts sum to less than a billion, the rest wakes at once.
    pub wake: Vec<WeightedLatency>,
}

/// A lab's choices for a host.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct HostSettings {
    /// Page size of the IOMMU; `None`: it is off.
    pub iommu: Option<PageSize>,
    /// Socket of the root ports, 0 or 1.
    pub device_socket: u8,
    /// Socket of all memory, 0 or 1.
    pub memory_socket: u8,
    /// Socket of the host program, 0 or 1.
    pub program_socket: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sizes of all completions of a read of `left` bytes from `address` on.
    fn pieces(profile: &CompletionProfile, address: u64, mut left: u32, rcb: Rcb) -> Vec<u32> {
        let (mps, mut sent, mut out) = (Mps::new(128).unwrap(), 0, Vec::new());
        while left > 0 {
            let piece = profile.piece(address + u64::from(sent), sent, left, mps, rcb);
            out.push(piece);
            (sent, left) = (sent + piece, left - piece);
        }
        out
    }

    /// 128 B at offset 1, by which bw_dma_off_rd.csv distinguishes Haswell and Ivy Bridge; aligned reads do not change.
    #[test]
    fn partial_lines_get_their_own_completion() {
        let usual = CompletionProfile::default();
        let first = CompletionProfile { first_line_alone: true, ..usual.clone() };
        let both = CompletionProfile { last_line_alone: true, ..first.clone() };
        let rows: [(&CompletionProfile, u64, u32, &[u32]); 8] = [
            (&usual, 1, 128, &[127, 1]),
            (&first, 1, 128, &[63, 65]),
            (&both, 1, 128, &[63, 64, 1]),
            (&first, 1, 63, &[63]),
            (&first, 1, 64, &[63, 1]),
            (&both, 0, 256, &[128, 128]),
            (&both, 0, 200, &[128, 64, 8]),
            (&both, 60, 4, &[4]),
        ];
        for (profile, address, bytes, expected) in rows {
            assert_eq!(pieces(profile, address, bytes, Rcb::default()), expected, "{bytes} at {address}");
        }
    }

    /// For any settings and length of lines, all completions of a read except the last end at a Read Completion
    /// Boundary, the one in Link Control (`PCIe 5.0 §2.3.1.1`).
    #[test]
    fn completions_end_at_the_read_completion_boundary() {
        for (boundary, first_line_alone, last_line_alone) in
            [64, 128].into_iter().flat_map(|b| [(b, true, false), (b, true, true), (b, false, true)])
        {
            let profile =
                CompletionProfile { first_line_alone, last_line_alone, ..CompletionProfile::default() };
            let rcb = Rcb::new(boundary).unwrap();
            for address in 0..256 {
                for bytes in 1..=520 {
                    let mut end = address;
                    let all = pieces(&profile, address, bytes, rcb);
                    for piece in &all[..all.len() - 1] {
                        end += u64::from(*piece);
                        assert!(end.is_multiple_of(boundary.into()), "{bytes} at {address}: {all:?}");
                    }
                }
            }
        }
        let both = CompletionProfile {
            first_line_alone: true,
            last_line_alone: true,
            ..CompletionProfile::default()
        };
        assert_eq!(pieces(&both, 32, 128, Rcb::new(128).unwrap()), [96, 32]);
    }
}
