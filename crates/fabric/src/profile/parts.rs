// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parts of a host that a profile may have beside its root complex: caches, DRAM, sockets, IOMMU, how it cuts
//! completions, noise, power states. Figures alone; what they do is in `memory_system`.

use super::LINE_BYTES;
use tlp::split::completion_piece;
use tlp::{Duration, Mps, Rcb};

/// The last-level cache of a socket. Lines are of 64 B; each was last written by a core or by a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LlcProfile {
    /// Bytes. With `ways` of 64 B lines it makes at least 64 sets.
    pub capacity_bytes: u64,
    /// Ways of a set, 2 to 64.
    pub ways: u32,
    /// Of these, the ways in which writes of devices allocate (DDIO), 1 to `ways - 1`. Lines of cores take the others:
    /// host-warmed windows of 16 to 64 MB hit as 18 of 20 ways hold (pcie-bench data, `lat_dma_sweep_rd_rnd_64`).
    pub ddio_ways: u32,
    /// What a read of a line that a core wrote takes longer than one of a line that a device wrote.
    pub core_snoop_latency: Duration,
    /// Lines that devices read from memory stay in the cache, as those of client chips do.
    pub read_allocate: bool,
    /// What a write that fills a line anew takes longer to be visible: the line that it drives out goes to memory first.
    pub eviction_latency: Duration,
}

/// Memory behind the caches.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DramProfile {
    /// What a line takes longer from here than from the cache.
    pub latency: Duration,
    /// Banks, where they are modelled: lines of one bank take turns.
    pub banks: Option<DramBanks>,
    /// It falls asleep by itself (self-refresh), where the root complex does not: what wakes that from its deepest sleep wakes this.
    pub sleep: Option<PowerProfile>,
}

/// Banks of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DramBanks {
    /// How many, 1 to 65536.
    pub count: u32,
    /// Contiguous bytes of one bank; a power of two, at least 64.
    pub row_bytes: u64,
    /// Service time of a line.
    pub line_service: Duration,
    /// Reads of lines that a core wrote take a turn as well: the home agent asks memory while it snoops.
    pub speculative_reads: bool,
}

/// Two sockets. Their caches are alike; see [`HostSettings`] for who is where.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NumaProfile {
    /// What a read of local memory takes longer where its line is in the cache of the other socket.
    pub remote_snoop_latency: Duration,
    /// What a read of memory of the other socket takes longer where its line is not in the local cache; and what a write of
    /// part of such a line takes longer to be visible.
    pub remote_memory_latency: Duration,
    /// What a write takes longer to be visible that drives out a line of memory of the other socket.
    pub remote_eviction_latency: Duration,
}

/// The IOMMU: translation of what devices ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IommuProfile {
    /// Entries of the IOTLB, 1 to 4096.
    pub entries: u32,
    /// Ways of its sets; 0: any entry holds any page.
    pub ways: u32,
    /// Which entry is given up.
    pub replacement: Replacement,
    /// One IOTLB for all root ports; else each has one of `entries` entries of its own.
    pub shared: bool,
    /// Pages of 2 MiB and 1 GiB; without, all are of 4 KiB whatever [`HostSettings::iommu`] says.
    pub superpages: bool,
    /// A translation that is in the IOTLB.
    pub hit_latency: Duration,
    /// A page walk.
    pub page_walk_latency: Duration,
    /// Walks that go together, 1 to 64. Where all are under way, a further one and all requests behind it at their root port
    /// wait until these have ended, and what was translated by then has been served.
    pub walkers: u32,
    /// A cache of upper levels of page tables.
    pub page_walk_cache: Option<PageWalkCache>,
}

/// A cache of upper levels of page tables: fully associative, the least recently used goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageWalkCache {
    /// Entries, 1 to 4096.
    pub entries: u32,
    /// Pages that an entry stands for, a power of two: 512 of a last-level table, 8 of a cache line of entries.
    pub pages_per_entry: u32,
    /// What a walk takes less where its entry is there; no more than the walk.
    pub saves: Duration,
}

/// Which entry of a full set is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Replacement {
    /// The one that was not used for longest.
    #[default]
    Lru,
    /// Any, drawn with the seed.
    Random,
}

/// Pages of the IOMMU.
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
    /// log2 of its bytes.
    #[must_use]
    pub const fn shift(self) -> u32 {
        match self {
            PageSize::Kib4 => 12,
            PageSize::Mib2 => 21,
            PageSize::Gib1 => 30,
        }
    }
}

/// How read completions leave.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CompletionProfile {
    /// Bytes of a completion at most, where they are fewer than Max_Payload_Size.
    pub unit_bytes: Option<Mps>,
    /// Reads of eight lines and more that follow another such read at a root port get completions of Max_Payload_Size.
    pub streaming: bool,
    /// Reads of so many bytes get completions of Max_Payload_Size in any case.
    pub whole_from_bytes: Option<u32>,
    /// A read that begins within a line gets that line's part in a completion of its own. Lines are of 64 B, or as long as the
    /// Read Completion Boundary, where that is longer: completions of a read end nowhere else (`PCIe 5.0 §2.3.1.1`).
    pub first_line_alone: bool,
    /// A read that ends within a line gets that line's part in a completion of its own, where more than a line is left for the
    /// last one. Lines as above.
    pub last_line_alone: bool,
    /// For how long the wire is idle behind each completion with a line of data or more.
    pub gap: Duration,
    /// For how much longer behind the last completion of a request whose completions are cut to `unit_bytes`.
    pub request_gap: Duration,
    /// For how much longer behind each completion of a read whose lines took a microsecond longer than a hit in the cache, in
    /// proportion, where completions are cut to `unit_bytes`: the shorter they are, the sooner the next one is waited for.
    pub late_gap: Duration,
}

impl CompletionProfile {
    /// For how many picoseconds nothing follows a completion of `bytes` from `address` on, the `last` of its read or not, of a
    /// read that is `cut` to `unit_bytes` or not and whose lines took `late` beyond a hit.
    #[inline]
    pub(crate) fn rest_ps(&self, (address, bytes): (u64, u32), last: bool, cut: bool, late: Duration) -> u16 {
        let dws = ((address % 4) as u32 + bytes).div_ceil(4);
        // What a shorter one leaves behind goes while the next is gathered.
        let mut ps = if u64::from(dws * 4) < LINE_BYTES { 0 } else { self.gap.as_ps() };
        if cut {
            ps += late.as_ps() * self.late_gap.as_ps() / 1_000_000;
            ps += if last { self.request_gap.as_ps() } else { 0 };
        }
        u16::try_from(ps).unwrap_or(u16::MAX)
    }

    /// Bytes of the next completion of a read of which `sent` bytes have left and `left` remain, from `address` on.
    #[inline]
    pub(crate) fn piece(&self, address: u64, (sent, left): (u32, u32), mps: Mps, rcb: Rcb) -> u32 {
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

/// A latency and how often it is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightedLatency {
    /// In parts per billion.
    pub parts_per_billion: u32,
    /// The latency.
    pub latency: Duration,
}

/// A depth of sleep, of a root complex or of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PowerProfile {
    /// Idle for so long, it sleeps.
    pub idle: Duration,
    /// How long it takes to wake; what is left to a billion parts wakes at once.
    pub wake: Vec<WeightedLatency>,
}

/// What a lab chooses of a host.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct HostSettings {
    /// Pages of the IOMMU; `None`: it is off.
    pub iommu: Option<PageSize>,
    /// Socket of the root ports, 0 or 1.
    pub device_socket: u8,
    /// Socket of all memory.
    pub memory_socket: u8,
    /// Socket of the host program.
    pub program_socket: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All completions of a read of `left` bytes from `address` on.
    fn pieces(profile: &CompletionProfile, address: u64, mut left: u32, rcb: Rcb) -> Vec<u32> {
        let (mps, mut sent, mut out) = (Mps::new(128).unwrap(), 0, Vec::new());
        while left > 0 {
            let piece = profile.piece(address + u64::from(sent), (sent, left), mps, rcb);
            out.push(piece);
            (sent, left) = (sent + piece, left - piece);
        }
        out
    }

    /// 128 B at offset 1, as bw_dma_off_rd.csv tells Haswell and Ivy Bridge apart; aligned reads are as they were.
    #[test]
    fn lines_that_are_cut_into_come_alone() {
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

    /// Whatever the profile says of lines, and however long these are: all completions of a read but the last end at a Read
    /// Completion Boundary, as Link Control says it (`PCIe 5.0 §2.3.1.1`).
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
