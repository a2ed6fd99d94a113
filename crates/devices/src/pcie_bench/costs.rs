// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The costs of a benchmark card in addition to the wire, and the times of its stages. Pure functions without a clock.
//!
//! A transfer by the DMA interface goes through stages. Each stage handles one transfer at a time:
//!
//! ```text
//! write  worker --dma_issue--> pull engine --> transmit framer --> link          --dma_done--> worker
//! read   worker --dma_issue--> read slots  -------------------> link --> push engine --dma_done--> worker
//! ```
//!
//! The pull engine fetches all data of a write from the card's memory before the first TLP leaves. The push engine stores the
//! data of a read after all of them have arrived. The command interface has neither (SIGCOMM'18, §5.1).

use super::settings::SettingsError;
use tlp::split::request_piece;
use tlp::{Duration, Mps};

/// Bytes of a memory TLP in addition to its payload: header of four DW, framing and LCRC (`PCIe 5.0 §2.2.4.1, §4.2.2.2`).
const TLP_OVERHEAD_BYTES: u32 = 24;

/// The figures of a card. [`Default`] is all zero: a card without costs. The device profile of a card has the source of each
/// figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CardCosts {
    /// Clock for latencies.
    pub clock: CardClock,
    /// Time from the end of a transfer of a latency test to the start of the next.
    pub loop_time: Duration,
    /// Variation of that time, uniform from 0 up to this value, added to `loop_time`.
    pub loop_spread: Duration,
    /// DMA interface: time from the start of a transfer until its descriptor is served.
    pub dma_issue: Duration,
    /// DMA interface: time from the end of the last stage to the notice of the end.
    pub dma_done: Duration,
    /// Command interface: time from the start of a transfer to its first TLP.
    pub command_issue: Duration,
    /// Command interface: time from the last TLP to the notice.
    pub command_done: Duration,
    /// Command interface: additional time until the notice for each 8 bytes or part of them.
    pub command_word: Duration,
    /// Writes of the DMA interface.
    pub write: WriteCosts,
    /// Reads of the DMA interface.
    pub read: ReadCosts,
    /// The channels between the link and the card's memory, shared by writes and reads. Channels matter only for
    /// BW_RDWR, because other stages limit tests with only writes or only reads.
    pub channels: ChannelCosts,
}

/// Channels. Each channel serves one transfer at a time, in either direction. A write occupies its channel for the time
/// of the pull engine or of the transmit framer, whichever is longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChannelCosts {
    /// Number of channels, at most [`ChannelCosts::MOST`]; zero if writes and reads share none.
    pub count: u8,
    /// Time that a read occupies its channel.
    pub read: Duration,
    /// Additional time per 128 bytes, in proportion.
    pub read_per_128_bytes: Duration,
}

/// A free-running counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CardClock {
    /// Frequency in MHz.
    pub mhz: u32,
    /// Clock cycles per count; zero if time is exact to the picosecond.
    pub tick_cycles: u32,
}

/// Costs of writes by the DMA interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteCosts {
    /// Pull engine: time per transfer.
    pub pull: Duration,
    /// Pull engine: time per burst.
    pub pull_burst: Duration,
    /// Size of a burst in bytes, for pulls and shifted pushes; zero for all at once.
    pub burst_bytes: u32,
    /// TLPs end at multiples of this host address; zero: they are as long as Max_Payload_Size allows.
    pub boundary_bytes: u32,
    /// Exception: a TLP that starts at a multiple of this and has at least as many bytes left, rounded to DWs, has this
    /// length if Max_Payload_Size allows it.
    pub full_bytes: u32,
    /// Transmit framer: time of a beat.
    pub beat: Duration,
    /// Bytes per beat.
    pub beat_bytes: u32,
    /// Bytes of a transfer that are framed together as a chunk.
    pub chunk_bytes: u32,
    /// Beats per chunk in addition to those of its TLPs.
    pub chunk_beats: u32,
}

/// Costs of reads by the DMA interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadCosts {
    /// Maximum number of outstanding read requests; zero: only workers and tags limit them.
    pub slots: u16,
    /// Read requests end at multiples of this host address, or of Max_Read_Request_Size if that is less. Zero means
    /// that they are as long as Max_Read_Request_Size allows.
    pub request_bytes: u32,
    /// Transmit framer: time per read request. These go between the chunks of writes and delay writes by this time.
    pub frame: Duration,
    /// Push engine: time per transfer.
    pub push: Duration,
    /// Push engine: time per 8 bytes or part of them.
    pub push_word: Duration,
    /// Push engine: additional time if exactly one end of the data in the card's memory is not a multiple of 8 bytes.
    pub partial: Duration,
    /// Minimum total in that case.
    pub partial_floor: Duration,
    /// Push engine, if neither end is a multiple of 8 bytes, instead of the above: time per transfer.
    pub shifted: Duration,
    /// Time per burst in that case.
    pub shifted_burst: Duration,
}

impl CardClock {
    /// Converts `ps` to the counter's value: ticks, rounded down, or picoseconds if time is exact.
    pub fn ticks(&self, ps: u64) -> u64 {
        match (u64::from(self.tick_cycles), u64::from(self.mhz)) {
            (0, _) | (_, 0) => ps,
            (cycles, mhz) => (u128::from(ps) * u128::from(mhz) / (u128::from(cycles) * 1_000_000)) as u64,
        }
    }

    /// Converts `ticks` to picoseconds, rounded.
    pub fn ps(&self, ticks: u64) -> u64 {
        match (u64::from(self.tick_cycles), u64::from(self.mhz)) {
            (0, _) | (_, 0) => ticks,
            (cycles, mhz) => {
                let ps = u128::from(ticks) * u128::from(cycles) * 1_000_000;
                ((ps + u128::from(mhz) / 2) / u128::from(mhz)) as u64
            }
        }
    }
}

impl CardCosts {
    /// Returns whether the card has no costs and limits. Its clock may still matter.
    pub fn is_free(&self) -> bool {
        let CardCosts { clock, .. } = *self;
        *self == CardCosts { clock, ..CardCosts::default() }
    }

    /// Checks the figures, also against transfers of `size_bytes` at a Max_Read_Request_Size of `mrrs`.
    ///
    /// # Errors
    /// The first invalid figure.
    pub fn check(&self, size_bytes: u32, mrrs: u32) -> Result<(), SettingsError> {
        let WriteCosts { boundary_bytes, full_bytes, chunk_bytes, .. } = self.write;
        let request_bytes = self.read.request_bytes;
        for (bytes, least) in [
            (boundary_bytes, 64),
            (full_bytes, 64),
            (chunk_bytes, 64),
            (request_bytes, ReadCosts::SHORTEST_REQUEST),
        ] {
            if bytes != 0 && !(bytes.is_power_of_two() && (least..=4096).contains(&bytes)) {
                return Err(SettingsError::Figure(bytes));
            }
        }
        if self.channels.count > ChannelCosts::MOST {
            return Err(SettingsError::Channels(self.channels.count));
        }
        // The worst case is a transfer that starts just before such a multiple.
        let requests = self.read.within(mrrs).requests(u64::MAX, size_bytes);
        if self.read.slots != 0 && requests > u32::from(self.read.slots) {
            return Err(SettingsError::Slots(self.read.slots, size_bytes, requests));
        }
        Ok(())
    }
}

impl WriteCosts {
    /// Returns the time of the pull engine for `size` bytes at offset `offset` of the card's memory. A burst starts at a
    /// multiple of its size if the offset is a multiple of 8 bytes; otherwise the offset counts as additional bytes.
    pub(super) fn pull_time(&self, size: u32, offset: u32) -> Duration {
        let shifted = if offset.is_multiple_of(8) { 0 } else { offset };
        self.pull + self.pull_burst * u64::from(bursts(size + shifted, self.burst_bytes))
    }

    /// Returns the size of the TLP that starts at host address `address` with `left` bytes to go, for a Max_Payload_Size of
    /// `mps`.
    pub(super) fn tlp_bytes(&self, address: u64, left: u32, mps: u32) -> u32 {
        let full = self.full_bytes;
        if self.boundary_bytes == 0 {
            return left;
        }
        let aligned = |to: u32| address.is_multiple_of(u64::from(to));
        if full != 0 && full <= mps && aligned(full) && left.next_multiple_of(4) >= full {
            return left.min(full);
        }
        let boundary = self.boundary_bytes.min(mps.max(1));
        left.min(boundary - (address % u64::from(boundary)) as u32)
    }

    /// Returns address and size of each TLP of a write of `size` bytes to host address `address`.
    pub fn tlps(&self, address: u64, size: u32, mps: Mps) -> impl Iterator<Item = (u64, u32)> {
        let (costs, mps, mut at) = (*self, mps.bytes(), 0);
        std::iter::from_fn(move || {
            let (start, left) = (address + u64::from(at), size - at);
            let bytes = costs.tlp_bytes(start, left, mps).min(request_piece(start, left, mps));
            at += bytes;
            (bytes > 0).then_some((start, bytes))
        })
    }

    /// Returns the time of the framer for a write of `size` bytes to host address `address`.
    pub(super) fn frame_time(&self, address: u64, size: u32, mps: u32) -> FrameTime {
        let mut time = FrameTime::default();
        if self.beat == Duration::ZERO {
            return time;
        }
        let (mut chunk, mut wire_bytes, mut before) = (0, 0, 0);
        let mut at = 0;
        while at < size {
            if self.chunk_of(at) != chunk {
                time.before_last = self.end_chunk(time.before_last, wire_bytes);
                (chunk, wire_bytes, before) = (self.chunk_of(at), 0, 0);
            }
            let start = address + u64::from(at);
            let bytes = self.tlp_bytes(start, size - at, mps);
            // After a TLP of full length, a shorter one starts with a new beat.
            let dws = ((start + u64::from(bytes)).div_ceil(4) - start / 4) as u32;
            if before == self.full_bytes && dws * 4 < before {
                wire_bytes = wire_bytes.next_multiple_of(self.beat_bytes.max(1));
            }
            (wire_bytes, before) = (wire_bytes + dws * 4 + TLP_OVERHEAD_BYTES, dws * 4);
            at += bytes.max(1);
        }
        time.all = self.end_chunk(time.before_last, wire_bytes);
        time
    }

    /// Returns the chunk of a TLP that starts `at` bytes after the start of its transfer.
    fn chunk_of(&self, at: u32) -> u32 {
        at.checked_div(self.chunk_bytes).unwrap_or(0)
    }

    fn end_chunk(&self, before: Duration, wire_bytes: u32) -> Duration {
        let beats = wire_bytes.div_ceil(self.beat_bytes.max(1)) + self.chunk_beats;
        before + self.beat * u64::from(beats)
    }
}

/// Time of the framer for a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct FrameTime {
    /// Total time.
    pub(super) all: Duration,
    /// Time of all chunks except the last. After this time, the framer holds the rest of the write.
    pub(super) before_last: Duration,
}

impl ChannelCosts {
    /// Maximum number of channels of a card.
    pub const MOST: u8 = 8;

    /// Returns the time that a read of `size` bytes occupies a channel.
    pub(super) fn read_time(&self, size: u32) -> Duration {
        self.read + Duration::from_ps(self.read_per_128_bytes.as_ps() * u64::from(size) / 128)
    }
}

impl ReadCosts {
    /// Returns the costs limited by a Max_Read_Request_Size of `mrrs`. The endpoint splits requests for values below
    /// [`ReadCosts::SHORTEST_REQUEST`].
    pub(super) fn within(self, mrrs: u32) -> ReadCosts {
        let request_bytes = self.request_bytes.min(mrrs.max(ReadCosts::SHORTEST_REQUEST));
        ReadCosts { request_bytes, ..self }
    }

    /// Minimum of `request_bytes`, except zero.
    const SHORTEST_REQUEST: u32 = 512;

    /// Returns the number of read requests for `size` bytes at host address `address`, split at multiples of `request_bytes`.
    pub(super) const fn requests(&self, address: u64, size: u32) -> u32 {
        match self.request_bytes {
            0 => 1,
            bytes => ((address % bytes as u64) as u32 + size).div_ceil(bytes),
        }
    }

    /// Returns the latency of a transfer's data through the push engine. A partial word at one end occupies the engine longer
    /// ([`ReadCosts::push_time`]) than it delays the data: latencies of 63 and 64 B are the same.
    pub(super) fn push_latency(&self, size: u32, offset: u32, burst_bytes: u32) -> Duration {
        match ends(size, offset) {
            Ends::OneInWord => self.push_words(size),
            Ends::Whole | Ends::BothInWord => self.push_time(size, offset, burst_bytes),
        }
    }

    /// Returns the time that the push engine is occupied by `size` bytes at offset `offset` of the card's memory.
    pub(super) fn push_time(&self, size: u32, offset: u32, burst_bytes: u32) -> Duration {
        let words = self.push_words(size);
        match ends(size, offset) {
            Ends::Whole => words,
            Ends::OneInWord => (words + self.partial).max(self.partial_floor),
            Ends::BothInWord => {
                (self.shifted + self.shifted_burst * u64::from(bursts(size, burst_bytes))).max(words)
            }
        }
    }

    fn push_words(&self, size: u32) -> Duration {
        self.push + self.push_word * u64::from(size.div_ceil(8))
    }
}

/// Alignment of the ends of data in the card's memory to words of 8 bytes.
enum Ends {
    Whole,
    OneInWord,
    BothInWord,
}

const fn ends(size: u32, offset: u32) -> Ends {
    match (offset.is_multiple_of(8), (offset + size).is_multiple_of(8)) {
        (true, true) => Ends::Whole,
        (false, false) => Ends::BothInWord,
        _ => Ends::OneInWord,
    }
}

const fn bursts(bytes: u32, burst_bytes: u32) -> u32 {
    if burst_bytes == 0 { 1 } else { bytes.div_ceil(burst_bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures of device profile `nfp6000` that matter here.
    fn nfp6000() -> CardCosts {
        let ps = Duration::from_ps;
        CardCosts {
            clock: CardClock { mhz: 1200, tick_cycles: 16 },
            write: WriteCosts {
                pull: ps(4_080),
                pull_burst: ps(16_980),
                burst_bytes: 128,
                boundary_bytes: 128,
                full_bytes: 256,
                beat: ps(2_031),
                beat_bytes: 16,
                chunk_bytes: 512,
                chunk_beats: 2,
            },
            read: ReadCosts {
                push: ps(4_000),
                push_word: ps(1_063),
                partial: ps(4_000),
                partial_floor: ps(23_800),
                shifted: ps(23_300),
                shifted_burst: ps(18_600),
                slots: 20,
                request_bytes: 512,
                ..ReadCosts::default()
            },
            ..CardCosts::default()
        }
    }

    /// Size, device offset, and measured ns in runs limited by the pull engine (`bw_dma_sz_sweep.csv`, `bw_dma_off_wr.csv`,
    /// hsw-Xeon-E5-2637v3_supermicro).
    #[test]
    fn pull_times_match_measurements() {
        let rows = [
            (16, 0, 21.02),
            (129, 0, 38.00),
            (257, 0, 55.00),
            (407, 63, 72.00),
            (513, 0, 89.00),
            (64, 1, 21.13),
        ];
        for (size, offset, measured) in rows.into_iter().chain([(1024, 1, 157.00), (128, 25, 38.00)]) {
            let here = nfp6000().write.pull_time(size, offset).as_ps() as f64 / 1_000.0;
            assert!((here / measured - 1.0).abs() < 0.004, "{size} at {offset}: {here} for {measured}");
        }
        assert_eq!(nfp6000().write.pull_time(128, 8), nfp6000().write.pull_time(128, 0));
    }

    /// Host address, size, Max_Payload_Size, and the TLPs: ends at multiples of 128 B, except full ones of 256 B.
    #[test]
    fn splits_writes_into_tlps() {
        let rows: [(u64, u32, u32, &[u32]); 8] = [
            (0, 256, 256, &[256]),
            (0, 255, 256, &[255]),
            (0, 252, 256, &[128, 124]),
            (1, 256, 256, &[127, 128, 1]),
            (128, 512, 256, &[128, 256, 128]),
            (0, 512, 128, &[128, 128, 128, 128]),
            (64, 100, 256, &[64, 36]),
            (1, 600, 256, &[127, 128, 256, 89]),
        ];
        for (address, size, mps, expected) in rows {
            let (mut at, mut seen) = (0, Vec::new());
            while at < size {
                seen.push(nfp6000().write.tlp_bytes(address + u64::from(at), size - at, mps));
                at += seen.last().unwrap();
            }
            assert_eq!(seen, expected, "{size} B at {address}, {mps}");
        }
        assert_eq!(WriteCosts::default().tlp_bytes(1, 4095, 128), 4095, "left to the endpoint");
        let mps = Mps::new(256).unwrap();
        let tlps: Vec<(u64, u32)> = WriteCosts::default().tlps(0x1fc0, 600, mps).collect();
        assert_eq!(
            tlps,
            [(0x1fc0, 64), (0x2000, 256), (0x2100, 256), (0x2200, 24)],
            "split by the endpoint's rules"
        );
        let lines = WriteCosts { boundary_bytes: 128, ..WriteCosts::default() };
        assert_eq!(lines.tlps(0x1fc0, 300, mps).map(|(_, n)| n).collect::<Vec<_>>(), [64, 128, 108]);
    }

    /// Size, total beats and beats before the last chunk, computed by hand: 24 B and whole DWs per TLP, two beats per chunk.
    #[test]
    fn frame_times_count_beats() {
        for (size, all, before) in
            [(64, 8, 0), (128, 12, 0), (256, 20, 0), (512, 37, 0), (768, 57, 37), (2048, 148, 111)]
        {
            let time = nfp6000().write.frame_time(0, size, 256);
            let beats = |n: u64| Duration::from_ps(2_031) * n;
            assert_eq!((time.all, time.before_last), (beats(all), beats(before)), "{size} B");
        }
    }

    /// Size, device offset, and measured ns in runs limited by the push engine (`bw_dma_sz_sweep.csv`, `bw_dma_off_rd.csv`,
    /// ib-Xeon-E5-2620v2_dell-t620-s0-s0-s0).
    #[test]
    fn push_times_match_measurements() {
        let rows = [
            (63, 0, 23.72),
            (65, 0, 23.82),
            (64, 1, 40.41),
            (128, 1, 43.34),
            (256, 63, 63.40),
            (416, 4, 98.28),
            (407, 2, 98.15),
            (2048, 1, 320.11),
        ];
        for (size, offset, measured) in rows {
            let here = nfp6000().read.push_time(size, offset, 128).as_ps() as f64 / 1_000.0;
            assert!((here / measured - 1.0).abs() < 0.05, "{size} at {offset}: {here} for {measured}");
        }
        assert_eq!(nfp6000().read.push_time(64, 8, 128), Duration::from_ps(4_000 + 8 * 1_063));
    }

    /// 16 cycles at 1.2 GHz are 13.33 ns (SIGCOMM'18, §5.1, has the cycles).
    #[test]
    fn converts_ticks_to_picoseconds() {
        let clock = nfp6000().clock;
        assert_eq!([0, 13_333, 13_334, 26_667, 40_000].map(|ps| clock.ticks(ps)), [0, 0, 1, 2, 3]);
        assert_eq!([0, 1, 2, 3, 42].map(|ticks| clock.ps(ticks)), [0, 13_333, 26_667, 40_000, 560_000]);
        assert_eq!((CardClock::default().ticks(7), CardClock::default().ps(7)), (7, 7));
    }

    #[test]
    fn rejects_invalid_figures() {
        let with = |change: fn(&mut CardCosts)| {
            let mut costs = nfp6000();
            change(&mut costs);
            costs.check(2048, 512).map_err(|e| e.to_string())
        };
        assert_eq!(with(|_| {}), Ok(()));
        assert!(with(|c| c.write.chunk_bytes = 96).unwrap_err().starts_with("a figure of 96 bytes"));
        assert!(with(|c| c.read.request_bytes = 256).unwrap_err().starts_with("a figure of 256 bytes"));
        // Four requests of 512 bytes, and a fifth if the transfer is not aligned.
        let few = "4 slots for read requests: a transfer of 2048 bytes needs 5";
        assert_eq!(with(|c| c.read.slots = 4), Err(few.into()));
        assert_eq!(with(|c| c.read.slots = 5), Ok(()));
    }
}
