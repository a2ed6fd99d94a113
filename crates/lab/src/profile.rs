// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Profiles of hosts: their latencies and rates, each figure with its source.

mod basis;
pub(crate) mod extrapolation;
mod host;
mod host_parts;

pub(crate) use host::host_in;

pub use basis::{Aspect, HostBasis};
pub use host::{HostFile, HostKind, host, host_link};
pub use host_parts::{
    BanksTable, CompletionsTable, DramTable, IommuTable, LatencyRow, LlcTable, NumaTable, PageWalkCacheTable,
    PowerTable,
};

pub use plug::profile::{Basis, Figure, Shelf, Shipped};

/// A shipped profile.
macro_rules! ships {
    ($name:literal) => {
        Shipped { name: $name, text: include_str!(concat!("../profiles/hosts/", $name, ".toml")) }
    };
}

/// The shipped hosts.
pub const HOSTS: Shelf = Shelf {
    kind: "host",
    extrapolated: "latencies, service times, and the splitting and spacing of completions",
    all: &[
        ships!("ideal"),
        ships!("xeon-e5-2637v3"),
        ships!("xeon-e5-2630v4"),
        ships!("xeon-e5-2620v3"),
        ships!("xeon-e5-2620v2"),
        ships!("xeon-e5-2630"),
        ships!("xeon-e3-1226v3"),
        ships!("xeon-gold-6342"),
        ships!("xeon-platinum-8480"),
        ships!("gem5"),
        ships!("chipyard"),
    ],
    replaced: &[
        ("completions.gap_ps", "completions.beat_bytes, expected a power of two from 4 to 64"),
        (
            "completions.request_gap_ps",
            "completions.short_gap_ps, middle_gap_ps and long_gap_ps, expected 0 to 20000",
        ),
        ("completions.first_line_alone", "completions.first_line_alone_bytes, expected 0 to 4096"),
        ("iommu.walkers", "iommu.miss_service_ps, the time between two page walks, expected 0 to 10000000"),
        (
            "dram.sleep",
            "power, states of the root complex, and command_chunk_ps of the device profile, expected 0 to 10000000",
        ),
    ],
};
