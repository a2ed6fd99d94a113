// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a benchmark is to do, and what makes that impossible.

use super::costs::{CardCosts, ChannelCosts};
use super::units::MAX_TABLE;
use plug::transfers::{CacheState, Pattern, Test, Transfers};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Which of its interfaces to PCI Express the card uses (SIGCOMM'18, §5.1). On a card that costs nothing they are the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CardPath {
    /// Single commands, of up to 128 bytes. LAT_WRRD reads right behind the write.
    Command,
    /// A DMA engine with descriptors. LAT_WRRD reads when the write is said to be done.
    Dma,
}

/// What the device does when it is started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The test.
    pub test: Test,
    /// Bytes of a transfer, 1 to 4096.
    pub size_bytes: u32,
    /// Bytes of host memory that the transfers go to: at least one unit, at most [`MAX_WINDOW_BYTES`].
    pub window_bytes: u64,
    /// Offset of a transfer from a cache line, 0 to 63.
    pub host_offset_bytes: u32,
    /// Offset of a transfer from a cache line in the card's memory, 0 to 63.
    pub device_offset_bytes: u32,
    /// The interface that is used.
    pub path: CardPath,
    /// What the caches hold at the start.
    pub cache: CacheState,
    /// The order of the units.
    pub pattern: Pattern,
    /// Transfers under way at most in bandwidth tests, 1 to [`MAX_OUTSTANDING`]: the card's workers. Latency tests have
    /// one.
    pub outstanding: u16,
    /// Transfers that count; of a latency test at most [`MAX_LATENCIES`].
    pub transfers: u64,
    /// Transfers before them that do not count.
    pub warm_up: u64,
    /// Transfers before all of these that the host's caches have seen, as they are at the start; at most [`MAX_TABLE`].
    pub seen: u64,
    /// Whether bytes are carried, or only counted.
    pub carry: bool,
    /// Max_Payload_Size that the firmware will set, by which the card cuts writes.
    pub max_payload_bytes: u32,
    /// Max_Read_Request_Size that the firmware will set: no read request of the card is longer.
    pub max_read_request_bytes: u32,
    /// What the card costs beside the wire.
    pub costs: CardCosts,
    /// Seed of random units.
    pub seed: u64,
}

impl Default for Settings {
    /// 64 B reads of an 8 KiB window at random, 32 under way, on a card that costs nothing.
    fn default() -> Settings {
        Settings {
            test: Test::BwRd,
            size_bytes: 64,
            window_bytes: 8192,
            host_offset_bytes: 0,
            device_offset_bytes: 0,
            path: CardPath::Dma,
            cache: CacheState::HostWarm,
            pattern: Pattern::Random,
            outstanding: 32,
            transfers: 10_000,
            warm_up: 100,
            seen: 0,
            carry: false,
            max_payload_bytes: 256,
            max_read_request_bytes: 512,
            costs: CardCosts::default(),
            seed: 1,
        }
    }
}

/// The largest window in bytes, 256 GiB.
pub const MAX_WINDOW_BYTES: u64 = 1 << 38;
/// The most transfers under way.
pub const MAX_OUTSTANDING: u16 = 1024;
/// The most latencies that are kept: eight bytes each.
pub const MAX_LATENCIES: u64 = 1 << 24;

/// Bytes of the longest transfer by the command interface (SIGCOMM'18, §5.1).
pub const MAX_COMMAND_BYTES: u32 = 128;
/// Bytes of the buffer that holds the window on the measured hosts.
pub const BUFFER_BYTES: u64 = 64 << 20;

/// Why there is no such benchmark.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SettingsError {
    /// Transfer size and host offset.
    #[error(
        "transfers of {0} bytes at host offset {1}: legal are sizes from 1 and offsets 0 to 63, together at most 4096"
    )]
    Size(u32, u32),
    /// Window, and the unit that it must hold.
    #[error("window of {0} bytes: legal are {1} (one unit) to {MAX_WINDOW_BYTES}")]
    Window(u64, u64),
    /// Transfers under way.
    #[error("{0} transfers under way: legal are 1 to {MAX_OUTSTANDING}")]
    Outstanding(u16),
    /// Transfers.
    #[error("{0} transfers: legal are 1 to {MAX_LATENCIES} in a latency test, from 1 in a bandwidth test")]
    Transfers(u64),
    /// Transfers that the caches have seen.
    #[error("{0} transfers that the caches have seen: legal are 0 to {MAX_TABLE}")]
    Seen(u64),
    /// Offset in the card's memory.
    #[error("device offset of {0} bytes: legal are 0 to 63")]
    DeviceOffset(u32),
    /// A transfer by the command interface.
    #[error("transfers of {0} bytes by the command interface: legal are 1 to {MAX_COMMAND_BYTES}")]
    Command(u32),
    /// A size among the costs of the card.
    #[error(
        "a figure of {0} bytes among the costs of the card: legal are 0 and powers of two, of requests from 512, of others from 64, to 4096"
    )]
    Figure(u32),
    /// Slots for read requests, size, and requests that it needs.
    #[error("{0} slots for read requests: a transfer of {1} bytes needs {2}")]
    Slots(u16, u32, u32),
    /// Channels that writes and reads share.
    #[error("{0} channels: legal are 0 to {most}", most = ChannelCosts::MOST)]
    Channels(u8),
    /// The configuration space.
    #[error(transparent)]
    Config(#[from] config::BuildError),
}

impl Settings {
    /// Bytes from one unit to the next: offset and size, rounded up to a cache line (SIGCOMM'18, §4).
    pub const fn unit_bytes(&self) -> u64 {
        (self.size_bytes as u64 + self.host_offset_bytes as u64).next_multiple_of(64)
    }

    /// Workers that the test has.
    pub const fn workers(&self) -> u16 {
        if self.test.is_latency() { 1 } else { self.outstanding }
    }

    /// Whether transfer number `n` writes, and whether it reads.
    pub(super) fn nth(&self, n: u64) -> (bool, bool) {
        match self.test {
            Test::LatRd | Test::BwRd => (false, true),
            Test::BwWr => (true, false),
            Test::LatWrRd => (true, true),
            Test::BwRdWr => (!n.is_multiple_of(2), n.is_multiple_of(2)),
        }
    }

    /// What it will measure, before it was started.
    pub fn results(&self) -> Transfers {
        Transfers::of(self.test, self.warm_up, self.transfers)
    }

    /// # Errors
    /// The first setting that is not legal.
    pub fn check(&self) -> Result<(), SettingsError> {
        let (size, offset) = (self.size_bytes, self.host_offset_bytes);
        if size == 0 || offset > 63 || size.saturating_add(offset) > 4096 {
            return Err(SettingsError::Size(size, offset));
        }
        if self.window_bytes < self.unit_bytes() || self.window_bytes > MAX_WINDOW_BYTES {
            return Err(SettingsError::Window(self.window_bytes, self.unit_bytes()));
        }
        if self.outstanding == 0 || self.outstanding > MAX_OUTSTANDING {
            return Err(SettingsError::Outstanding(self.outstanding));
        }
        if self.transfers == 0 || self.test.is_latency() && self.transfers > MAX_LATENCIES {
            return Err(SettingsError::Transfers(self.transfers));
        }
        if self.seen > MAX_TABLE {
            return Err(SettingsError::Seen(self.seen));
        }
        if self.device_offset_bytes > 63 {
            return Err(SettingsError::DeviceOffset(self.device_offset_bytes));
        }
        if self.path == CardPath::Command && size > MAX_COMMAND_BYTES {
            return Err(SettingsError::Command(size));
        }
        self.costs.check(size, self.max_read_request_bytes)
    }
}
