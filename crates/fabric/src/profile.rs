// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The costs of a host: latencies and service times of its root complex and memory.

mod parts;

pub(crate) use parts::{CUT_AFTER_WRITE_BYTES, ReadPart, ReadShape, WriteLoad};
pub use parts::{
    CompletionProfile, DramBanks, DramProfile, HostSettings, IommuProfile, LlcProfile, NumaProfile, PageSize,
    PageWalkCache, PowerProfile, RefreshProfile, Replacement, RequestGaps, RetrainingProfile, SerialWalks,
    WeightedLatency,
};

use host::firmware::EcrcPolicy;
use link::TLP_FRAMING_BYTES;
use tlp::{Duration, Rcb};

/// The timing of a host. Costs are of two kinds. Latencies of several requests overlap; during a service time only one
/// request is served.
#[derive(Clone, Debug)]
pub struct HostProfile {
    /// Name of the profile.
    pub name: String,
    /// Time from the last symbol of a request to the memory system, and again from the memory system to the transmit
    /// queue. It also applies between CPU and root port, each way.
    pub root_complex_latency: Duration,
    /// From the memory system's acceptance of a read to its data.
    pub memory_read_latency: Duration,
    /// From the memory system's acceptance of a write until a later read may be served.
    pub memory_write_latency: Duration,
    /// Service time of a read request.
    pub read_request_service: Duration,
    /// Service time of each 64 B line that a read touches.
    pub read_line_service: Duration,
    /// Service time of a write request.
    pub write_request_service: Duration,
    /// Service time of each 64 B line that a write touches.
    pub write_line_service: Duration,
    /// Time from the arrival of an interrupt message until the waiting program gets it.
    pub interrupt_latency: Duration,
    /// How long the host waits for a completion (`PCIe 5.0 §2.8`), unless Device Control 2 of a root port has another value.
    pub completion_timeout: Duration,
    /// Read Completion Boundary, at which completions may be cut.
    pub rcb: Rcb,
    /// Maximum number of reads of one Traffic Class that a root port has outstanding in the memory system. Further ones
    /// wait in the receive buffer and hold their credits. Each Traffic Class has this number, so that no class waits
    /// for another.
    pub max_reads_per_port: u32,
    /// Maximum number of non-posted requests of the host that are outstanding at one root port: 5-bit tags give 32, 8-bit tags
    /// 256.
    pub max_host_requests_per_port: u16,
    /// The last-level cache; `None`: every line costs the same.
    pub llc: Option<LlcProfile>,
    /// Memory below the cache.
    pub dram: Option<DramProfile>,
    /// The other socket; `None`: there is only one.
    pub numa: Option<NumaProfile>,
    /// The IOMMU; [`HostSettings::iommu`] turns it on.
    pub iommu: Option<IommuProfile>,
    /// How read completions are sent.
    pub completions: CompletionProfile,
    /// Additional latencies of some reads; their parts sum to at most a billion.
    pub noise: Vec<WeightedLatency>,
    /// Power states of the root complex.
    pub power: Vec<PowerProfile>,
    /// Retraining of the link under load.
    pub retraining: Option<RetrainingProfile>,
    /// Functions whose TLPs have an ECRC: what its firmware sets.
    pub ecrc: EcrcPolicy,
    /// Choices of the lab.
    pub settings: HostSettings,
}

impl HostProfile {
    /// A host without service times or latencies: only the wire costs time.
    pub fn ideal() -> HostProfile {
        HostProfile {
            name: "ideal".into(),
            root_complex_latency: Duration::ZERO,
            memory_read_latency: Duration::ZERO,
            memory_write_latency: Duration::ZERO,
            read_request_service: Duration::ZERO,
            read_line_service: Duration::ZERO,
            write_request_service: Duration::ZERO,
            write_line_service: Duration::ZERO,
            interrupt_latency: Duration::ZERO,
            completion_timeout: Duration::from_ms(10),
            rcb: Rcb::default(),
            max_reads_per_port: 1024,
            max_host_requests_per_port: 32,
            llc: None,
            dram: None,
            numa: None,
            iommu: None,
            completions: CompletionProfile::default(),
            noise: Vec::new(),
            power: Vec::new(),
            retraining: None,
            ecrc: EcrcPolicy::default(),
            settings: HostSettings::default(),
        }
    }

    /// Returns whether some latencies are drawn by chance.
    pub fn has_rare_latencies(&self) -> bool {
        let refresh = self.dram.as_ref().is_some_and(|dram| dram.refresh.is_some());
        let stalls = self.iommu.as_ref().is_some_and(|iommu| !iommu.stalls.is_empty());
        let snoops = self.llc.as_ref().is_some_and(|llc| !llc.snoop_waits.is_empty());
        refresh || stalls || snoops || !self.noise.is_empty() || !self.power.is_empty()
    }

    pub(crate) fn read_service(&self, address: u64, len: u32) -> Duration {
        self.read_request_service + self.read_line_service * lines(address, len)
    }

    /// Returns how much of a read's service overlaps with sending its first completions: the service of the lines after
    /// the first [`LONG_READ_LINES`]. The link takes `line_time` for a line of data. Completions wait for those lines,
    /// so a completion is never sent before its data is available. LAT_DMA_RD shows this on a host with a
    /// Max_Read_Request_Size of 4096 (Broadwell, lat_dma_sizes.csv): 178 ns more for 512 B than for 64 B, and as
    /// everywhere 167 to 176 ns more, little beyond the wire's time, for each further 512 B.
    pub(crate) fn hidden_service(&self, address: u64, len: u32, line_time: Duration) -> Duration {
        self.read_line_service.min(line_time) * lines(address, len).saturating_sub(LONG_READ_LINES)
    }

    pub(crate) fn write_service(&self, address: u64, len: u32) -> Duration {
        self.write_request_service + self.write_line_service * lines(address, len)
    }
}

/// Bytes of a cache line.
pub(crate) const LINE_BYTES: u64 = 64;

/// Bytes of a completion on the wire in addition to its data: header of three DW, framing and LCRC (`PCIe 5.0 §2.2.9,
/// §4.2.2.2`).
pub(crate) const COMPLETION_OVERHEAD_BYTES: u32 = 12 + TLP_FRAMING_BYTES;

/// Minimum number of lines of a long read: as many as 512 B hold, the Max_Read_Request_Size of most measured hosts.
pub(crate) const LONG_READ_LINES: u64 = 8;

/// Returns the number of 64 B lines touched by `len` bytes from `address` on.
pub(crate) const fn lines(address: u64, len: u32) -> u64 {
    ((address & 63) + len as u64).div_ceil(64)
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn offset_access_touches_one_more_line() {
        assert_eq!([lines(0, 64), lines(1, 64), lines(63, 1), lines(63, 2), lines(0, 65)], [1, 2, 1, 2, 2]);
    }
}
