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

use tlp::split::request_piece;
use tlp::{Duration, Mps, Time};

/// Bytes of a memory TLP in addition to its payload: header of four DW, framing and LCRC (`PCIe 5.0 §2.2.4.1, §4.2.2.2`).
const TLP_OVERHEAD_BYTES: u32 = 24;

/// Bytes of a digest (`PCIe 5.0 §2.7.1`).
const DIGEST_BYTES: u32 = 4;

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
    /// Command interface: additional such time per byte written.
    pub loop_written_byte: Duration,
    /// DMA interface: time from the start of a transfer until its descriptor is served.
    pub dma_issue: Duration,
    /// DMA interface: time from the end of the last stage to the notice of the end.
    pub dma_done: Duration,
    /// Command interface: additional time before a transfer whose address is in another 4 MiB than that before, so that the card
    /// changes its window to the host.
    pub command_chunk: Duration,
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
    /// Size of a burst in bytes, for pulls and pushes; zero for all at once.
    pub burst_bytes: u32,
    /// TLPs end at host addresses that are multiples of this; zero: they are as long as Max_Payload_Size allows.
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
    /// Maximum number of outstanding read requests; zero: only workers and tags limit them. A transfer has its slots from its
    /// first request until the notice of its end.
    pub slots: u16,
    /// Read requests end at host addresses that are multiples of this, or of Max_Read_Request_Size if that is less. Zero
    /// means that they are as long as Max_Read_Request_Size allows.
    pub request_bytes: u32,
    /// Transmit framer: time per read request. These go between the chunks of writes and delay writes by this time.
    pub frame: Duration,
    /// Push engine: time per transfer.
    pub push: Duration,
    /// Push engine: time per burst. Data whose ends are both at multiples of 8 bytes take it in proportion.
    pub push_burst: Duration,
    /// Push engine: additional latency for each end that is not.
    pub ragged_end: Duration,
    /// Push engine, transfers of up to 256 bytes with such ends: additional time per cache line, for at most three lines if
    /// both ends are such, for one otherwise.
    pub ragged_line: Duration,
    /// Push engine, transfers of less than 512 bytes with such ends: additional time for each read request after the first.
    pub ragged_request: Duration,
    /// Bytes of the buffer for data of which both ends are such, at least a transfer; zero for no limit. They have it from the
    /// request until `buffer_release` after their push.
    pub buffer_bytes: u32,
    /// From the end of such a push until its part of the buffer is free.
    pub buffer_release: Duration,
}

impl CardClock {
    fn is_exact(&self) -> bool {
        self.tick_cycles == 0 || self.mhz == 0
    }

    /// Returns the time from `start` to `end` as the counter measures it, in picoseconds, rounded.
    #[inline]
    pub fn between(&self, start: Time, end: Time) -> u64 {
        if self.is_exact() { end.since(start).as_ps() } else { self.ps(self.ticks(end) - self.ticks(start)) }
    }

    /// Returns the counter's value at `time`.
    fn ticks(&self, time: Time) -> u64 {
        let scaled = u128::from(time.as_ps()) * u128::from(self.mhz);
        (scaled / (u128::from(self.tick_cycles) * 1_000_000)) as u64
    }

    fn ps(&self, ticks: u64) -> u64 {
        let mhz = u128::from(self.mhz);
        let scaled = u128::from(ticks) * u128::from(self.tick_cycles) * 1_000_000;
        ((scaled + mhz / 2) / mhz) as u64
    }
}

impl CardCosts {
    /// Returns whether the card has no costs and limits. Its clock may still matter.
    pub fn is_free(&self) -> bool {
        let CardCosts { clock, .. } = *self;
        *self == CardCosts { clock, ..CardCosts::default() }
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

    /// Returns the time of the framer for a write of `size` bytes to host address `address`, in TLPs with or without a digest.
    pub(super) fn frame_time(&self, address: u64, size: u32, mps: u32, digests: bool) -> FrameTime {
        let mut time = FrameTime::default();
        let overhead = TLP_OVERHEAD_BYTES + if digests { DIGEST_BYTES } else { 0 };
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
            (wire_bytes, before) = (wire_bytes + dws * 4 + overhead, dws * 4);
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

impl ReadCosts {
    /// Returns the costs limited by a Max_Read_Request_Size of `mrrs`. The endpoint splits requests for values below
    /// [`ReadCosts::SHORTEST_REQUEST`].
    pub(super) fn within(self, mrrs: u32) -> ReadCosts {
        let request_bytes = self.request_bytes.min(mrrs.max(ReadCosts::SHORTEST_REQUEST));
        ReadCosts { request_bytes, ..self }
    }

    /// Minimum of `request_bytes`, except zero.
    pub(super) const SHORTEST_REQUEST: u32 = 512;

    /// Returns how many transfers of `size` bytes at offset `offset` of the card's memory the buffer holds; zero for any number.
    pub(super) fn buffered(&self, size: u32, offset: u32) -> u16 {
        match (self.buffer_bytes, ragged_ends(size, offset)) {
            (0, _) | (_, 0 | 1) => 0,
            (bytes, _) => (bytes / size.max(1)).clamp(1, u16::MAX.into()) as u16,
        }
    }

    /// Returns the number of read requests for `size` bytes at host address `address`, split at multiples of `request_bytes`.
    pub(super) const fn requests(&self, address: u64, size: u32) -> u32 {
        match self.request_bytes {
            0 => 1,
            bytes => ((address % bytes as u64) as u32 + size).div_ceil(bytes),
        }
    }

    /// Returns the time of the push engine for `size` bytes at offset `offset` of the card's memory, in bursts of
    /// `burst_bytes`: whole bursts for the whole words of 8 bytes, and one more if both ends are within words.
    fn burst_time(&self, size: u32, offset: u32, burst_bytes: u32) -> Duration {
        let (first, end) = (offset.next_multiple_of(8), (offset + size) & !7);
        let whole = bursts(end.saturating_sub(first), burst_bytes);
        match ragged_ends(size, offset) {
            0 if burst_bytes > 0 => {
                self.push
                    + Duration::from_ps(self.push_burst.as_ps() * u64::from(size) / u64::from(burst_bytes))
            }
            0 | 1 => self.push + self.push_burst * u64::from(whole),
            _ => self.push + self.push_burst * u64::from(whole + 1),
        }
    }

    /// Returns the latency of a transfer's data through the push engine.
    pub(super) fn push_latency(&self, size: u32, offset: u32, burst_bytes: u32) -> Duration {
        self.burst_time(size, offset, burst_bytes) + self.ragged_end * u64::from(ragged_ends(size, offset))
    }

    /// Returns the time that the push engine is occupied by `size` bytes, which come from host address `address` in `requests`
    /// requests.
    pub(super) fn push_time(
        &self,
        size: u32,
        (address, offset): (u64, u32),
        burst_bytes: u32,
        requests: u32,
    ) -> Duration {
        let mut time = self.burst_time(size, offset, burst_bytes);
        let ends = ragged_ends(size, offset);
        if ends > 0 && size <= 256 {
            let lines = ((address % 64) as u32 + size).div_ceil(64);
            time += self.ragged_line * u64::from(if ends == 1 { 1 } else { lines.min(3) });
        }
        if ends > 0 && size < 512 {
            time += self.ragged_request * u64::from(requests.saturating_sub(1));
        }
        time
    }
}

/// Returns how many ends of data in the card's memory are within a word of 8 bytes: 0 to 2.
const fn ragged_ends(size: u32, offset: u32) -> u32 {
    !offset.is_multiple_of(8) as u32 + !(offset + size).is_multiple_of(8) as u32
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
                push_burst: ps(17_000),
                ragged_end: ps(4_000),
                ragged_line: ps(2_900),
                ragged_request: ps(17_200),
                buffer_bytes: 6144,
                buffer_release: ps(58_000),
                slots: 28,
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
            let time = nfp6000().write.frame_time(0, size, 256, false);
            let beats = |n: u64| Duration::from_ps(2_031) * n;
            assert_eq!((time.all, time.before_last), (beats(all), beats(before)), "{size} B");
        }
    }

    /// With a digest 512 B take one beat more: 77.26 ns on Broadwell and the E5-2620 v3, 75.23 elsewhere (bw_dma_sz_sweep.csv).
    #[test]
    fn digests_add_to_the_beats_of_a_chunk() {
        let time = |size, digests| nfp6000().write.frame_time(0, size, 256, digests).all.as_ps();
        assert_eq!([time(512, false), time(512, true)], [37 * 2_031, 38 * 2_031]);
        assert_eq!([time(256, false), time(256, true)], [20 * 2_031, 20 * 2_031]);
    }

    /// Size, device offset, number of requests, and ns in runs limited by the push engine (`bw_dma_sz_sweep.csv`,
    /// `bw_dma_off_rd.csv`): 4 ns and 17 ns a burst, and what ragged transfers take longer. The fifth column is measured, on
    /// Broadwell where a transfer is never split and on Ivy Bridge elsewhere.
    #[test]
    fn push_times_match_measurements() {
        let rows = [
            (407, 0, 1, 72.0, 72.00),
            (1024, 1, 1, 157.0, 157.0),
            (407, 2, 1, 89.0, 89.0),
            (416, 4, 1, 89.0, 89.0),
            (63, 0, 1, 23.9, 23.72),
            (65, 0, 1, 23.9, 23.82),
            (64, 1, 1, 40.9, 40.41),
            (128, 1, 1, 43.8, 43.34),
            (256, 63, 1, 63.7, 63.40),
            (416, 4, 2, 106.2, 106.0),
            (512, 0, 1, 72.0, 72.0),
        ];
        for (size, offset, requests, expected, measured) in rows {
            let time = nfp6000().read.push_time(size, (0, offset), 128, requests);
            assert_eq!(time.as_ps() as f64 / 1_000.0, expected, "{size} at {offset}");
            assert!(
                (expected / measured - 1.0_f64).abs() < 0.015,
                "{size} at {offset}: {expected} for {measured}"
            );
        }
        // The host offset matters by the lines that a transfer touches: 62 B at 32 touch two.
        let read = nfp6000().read;
        assert_eq!(read.push_time(62, (32, 1), 128, 1), Duration::from_ps(38_000 + 2 * 2_900));
    }

    /// 6 KiB hold three transfers of 2048 B, if both ends are within words.
    #[test]
    fn buffer_holds_ragged_transfers() {
        let held = |size, offset| nfp6000().read.buffered(size, offset);
        assert_eq!([held(2048, 1), held(1024, 1), held(407, 2)], [3, 6, 15]);
        assert_eq!([held(2048, 0), held(2049, 0), held(2048, 8)], [0; 3]);
    }

    /// Size, device offset, and latency in ps. From 264 to 265 B it grows by 17.1 ns (lat_dma_sizes_byte_inc.csv).
    #[test]
    fn push_latency_grows_with_bursts_and_ragged_ends() {
        let rows = [
            (4, 0, 8_000),
            (8, 0, 5_062),
            (64, 0, 12_500),
            (64, 8, 12_500),
            (256, 0, 38_000),
            (255, 0, 42_000),
            (257, 0, 42_000),
        ];
        for (size, offset, expected) in
            rows.into_iter().chain([(264, 0, 39_062), (265, 0, 59_000), (64, 1, 46_000)])
        {
            let latency = nfp6000().read.push_latency(size, offset, 128).as_ps();
            assert_eq!(latency, expected, "{size} at {offset}");
        }
    }

    /// 16 cycles at 1.2 GHz are 13.33 ns (SIGCOMM'18, §5.1, has the cycles).
    #[test]
    fn converts_ticks_to_picoseconds() {
        let clock = nfp6000().clock;
        let at = Time::from_ps;
        assert_eq!([0, 13_333, 13_334, 26_667, 40_000].map(|ps| clock.ticks(at(ps))), [0, 0, 1, 2, 3]);
        assert_eq!([0, 1, 2, 3, 42].map(|ticks| clock.ps(ticks)), [0, 13_333, 26_667, 40_000, 560_000]);
        assert_eq!(clock.between(at(13_333), at(40_000)), 40_000);
        assert_eq!(CardClock::default().between(at(13_333), at(40_000)), 26_667);
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
