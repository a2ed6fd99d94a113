// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Profiles of benchmark cards: the costs of a card in addition to the wire, each figure with its source. This module
//! has only data; `costs` and `staged` apply them.

use super::costs::{CardClock, CardCosts, ReadCosts, WriteCosts};
use super::settings::{CardPath, MAX_OUTSTANDING};
use plug::file::Folder;
use plug::profile::{Basis, Figure, ProfileError, Shelf, Shipped};
use plug::transfers::Test;
use plug::values::{Gen, Picoseconds};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::Path;
use tlp::Duration;

/// A profile that ships with riser.
macro_rules! ships {
    ($name:literal) => {
        Shipped { name: $name, text: include_str!(concat!("../../profiles/", $name, ".toml")) }
    };
}

/// The profiles that ship with riser.
pub const CARDS: Shelf = Shelf {
    kind: "device",
    extrapolated: "times of its stages, and how many transfers and requests are under way",
    all: &[ships!("ideal"), ships!("nfp6000"), ships!("netfpga-sume"), ships!("h100"), ships!("chipyard")],
    replaced: &[
        ("push_word_ps", "push_burst_ps, the time of a burst, expected 0 to 10000000"),
        ("push_partial_ps", "push_ragged_line_ps, expected 0 to 10000000"),
        ("push_partial_floor_ps", "push_burst_ps: whole bursts, expected 0 to 10000000"),
        ("push_shifted_ps", "push_ragged_line_ps and push_ragged_request_ps, expected 0 to 10000000"),
        ("push_shifted_burst_ps", "push_burst_ps, expected 0 to 10000000"),
        ("channels", "write_line_gap_ps, time that writes take from completions, expected 0 to 20000"),
        ("channel_read_ps", "write_line_gap_ps, expected 0 to 20000"),
        ("channel_read_128_bytes_ps", "write_line_gap_ps, expected 0 to 20000"),
    ],
};

/// Legal multiples at which TLPs end; 0 means none. [`CardCosts::check`] refuses others.
const BOUNDARIES: [u32; 8] = [0, 64, 128, 256, 512, 1024, 2048, 4096];

/// A device profile: the costs of a benchmark card in addition to the wire. An omitted figure means no cost and no
/// limit.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceFile {
    /// Version of the file's format: 1.
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// `device`.
    pub kind: DeviceKind,
    /// One-line description of the card.
    pub description: String,
    /// Generation of the links on which the figures were measured. On links of another generation riser marks them as
    /// extrapolated. Without this key, the figures apply to all generations.
    #[serde(rename = "gen")]
    pub generation: Option<Figure<Gen>>,
    /// Workers of a bandwidth test, each with one transfer in flight.
    #[schemars(extend("minimum" = 1, "maximum" = MAX_OUTSTANDING))]
    pub outstanding: Figure<u16>,
    /// Whether the gaps after reads in a host's profile (`completions.short_gap_ps`, `middle_gap_ps`, `long_gap_ps` and `further_gap_ps`), which were measured
    /// with the NFP-6000, apply to this card. In a lab with several cards they apply if one of the cards has them. Default: true.
    pub read_gaps: Option<Figure<bool>>,
    /// Time by which each line of the card's writes delays the completions to the card, up to 20 ns, in addition to the Acks and
    /// UpdateFCs that riser sends. Fitted; the cause is unknown. A completion waits at most as long as three DLLPs need. If it is above 0, a read of up to 1024 bytes that
    /// follows a write gets completions of the host's `completions.unit_bytes`. In a lab with several cards the longest one
    /// applies. Default: 0.
    #[schemars(extend("minimum" = 0, "maximum" = 20_000))]
    pub write_line_gap_ps: Option<Figure<Picoseconds>>,
    /// Frequency in MHz of the clock for latencies.
    #[schemars(extend("minimum" = 0, "maximum" = 1_000_000))]
    pub clock_mhz: Option<Figure<u32>>,
    /// Clock cycles per tick of the counter. If omitted, latencies are exact to the picosecond.
    #[schemars(extend("minimum" = 0, "maximum" = 1_000_000))]
    pub clock_tick_cycles: Option<Figure<u32>>,
    /// Time from the end of a transfer of a latency test to the start of the next.
    pub loop_ps: Option<Figure<Picoseconds>>,
    /// Variation of that time, uniform from 0 up to this value, added to `loop_ps`.
    pub loop_spread_ps: Option<Figure<Picoseconds>>,
    /// Command interface: additional such time per byte written.
    #[schemars(extend("minimum" = 0, "maximum" = MAX_STAGE_PS))]
    pub loop_written_byte_ps: Option<Figure<Picoseconds>>,
    /// DMA interface: time from the start of a transfer until its descriptor is served.
    pub dma_issue_ps: Option<Figure<Picoseconds>>,
    /// DMA interface: time from the end of the last stage to the notice of the end.
    pub dma_done_ps: Option<Figure<Picoseconds>>,
    /// Command interface: additional time before a transfer whose address is in another 4 MiB than that before.
    #[schemars(extend("minimum" = 0, "maximum" = MAX_STAGE_PS))]
    pub command_chunk_ps: Option<Figure<Picoseconds>>,
    /// Command interface: time from the start of a transfer to its first TLP.
    pub command_issue_ps: Option<Figure<Picoseconds>>,
    /// Command interface: time from the last TLP of a transfer to the notice.
    pub command_done_ps: Option<Figure<Picoseconds>>,
    /// Command interface: additional time until the notice for each 8 bytes or part of them.
    pub command_word_ps: Option<Figure<Picoseconds>>,
    /// Pull engine, which fetches all data of a write before its first TLP leaves: service time per transfer.
    pub pull_ps: Option<Figure<Picoseconds>>,
    /// Pull engine: service time per burst.
    pub pull_burst_ps: Option<Figure<Picoseconds>>,
    /// Size of a burst in bytes, for pulls and pushes.
    #[schemars(extend("minimum" = 0, "maximum" = 4096))]
    pub burst_bytes: Option<Figure<u32>>,
    /// Write TLPs end at host addresses that are multiples of this, in bytes.
    #[schemars(extend("enum" = BOUNDARIES))]
    pub write_boundary_bytes: Option<Figure<u32>>,
    /// Exception: a TLP that starts at a multiple of this and has at least as many bytes left, rounded to DWs, has this length if
    /// Max_Payload_Size allows it.
    #[schemars(extend("enum" = BOUNDARIES))]
    pub write_full_bytes: Option<Figure<u32>>,
    /// Transmit framer: time of a beat.
    pub frame_beat_ps: Option<Figure<Picoseconds>>,
    /// Transmit framer: bytes per beat. The TLPs of a chunk use whole beats.
    #[schemars(extend("minimum" = 0, "maximum" = 4096))]
    pub frame_beat_bytes: Option<Figure<u32>>,
    /// Transmit framer: bytes of a write that are framed together as a chunk.
    #[schemars(extend("enum" = BOUNDARIES))]
    pub frame_chunk_bytes: Option<Figure<u32>>,
    /// Transmit framer: beats per chunk in addition to those of its TLPs.
    #[schemars(extend("minimum" = 0, "maximum" = 4096))]
    pub frame_chunk_beats: Option<Figure<u32>>,
    /// Transmit framer: service time of a read request, which goes between the chunks of writes.
    pub frame_read_ps: Option<Figure<Picoseconds>>,
    /// Maximum number of outstanding read requests. A transfer has its slots from its first request until the notice of its end.
    pub read_slots: Option<Figure<u16>>,
    /// Read requests end at host addresses that are multiples of this, in bytes, or of Max_Read_Request_Size if that is less.
    #[schemars(extend("enum" = [0, 512, 1024, 2048, 4096]))]
    pub read_request_bytes: Option<Figure<u32>>,
    /// Push engine, which stores the data of a read after all have arrived: service time per transfer.
    #[schemars(extend("minimum" = 0, "maximum" = MAX_STAGE_PS))]
    pub push_ps: Option<Figure<Picoseconds>>,
    /// Push engine: service time per burst. Data whose ends in the card's memory are both at multiples of 8 bytes take it in
    /// proportion; others take whole bursts for their whole words of 8 bytes, and one more if both ends are within words.
    #[schemars(extend("minimum" = 0, "maximum" = MAX_STAGE_PS))]
    pub push_burst_ps: Option<Figure<Picoseconds>>,
    /// Push engine: additional latency for each end within a word.
    #[schemars(extend("minimum" = 0, "maximum" = MAX_STAGE_PS))]
    pub push_ragged_end_ps: Option<Figure<Picoseconds>>,
    /// Push engine, transfers of up to 256 bytes with such ends: additional service time per cache line, for at most three lines
    /// if both ends are within words, for one otherwise.
    #[schemars(extend("minimum" = 0, "maximum" = MAX_STAGE_PS))]
    pub push_ragged_line_ps: Option<Figure<Picoseconds>>,
    /// Push engine, transfers of less than 512 bytes with such ends: additional service time for each read request after the
    /// first.
    #[schemars(extend("minimum" = 0, "maximum" = MAX_STAGE_PS))]
    pub push_ragged_request_ps: Option<Figure<Picoseconds>>,
    /// Bytes of the buffer for data of which both ends are within words, up to 65536. They have it from their request until
    /// `push_buffer_release_ps` after their push. 0: no limit.
    #[schemars(extend("minimum" = 0, "maximum" = 65_536))]
    pub push_buffer_bytes: Option<Figure<u32>>,
    /// From the end of such a push until its part of the buffer is free.
    #[schemars(extend("minimum" = 0, "maximum" = MAX_STAGE_PS))]
    pub push_buffer_release_ps: Option<Figure<Picoseconds>>,
}

/// Returns the weakest basis of the figures in card profile `name` that affect `test` by `path`. `None` if the card has no costs there.
pub fn card_basis(name: &str, folder: &Folder, test: Test, path: CardPath) -> Option<Basis> {
    let keys = match (test, path) {
        (Test::LatRd | Test::LatWrRd, CardPath::Command) => COMMAND.to_vec(),
        (Test::LatRd | Test::LatWrRd, CardPath::Dma) => DMA.to_vec(),
        (Test::BwRd, _) => READ_RATE.to_vec(),
        (Test::BwWr, _) => WRITE_RATE.to_vec(),
        (Test::BwRdWr | Test::LatLoop | Test::BwLoop, _) => [READ_RATE, WRITE_RATE].concat(),
    };
    let places: Vec<_> = keys.into_iter().map(|key| ("", key)).collect();
    CARDS.bases(name, folder)?.weakest(&places)
}

/// Figures that determine a latency by the command interface.
const COMMAND: [&str; 3] = ["command_issue_ps", "command_done_ps", "command_word_ps"];
/// Figures that determine a latency by the DMA interface.
const DMA: [&str; 3] = ["dma_issue_ps", "dma_done_ps", "push_ps"];
/// Figures that determine the rate of reads.
const READ_RATE: [&str; 4] = ["read_slots", "push_ps", "push_burst_ps", "frame_read_ps"];
/// Figures that determine the rate of writes.
const WRITE_RATE: [&str; 4] = ["write_boundary_bytes", "pull_ps", "pull_burst_ps", "frame_beat_bytes"];

/// Maximum time of a stage in picoseconds: 10 us.
const MAX_STAGE_PS: u64 = 10_000_000;

/// The kind of a device profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// A device.
    Device,
}

impl DeviceFile {
    fn check(&self, path: &Path) -> Result<(), ProfileError> {
        self.costs().check(1, 4096).map_err(|e| ProfileError::of_key(path, "", e.to_string()))
    }

    /// Returns whether the gaps after reads in a host's profile apply to the card.
    pub fn has_read_gaps(&self) -> bool {
        self.read_gaps.as_ref().is_none_or(|figure| figure.value)
    }

    /// Returns the time of the wire that each line of the card's writes takes from the completions to it.
    pub fn write_line_gap(&self) -> Duration {
        ps(&self.write_line_gap_ps)
    }

    /// Returns the figures in the form that the card uses.
    pub fn costs(&self) -> CardCosts {
        CardCosts {
            loop_time: ps(&self.loop_ps),
            loop_spread: ps(&self.loop_spread_ps),
            loop_written_byte: ps(&self.loop_written_byte_ps),
            dma_issue: ps(&self.dma_issue_ps),
            dma_done: ps(&self.dma_done_ps),
            command_chunk: ps(&self.command_chunk_ps),
            command_issue: ps(&self.command_issue_ps),
            command_done: ps(&self.command_done_ps),
            command_word: ps(&self.command_word_ps),
            clock: CardClock { mhz: number(&self.clock_mhz), tick_cycles: number(&self.clock_tick_cycles) },
            write: WriteCosts {
                pull: ps(&self.pull_ps),
                pull_burst: ps(&self.pull_burst_ps),
                burst_bytes: number(&self.burst_bytes),
                boundary_bytes: number(&self.write_boundary_bytes),
                full_bytes: number(&self.write_full_bytes),
                beat: ps(&self.frame_beat_ps),
                beat_bytes: number(&self.frame_beat_bytes),
                chunk_bytes: number(&self.frame_chunk_bytes),
                chunk_beats: number(&self.frame_chunk_beats),
            },
            read: ReadCosts {
                frame: ps(&self.frame_read_ps),
                slots: number(&self.read_slots),
                request_bytes: number(&self.read_request_bytes),
                push: ps(&self.push_ps),
                push_burst: ps(&self.push_burst_ps),
                ragged_end: ps(&self.push_ragged_end_ps),
                ragged_line: ps(&self.push_ragged_line_ps),
                ragged_request: ps(&self.push_ragged_request_ps),
                buffer_bytes: number(&self.push_buffer_bytes),
                buffer_release: ps(&self.push_buffer_release_ps),
            },
        }
    }
}

fn ps(figure: &Option<Figure<Picoseconds>>) -> Duration {
    Duration::from_ps(figure.as_ref().map_or(0, |f| f.value.0))
}

fn number<T: Copy + Default>(figure: &Option<Figure<T>>) -> T {
    figure.as_ref().map_or(T::default(), |f| f.value)
}

/// Reads the device profile `name`: one that ships with riser, or a file in `folder`.
///
/// # Errors
/// If there is no such profile, or it is invalid.
pub fn card(name: &str, folder: &Folder) -> Result<DeviceFile, ProfileError> {
    CARDS.read(name, folder, DeviceFile::check)
}
