// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Optional parts of a host's profile besides the root complex: caches, DRAM, sockets, IOMMU, splitting of completions,
//! noise, power states. These are figures; `memory_system` uses them.

use super::{LINE_BYTES, LONG_READ_LINES, lines};
use schemars::JsonSchema;
use serde::Deserialize;
use tlp::split::completion_piece;
use tlp::{Duration, Mps, Rcb, Time};

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
    /// Additional latencies of some reads of lines that a core wrote: the core sleeps and must wake for the snoop.
    pub snoop_waits: Vec<WeightedLatency>,
}

/// Memory below the caches.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DramProfile {
    /// Extra time for a line from memory, compared with a line from the cache.
    pub latency: Duration,
    /// Banks, if they are modelled. A bank serves one line at a time.
    pub banks: Option<DramBanks>,
    /// Refresh, if it is modelled.
    pub refresh: Option<RefreshProfile>,
}

/// Refresh of memory. A read that meets one waits until it ends (JESD79-3, JESD79-4: tREFI and tRFC). Ranks are refreshed at
/// different times, so each read meets one by chance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefreshProfile {
    /// Time between two refreshes of a rank (tREFI).
    pub interval: Duration,
    /// Time of a refresh (tRFC), at most the interval.
    pub cycle: Duration,
    /// Parts per billion of the hits in the cache that wait for memory too.
    pub hits: u32,
    /// Waits of some reads after a whole refresh, for requests before them.
    pub late: Vec<WeightedLatency>,
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
    /// Time that a miss occupies the lookup, so that page walks start no closer together.
    pub miss_service: Duration,
    /// Time that a read occupies the lookup for each 128 B or part of them.
    pub read_service: Duration,
    /// Times for which the lookup stops before some requests.
    pub stalls: Vec<WeightedLatency>,
    /// Walks into the same page table that follow one another; `None`: they overlap.
    pub serial_walks: Option<SerialWalks>,
    /// A cache of upper levels of page tables.
    pub page_walk_cache: Option<PageWalkCache>,
}

/// Page walks that share a page table and do not overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SerialWalks {
    /// Bytes of I/O addresses whose walks share a table: a power of two.
    pub region_bytes: u64,
    /// From the end of such a walk to the start of the next.
    pub restart: Duration,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// Reads of up to this many bytes get the part before the first line boundary in its own completion. Lines have 64 B, or
    /// the length of the Read Completion Boundary if that is longer, because completions of a read end only there
    /// (`PCIe 5.0 §2.3.1.1`).
    pub first_line_alone_bytes: u32,
    /// A read that ends within a line gets that line's part in its own completion if more than a line is left for the
    /// last one. Lines as above.
    pub last_line_alone: bool,
    /// Bytes of a beat of the root complex. Completions with data occupy the wire in whole beats; 0: they have any length.
    pub beat_bytes: u32,
    /// Idle time of the wire after the last completion of a read, by its length.
    pub request_gaps: RequestGaps,
    /// Additional idle time after each completion of a read whose lines took a microsecond longer than a hit in the
    /// cache, in proportion, if completions are split to `unit_bytes`. Shorter completions make the link wait sooner
    /// for the next one.
    pub late_gap: Duration,
    /// Time that each line of a device's writes takes on the wire from the completions to that device: a property of the
    /// device. A completion waits for it at most as long as three DLLPs need. If it is above zero, a write ends a stream of
    /// reads, and the read after it gets completions of Max_Payload_Size only if it has more than 1024 B.
    pub write_line_gap: Duration,
}

/// Idle time of the wire after the last read of a transfer, by the length of the transfer. One of less than a line leaves none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RequestGaps {
    /// After reads of up to 128 B.
    pub short: Duration,
    /// After longer reads of up to seven lines.
    pub middle: Duration,
    /// After longer reads, and after reads whose completions have Max_Payload_Size instead of `unit_bytes`.
    pub long: Duration,
    /// Between two reads of a transfer of more than 256 B, both of 64 B to seven lines.
    pub further: Duration,
}

/// The place of a read in a transfer of several reads. A device sends these directly after one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct ReadPart {
    /// Bytes of the transfer before this read.
    before: u32,
    /// Another read follows.
    more: Option<Further>,
}

/// The read that follows another one of the same transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Further {
    /// Both reads have 64 B to seven lines, and the transfer more than 256 B.
    Middle,
    /// Any other one.
    Other,
}

/// A read as its completions depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadShape {
    pub(crate) address: u64,
    pub(crate) bytes: u32,
    /// Maximum number of bytes of a completion, if less than Max_Payload_Size.
    pub(crate) unit: Option<Mps>,
    /// Extra time that its lines took over a hit in the cache.
    pub(crate) late: Duration,
    pub(crate) part: ReadPart,
}

impl ReadPart {
    /// Notes that this read of `bytes` is followed by one of `next.1` bytes at address `next.0`; returns its part.
    pub(crate) fn join(&mut self, bytes: u32, next: (u64, u32)) -> ReadPart {
        let before = self.before + bytes;
        let first = next.0 - u64::from(bytes);
        let is_middle =
            |address, bytes| u64::from(bytes) >= LINE_BYTES && lines(address, bytes) < LONG_READ_LINES;
        let are_middle = is_middle(first, bytes) && is_middle(next.0, next.1);
        let is_long = before + next.1 > MIDDLE_TRANSFER_BYTES;
        self.more = Some(if are_middle && is_long { Further::Middle } else { Further::Other });
        ReadPart { before, more: None }
    }
}

/// Writes of a device, as the completions to it depend on them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WriteLoad {
    /// Time in picoseconds that the next completions will wait.
    gap_ps: u64,
    /// When the latest write came.
    latest: Time,
    /// No read has come since.
    is_latest: bool,
}

impl WriteLoad {
    /// Adds a write of `lines`, each of which takes `gap` from the completions.
    #[inline]
    pub(crate) fn add(&mut self, now: Time, lines: u64, gap: Duration) {
        self.end_if_idle(now);
        let most = gap.as_ps() * WAITING_LINES;
        self.gap_ps = (self.gap_ps + gap.as_ps() * lines).min(most);
        self.latest = now;
        self.is_latest = true;
    }

    /// Notes a read; returns whether it follows a write.
    pub(crate) fn precede_read(&mut self, now: Time) -> bool {
        std::mem::take(&mut self.is_latest) && now.since(self.latest) <= WRITE_LOAD_TIME
    }

    /// Returns the time in picoseconds that the next completion waits. The wire takes `line_time` for 64 B.
    #[inline]
    pub(crate) fn wait_ps(&mut self, now: Time, line_time: Duration) -> u16 {
        if self.gap_ps == 0 {
            return 0;
        }
        self.end_if_idle(now);
        let ps = self.gap_ps.min(line_time.as_ps() * DLLP_BYTES / LINE_BYTES);
        self.gap_ps -= ps;
        u16::try_from(ps).unwrap_or(u16::MAX)
    }

    /// The idle wire makes up for writes that are long past.
    #[inline]
    fn end_if_idle(&mut self, now: Time) {
        if now.since(self.latest) > WRITE_LOAD_TIME {
            self.gap_ps = 0;
        }
    }
}

impl CompletionProfile {
    /// Returns the idle time, in picoseconds, after a completion that has `wire_bytes` with its framing and ends `read` if
    /// it is the `last`. The wire takes `line_time` for 64 B.
    #[inline]
    pub(crate) fn rest_ps(&self, read: &ReadShape, wire_bytes: u32, last: bool, line_time: Duration) -> u16 {
        let mut ps = 0;
        if self.beat_bytes > 0 {
            let padding = wire_bytes.next_multiple_of(self.beat_bytes) - wire_bytes;
            ps = line_time.as_ps() * u64::from(padding) / LINE_BYTES;
        }
        if read.unit.is_some() {
            ps += read.late.as_ps() * self.late_gap.as_ps() / 1_000_000;
        }
        if last {
            ps += self.request_gap(read).as_ps();
        }
        u16::try_from(ps).unwrap_or(u16::MAX)
    }

    fn request_gap(&self, read: &ReadShape) -> Duration {
        let ReadPart { before, more } = read.part;
        let (first, bytes) = (read.address - u64::from(before), before + read.bytes);
        let is_whole = self.unit_bytes.is_some() && read.unit.is_none();
        match more {
            Some(Further::Middle) => return self.request_gaps.further,
            Some(Further::Other) => return Duration::ZERO,
            None => {}
        }
        match bytes {
            ..LINE => Duration::ZERO,
            _ if is_whole => self.request_gaps.long,
            LINE..=SHORT_READ_BYTES => self.request_gaps.short,
            _ if lines(first, bytes) < LONG_READ_LINES => self.request_gaps.middle,
            _ => self.request_gaps.long,
        }
    }

    /// Returns the bytes of the next completion of a read, from `address` on, after `sent` bytes have been sent and `left`
    /// remain. The completion has at most `unit` bytes, if that is less than `mps`. Then it also ends at the last line boundary
    /// within its reach, even if the rest would fit: 128 B at host offset 16 come as 112 and 16 B (bw_dma_off_rd.csv, 27.8 ns
    /// as at offset 1, where 25.8 are enough for one completion).
    pub(crate) fn piece(
        &self,
        address: u64,
        (sent, left): (u32, u32),
        unit: Option<Mps>,
        mps: Mps,
        rcb: Rcb,
    ) -> u32 {
        let line = rcb.bytes();
        let usual = match unit {
            // More than fits, so that the piece ends at a boundary.
            Some(unit) if unit < mps => left.min(completion_piece(address, 4096, unit, rcb)),
            _ => completion_piece(address, left, mps, rcb),
        };
        let into_line = address as u32 & (line - 1);
        if sent == 0 && left <= self.first_line_alone_bytes && into_line > 0 {
            return usual.min(line - into_line);
        }
        let beyond = (address as u32).wrapping_add(left) & (line - 1);
        if self.last_line_alone && usual == left && left > line && beyond > 0 {
            return left - beyond;
        }
        usual
    }
}

/// Maximum wait of a completion, as bytes on the wire: as long as three DLLPs take. Fitted, as is the time of a line.
const DLLP_BYTES: u64 = 3 * 8;
/// Maximum number of lines of writes whose time the next completions still wait.
const WAITING_LINES: u64 = 16;
/// Time after a write in which the device still counts as writing. Under load a write comes every 50 ns. In a latency test of a write
/// and a read, the read comes more than 200 ns later.
const WRITE_LOAD_TIME: Duration = Duration::from_ns(100);
/// Maximum length of a read that gets completions of `unit_bytes` because it follows a write. On Broadwell, reads of 1024 B
/// between writes do, and reads of 1536 B do not (bw_dma_sz_sweep.csv).
pub(crate) const CUT_AFTER_WRITE_BYTES: u32 = 1024;
/// Maximum length of a transfer with a short gap.
const SHORT_READ_BYTES: u32 = 128;
/// Maximum length of a transfer whose reads have no gaps between them.
const MIDDLE_TRANSFER_BYTES: u32 = 256;
const LINE: u32 = LINE_BYTES as u32;

/// A latency, and how often it applies to requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightedLatency {
    /// How often, in parts per billion.
    pub parts_per_billion: u32,
    /// The latency itself.
    pub latency: Duration,
}

/// A sleep state of a root complex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PowerProfile {
    /// Idle time after which the part sleeps.
    pub idle: Duration,
    /// Time to wake; if the parts sum to less than a billion, the rest wakes at once.
    pub wake: Vec<WeightedLatency>,
}

/// A link that is retrained under load. The time that this takes is charged to the transfers between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RetrainingProfile {
    /// Time lost for each time in which only writes flow, in parts per million.
    pub write_ppm: u32,
    /// Time lost for each idle time of the wire between completions in which only reads flow, in parts per million. A quarter of the
    /// time in which the wire is busy counts as idle time that costs nothing.
    pub idle_ppm: u32,
    /// Requests further apart are no load.
    pub apart: Duration,
    /// Lost time adds up to this before writes wait for it.
    pub write_wait: Duration,
    /// Lost time adds up to this before reads wait for it.
    pub read_wait: Duration,
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

    /// On Gen3 x8, 64 B take 8125 ps, and three DLLPs 3046.
    #[test]
    fn completions_wait_for_three_dllps_at_most() {
        let (line_time, gap) = (Duration::from_ps(8125), Duration::from_ps(1400));
        let (start, soon) = (Time::from_ps(1_000_000), Time::from_ps(1_100_000));
        let mut load = WriteLoad::default();
        assert_eq!(load.wait_ps(start, line_time), 0, "no writes");
        load.add(start, 4, gap);
        let waits: [u16; 3] = std::array::from_fn(|_| load.wait_ps(soon, line_time));
        assert_eq!(waits, [3046, 5600 - 3046, 0]);
        (0..100).for_each(|_| load.add(start, 4, gap));
        let all: u64 = (0..100).map(|_| u64::from(load.wait_ps(soon, line_time))).sum();
        assert_eq!(all, 16 * 1400);
    }

    #[test]
    fn dllps_of_an_earlier_write_have_been_sent() {
        let (start, later) = (Time::from_ps(1_000_000), Time::from_ps(1_100_001));
        let mut load = WriteLoad::default();
        load.add(start, 4, Duration::from_ps(1400));
        assert_eq!(load.wait_ps(later, Duration::from_ps(8125)), 0);
        assert!(!load.precede_read(later));
        load.add(start, 4, Duration::from_ps(1400));
        assert!(load.precede_read(start));
        assert!(!load.precede_read(start), "a read has come since");
        // After a pause, only the new write delays completions.
        load.add(later, 4, Duration::from_ps(1400));
        let waits = [0; 3].map(|_| load.wait_ps(later, Duration::from_ps(8125)));
        assert_eq!(waits.iter().sum::<u16>(), 4 * 1400, "{waits:?}");
    }

    /// Returns the sizes of all completions of a read of `left` bytes from `address` on.
    fn pieces(profile: &CompletionProfile, address: u64, mut left: u32, rcb: Rcb) -> Vec<u32> {
        let (mut sent, mut out) = (0, Vec::new());
        // Without a unit, the limit is Max_Payload_Size.
        let mps = Mps::new(if profile.unit_bytes.is_some() { 256 } else { 128 }).unwrap();
        while left > 0 {
            let at = address + u64::from(sent);
            let piece = profile.piece(at, (sent, left), profile.unit_bytes, mps, rcb);
            out.push(piece);
            (sent, left) = (sent + piece, left - piece);
        }
        out
    }

    /// Beats of 16 B and gaps of the E5-2637 v3 on a wire of 7.877 B/ns (rules for bw_dma_off_rd.csv). Rows: address, bytes of
    /// the read and of the completion, unit, lateness in ns, whether it is the last completion, idle time in ps.
    #[test]
    fn completions_rest_until_the_next_beat_and_request() {
        let ps = Duration::from_ps;
        let profile = CompletionProfile {
            unit_bytes: Mps::new(128).ok(),
            beat_bytes: 16,
            request_gaps: RequestGaps {
                short: ps(3_000),
                middle: ps(2_000),
                long: ps(350),
                further: ps(4_300),
            },
            late_gap: ps(8_000),
            ..CompletionProfile::default()
        };
        let unit = profile.unit_bytes;
        let rows = [
            // 128 B are short at any offset.
            (16, 128, 36, unit, 0, true, 1_523 + 3_000),
            // 20 + 64 B end 12 B before a beat does, 20 + 12 B with it.
            (0, 64, 84, unit, 0, true, 1_523 + 3_000),
            (0, 12, 32, unit, 0, true, 0),
            (0, 128, 148, unit, 0, true, 1_523 + 3_000),
            // With a digest, offset 8 is the fast one.
            (0, 128, 152, unit, 0, true, 1_015 + 3_000),
            (0, 256, 148, unit, 0, false, 1_523),
            (0, 256, 148, unit, 100, false, 1_523 + 800),
            (0, 256, 148, unit, 100, true, 1_523 + 800 + 2_000),
            (0, 512, 276, None, 100, true, 1_523 + 350),
            (0, 512, 148, unit, 0, true, 1_523 + 350),
            (0, 320, 276, None, 0, true, 1_523 + 350),
        ];
        for (address, bytes, wire_bytes, unit, late, last, expected) in rows {
            let part = ReadPart::default();
            let read = ReadShape { address, bytes, unit, late: Duration::from_ns(late), part };
            let rest = profile.rest_ps(&read, wire_bytes, last, ps(8_125));
            assert_eq!(rest, expected, "{bytes} B, {wire_bytes} on the wire, {late} ns late");
        }
        let plain = CompletionProfile::default();
        let part = ReadPart::default();
        let read = ReadShape { address: 1, bytes: 100, unit: None, late: Duration::ZERO, part };
        assert_eq!(plain.rest_ps(&read, 123, true, ps(8_125)), 0);
    }

    /// A transfer has one gap, by its whole length, and further ones between reads of 64 B to seven lines if it is longer than
    /// 256 B. Rows: address, the bytes of each read, the gaps after them.
    #[test]
    fn transfers_of_several_reads_have_the_gap_of_one() {
        let gaps = RequestGaps {
            short: Duration::from_ps(3_000),
            middle: Duration::from_ps(2_000),
            long: Duration::from_ps(350),
            further: Duration::from_ps(4_300),
        };
        let profile = CompletionProfile {
            unit_bytes: Mps::new(128).ok(),
            request_gaps: gaps,
            ..CompletionProfile::default()
        };
        let rows: [(u64, &[u32], &[u64]); 6] = [
            (448, &[64, 64], &[0, 3_000]),
            (400, &[112, 16], &[0, 3_000]),
            (384, &[128, 128], &[0, 2_000]),
            (448, &[64, 352], &[4_300, 2_000]),
            (480, &[32, 384], &[0, 2_000]),
            (16, &[496, 512, 16], &[0, 0, 350]),
        ];
        for (address, reads, expected) in rows {
            let mut parts = vec![ReadPart::default()];
            let mut at = address;
            for pair in reads.windows(2) {
                at += u64::from(pair[0]);
                let next = parts.last_mut().unwrap().join(pair[0], (at, pair[1]));
                parts.push(next);
            }
            let mut at = address;
            let mut found = Vec::new();
            for (bytes, part) in reads.iter().zip(parts) {
                let read = ReadShape {
                    address: at,
                    bytes: *bytes,
                    unit: profile.unit_bytes,
                    late: Duration::ZERO,
                    part,
                };
                found.push(profile.request_gap(&read).as_ps());
                at += u64::from(*bytes);
            }
            assert_eq!(found, expected, "{reads:?} at {address}");
        }
    }

    /// 128 B at offset 1, by which bw_dma_off_rd.csv distinguishes Haswell and Ivy Bridge; aligned reads do not change.
    #[test]
    fn partial_lines_get_their_own_completion() {
        let usual = CompletionProfile::default();
        let first = CompletionProfile { first_line_alone_bytes: 4096, ..usual.clone() };
        let one_line = CompletionProfile { first_line_alone_bytes: 64, ..usual.clone() };
        let both = CompletionProfile { last_line_alone: true, ..first.clone() };
        let unit = CompletionProfile { unit_bytes: Mps::new(128).ok(), ..usual.clone() };
        let rows: [(&CompletionProfile, u64, u32, &[u32]); 16] = [
            (&usual, 16, 128, &[128]),
            (&unit, 0, 128, &[128]),
            (&unit, 16, 128, &[112, 16]),
            (&unit, 208, 128, &[112, 16]),
            (&unit, 48, 96, &[80, 16]),
            (&unit, 16, 100, &[100]),
            (&usual, 1, 128, &[127, 1]),
            (&first, 1, 128, &[63, 65]),
            (&both, 1, 128, &[63, 64, 1]),
            (&first, 1, 63, &[63]),
            (&first, 1, 64, &[63, 1]),
            (&one_line, 1, 64, &[63, 1]),
            (&one_line, 1, 128, &[127, 1]),
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
            let first_line_alone_bytes = if first_line_alone { 4096 } else { 0 };
            let profile =
                CompletionProfile { first_line_alone_bytes, last_line_alone, ..CompletionProfile::default() };
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
            first_line_alone_bytes: 4096,
            last_line_alone: true,
            ..CompletionProfile::default()
        };
        assert_eq!(pieces(&both, 32, 128, Rcb::new(128).unwrap()), [96, 32]);
    }
}
