// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fitted figures of a server, and the rows of a benchmark that show each. There are ten: one for each effect on a
//! latency row, and one for bandwidths, if these were measured.

use crate::configurations::Iommu;
use crate::experiments::{Cache, Key, Test};
use crate::suite::Machine;

/// A fitted figure of a host profile.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Parameter {
    /// Latency of the root complex, one way.
    RootComplex,
    /// Time that a read of a line takes longer if a core wrote it last.
    CoreSnoop,
    /// Latency of memory after a cache miss.
    Dram,
    /// Time until a write is visible.
    Write,
    /// Latency of a page walk of the IOMMU.
    PageWalk,
    /// Time until a write that evicts another line is visible.
    Eviction,
    /// Latency of a line in the cache of the other socket.
    RemoteSnoop,
    /// Latency of memory of the other socket.
    RemoteMemory,
    /// Time until a write that evicts a line of the other socket's memory is visible.
    RemoteEviction,
    /// Time that the wire is idle after a read of up to two lines.
    ShortGap,
}

/// Cold windows up to this size still hold lines that the device wrote in an earlier experiment.
const TRACES_BYTES: u64 = 16 << 10;
/// Windows up to this size fit into every cache's share for device writes, and into every IOTLB.
const SMALL_BYTES: u64 = 256 << 10;
/// Windows from this size on exceed every such share.
const LARGE_BYTES: u64 = 16 << 20;

impl Parameter {
    /// All figures, in the order of the fit. If the earlier figures are known, some rows depend on the next one alone.
    pub const ALL: [Parameter; 10] = [
        Parameter::RootComplex,
        Parameter::CoreSnoop,
        Parameter::Dram,
        Parameter::Write,
        Parameter::PageWalk,
        Parameter::Eviction,
        Parameter::RemoteSnoop,
        Parameter::RemoteMemory,
        Parameter::RemoteEviction,
        Parameter::ShortGap,
    ];

    /// Returns the place of its value in a profile: table (or none) and key.
    #[must_use]
    pub const fn place(self) -> (Option<&'static str>, &'static str) {
        match self {
            Parameter::RootComplex => (None, "root_complex_latency_ps"),
            Parameter::CoreSnoop => (Some("llc"), "core_snoop_latency_ps"),
            Parameter::Dram => (Some("dram"), "latency_ps"),
            Parameter::Write => (None, "memory_write_latency_ps"),
            Parameter::PageWalk => (Some("iommu"), "page_walk_latency_ps"),
            Parameter::Eviction => (Some("llc"), "eviction_latency_ps"),
            Parameter::RemoteSnoop => (Some("numa"), "remote_snoop_latency_ps"),
            Parameter::RemoteMemory => (Some("numa"), "remote_memory_latency_ps"),
            Parameter::RemoteEviction => (Some("numa"), "remote_eviction_latency_ps"),
            Parameter::ShortGap => (Some("completions"), "short_gap_ps"),
        }
    }

    /// Returns its name in messages: `TABLE.KEY`, or the key alone.
    #[must_use]
    pub fn name(self) -> String {
        match self.place() {
            (Some(table), key) => format!("{table}.{key}"),
            (None, key) => key.into(),
        }
    }

    /// Returns true if bandwidths determine the figure. Latencies determine all others.
    #[must_use]
    pub const fn is_of_bandwidth(self) -> bool {
        matches!(self, Parameter::ShortGap)
    }

    /// Returns the largest valid value in picoseconds.
    pub(super) const fn most_ps(self) -> u64 {
        match self {
            Parameter::ShortGap => 20_000,
            // One second.
            _ => 1_000_000_000_000,
        }
    }

    /// Returns by how many nanoseconds a transfer of the row grows for each nanosecond of the figure.
    #[must_use]
    pub(super) const fn gain(self) -> f64 {
        match self {
            // Once in each direction.
            Parameter::RootComplex => 2.0,
            _ => 1.0,
        }
    }

    /// Returns the figures that also affect these rows. If these are known, its rows depend on the figure alone.
    pub(super) const fn needs(self) -> &'static [Parameter] {
        match self {
            Parameter::RootComplex | Parameter::ShortGap => &[],
            Parameter::CoreSnoop | Parameter::Dram | Parameter::Write | Parameter::RemoteSnoop => {
                &[Parameter::RootComplex]
            }
            Parameter::PageWalk | Parameter::RemoteMemory => &[Parameter::RootComplex, Parameter::Dram],
            Parameter::Eviction | Parameter::RemoteEviction => &[Parameter::RootComplex, Parameter::Write],
        }
    }

    /// Returns figures whose rows can be used if no row depends on this figure alone. These figures keep their value,
    /// which is a small part of the latency.
    pub(super) const fn stand_ins(self) -> &'static [Parameter] {
        match self {
            Parameter::RootComplex => &[Parameter::CoreSnoop, Parameter::Dram],
            _ => &[],
        }
    }

    /// Returns a description of the rows that determine the figure.
    #[must_use]
    pub const fn shown_by(self) -> &'static str {
        match self {
            Parameter::RootComplex => "reads of lines that the device wrote, windows up to 256 KiB",
            Parameter::CoreSnoop => "reads of host-warmed windows up to 256 KiB",
            Parameter::Dram => "reads of cold windows above 16 KiB, up to 256 KiB",
            Parameter::Write => "LAT_CMD_WRRD, windows up to 256 KiB",
            Parameter::PageWalk => "reads of cold windows from 16 MiB on, 4 KiB pages",
            Parameter::Eviction => "LAT_CMD_WRRD of 64 B, cold windows from 16 MiB on",
            Parameter::RemoteSnoop => {
                "reads of local memory that the other socket has warmed, windows up to 256 KiB"
            }
            Parameter::RemoteMemory => "reads of the other socket's memory, cold windows from 16 MiB on",
            Parameter::RemoteEviction => {
                "LAT_DMA_WRRD of the other socket's memory, cold windows from 16 MiB on"
            }
            Parameter::ShortGap => {
                "BW_DMA_RD of 128 B, host-warmed, windows up to 256 KiB, with one completion each"
            }
        }
    }

    /// Returns a full description of the rows that the fit needs, and a command that measures such rows.
    pub(super) fn needs_rows(self) -> String {
        let size = if self.is_of_bandwidth() { "" } else { " of at most 64 B" };
        let command = match self {
            Parameter::RootComplex => "riser bench --suite LAT_RD --size 64 --cache device-warm",
            Parameter::CoreSnoop => "riser bench --suite LAT_RD --size 64 --cache host-warm",
            Parameter::Dram => "riser bench --suite LAT_RD --size 64 --cache cold --window 65536",
            Parameter::PageWalk => {
                "riser bench --suite LAT_RD --size 64 --cache cold --window 67108864 --iommu 4k"
            }
            Parameter::ShortGap => "riser bench --suite BW_RD --size 128 --cache host-warm",
            _ => "riser bench --format pcie-bench; no other form has such rows",
        };
        format!("{}; transfers{size} at offset 0 ({command})", self.shown_by())
    }

    /// Returns true if a row depends on the figure.
    pub(super) fn shows(self, machine: &Machine, key: &Key) -> bool {
        let sockets = machine.sockets;
        let (far_memory, far_program) = (sockets.memory != sockets.device, sockets.program != sockets.device);
        let aligned = key.host_offset_bytes == 0 && key.device_offset_bytes == 0;
        let plain = aligned && (key.size_bytes <= 64 || self.is_of_bandwidth());
        let small = (4096..=SMALL_BYTES).contains(&key.window_bytes);
        let large = key.window_bytes >= LARGE_BYTES;
        let read = matches!(key.test, Test::LatCmdRd | Test::LatDmaRd);
        let cold = key.cache == Cache::Cold;
        let streams = key.test == Test::BwDmaRd && small && key.cache == Cache::HostWarm;
        let in_4k = machine.iommu == Iommu::Pages4k;
        plain
            && match self {
                Parameter::RootComplex => read && small && key.cache == Cache::DeviceWarm,
                Parameter::CoreSnoop => read && small && key.cache == Cache::HostWarm && !far_program,
                Parameter::Dram => read && small && key.window_bytes > TRACES_BYTES && cold && !far_memory,
                Parameter::Write => key.test == Test::LatCmdWrRd && small,
                Parameter::PageWalk => read && large && cold && in_4k && !far_memory,
                Parameter::Eviction => {
                    key.test == Test::LatCmdWrRd
                        && large
                        && cold
                        && key.size_bytes == 64
                        && !in_4k
                        && !far_memory
                }
                Parameter::RemoteSnoop => {
                    read && small && key.cache == Cache::HostWarm && far_program && !far_memory
                }
                Parameter::RemoteMemory => read && large && cold && far_memory && !in_4k,
                Parameter::RemoteEviction => {
                    key.test == Test::LatDmaWrRd && large && cold && far_memory && !in_4k
                }
                Parameter::ShortGap => streams && key.size_bytes == 128,
            }
    }
}
