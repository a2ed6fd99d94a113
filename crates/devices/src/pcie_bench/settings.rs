// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of a benchmark, and their errors.

use super::costs::{CardCosts, ReadCosts, WriteCosts};
use plug::transfers::{CacheState, Pattern, Test, Transfers};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Interface of the card to PCI Express (SIGCOMM'18, §5.1). Without costs, both are the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CardPath {
    /// Single commands of up to 128 bytes. LAT_WRRD reads directly after the write.
    Command,
    /// A DMA engine with descriptors. LAT_WRRD reads after the notice of the write's end.
    Dma,
}

/// Entries of the card's table of random units.
pub const MAX_TABLE: u64 = 1 << 20;

/// Settings of the device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BenchSettings {
    /// The test.
    pub test: Test,
    /// Size of a transfer in bytes, 1 to 4096.
    pub size_bytes: u32,
    /// Size of the window in host memory in bytes: at least one unit, at most [`MAX_WINDOW_BYTES`].
    pub window_bytes: u64,
    /// Offset of a transfer from a cache line, 0 to 63.
    pub host_offset_bytes: u32,
    /// Offset of a transfer from a cache line in the card's memory, 0 to 63.
    pub device_offset_bytes: u32,
    /// Interface of the card.
    pub path: CardPath,
    /// State of the caches at the start.
    pub cache: CacheState,
    /// Order of the units.
    pub pattern: Pattern,
    /// Maximum number of transfers in flight in bandwidth tests, 1 to [`MAX_OUTSTANDING`]: the card's workers. Latency
    /// tests have one.
    pub outstanding: u16,
    /// Measured transfers; at most [`MAX_LATENCIES`] for a latency test.
    pub transfers: u64,
    /// Transfers before the measured ones.
    pub warm_up: u64,
    /// Number of transfers before all of these that the host's caches have processed at the start; at most
    /// [`MAX_TABLE`].
    pub seen: u64,
    /// Whether TLPs carry their bytes, or the bytes are only counted.
    pub carry: bool,
    /// Max_Payload_Size that the firmware will set, by which the card splits writes.
    pub max_payload_bytes: u32,
    /// Max_Read_Request_Size that the firmware will set, the maximum size of the card's read requests.
    pub max_read_request_bytes: u32,
    /// Whether the card's TLPs have a digest, which its framer adds.
    pub digests: bool,
    /// Costs of the card in addition to the wire.
    pub costs: CardCosts,
    /// Seed of random units.
    pub seed: u64,
}

impl Default for BenchSettings {
    /// Random 64 B reads in a window of 8 KiB, 32 in flight, on a card without costs.
    fn default() -> BenchSettings {
        BenchSettings {
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
            digests: false,
            costs: CardCosts::default(),
            seed: 1,
        }
    }
}

/// The largest window in bytes, 256 GiB.
pub const MAX_WINDOW_BYTES: u64 = 1 << 38;
/// Maximum number of transfers in flight.
pub const MAX_OUTSTANDING: u16 = 1024;
/// Maximum number of latencies to keep: eight bytes each.
pub const MAX_LATENCIES: u64 = 1 << 24;

/// Maximum size of a transfer by the command interface in bytes (SIGCOMM'18, §5.1).
pub const MAX_COMMAND_BYTES: u32 = 128;
/// Size in bytes of the buffer that contains the window on the measured hosts.
pub const BUFFER_BYTES: u64 = 64 << 20;

/// Error in the settings of a benchmark.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SettingsError {
    /// Transfer size and host offset.
    #[error(
        "transfers of {0} bytes at host offset {1}, expected sizes from 1 and offsets 0 to 63, together at most 4096"
    )]
    Size(u32, u32),
    /// Window size, and the size of a unit.
    #[error("window of {0} bytes, expected {1} (one unit) to {MAX_WINDOW_BYTES}")]
    Window(u64, u64),
    /// Transfers in flight.
    #[error("{0} transfers in flight, expected 1 to {MAX_OUTSTANDING}")]
    Outstanding(u16),
    /// Number of transfers.
    #[error("{0} transfers, expected 1 to {MAX_LATENCIES} in a latency test, 1 or more in a bandwidth test")]
    Transfers(u64),
    /// Number of transfers that the caches have processed.
    #[error("{0} earlier transfers, from which the caches are filled, expected 0 to {MAX_TABLE}")]
    Seen(u64),
    /// Offset in the card's memory.
    #[error("device offset of {0} bytes, expected 0 to 63")]
    DeviceOffset(u32),
    /// A transfer by the command interface.
    #[error("transfers of {0} bytes by the command interface, expected 1 to {MAX_COMMAND_BYTES}")]
    Command(u32),
    /// A size among the costs of the card.
    #[error(
        "a figure of {0} bytes in the costs of the card, expected 0 or a power of two: 512 to 4096 for requests, 64 to 4096 for others"
    )]
    Figure(u32),
    /// Slots for read requests, transfer size, and number of requests that it needs.
    #[error("{0} slots for read requests: a transfer of {1} bytes needs {2}")]
    Slots(u16, u32, u32),
    /// The configuration space cannot be built.
    #[error(transparent)]
    Config(#[from] config::BuildError),
}

impl BenchSettings {
    /// Returns the distance between units: offset plus size, rounded up to a cache line (SIGCOMM'18, §4).
    pub const fn unit_bytes(&self) -> u64 {
        (self.size_bytes as u64 + self.host_offset_bytes as u64).next_multiple_of(64)
    }

    /// Returns the number of workers of the test.
    pub const fn workers(&self) -> u16 {
        if self.test.is_latency() { 1 } else { self.outstanding }
    }

    /// Returns whether transfer number `n` writes, and whether it reads.
    pub(super) fn nth(&self, n: u64) -> (bool, bool) {
        match self.test {
            Test::LatRd | Test::BwRd => (false, true),
            Test::BwWr => (true, false),
            // The card has no cable: it offers no loop.
            Test::LatWrRd | Test::LatLoop | Test::BwLoop => (true, true),
            Test::BwRdWr => (!n.is_multiple_of(2), n.is_multiple_of(2)),
        }
    }

    /// Returns the empty results of the test.
    pub fn results(&self) -> Transfers {
        Transfers::of(self.test, self.warm_up, self.transfers)
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// The first invalid setting.
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

impl CardCosts {
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
        // The worst case is a transfer that starts just before such a multiple.
        let requests = self.read.within(mrrs).requests(u64::MAX, size_bytes);
        if self.read.slots != 0 && requests > u32::from(self.read.slots) {
            return Err(SettingsError::Slots(self.read.slots, size_bytes, requests));
        }
        Ok(())
    }
}
