// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The papers' figures, from the files in `data/papers`: each number as printed, with its place in the paper.

use super::PaperError;
use serde::Deserialize;

/// A figure and its place in the paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Figure {
    pub(super) value: f64,
    pub(super) source: String,
}

/// Figures of IISWC'18, gem5's PCI Express model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Gem5 {
    pub(super) mmio: Mmio,
    pub(super) disk: Disk,
    pub(super) width: Width,
    pub(super) replay_buffer: Timeouts,
    pub(super) port_buffer: PortBuffer,
}

/// Table II.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mmio {
    pub(super) source: String,
    pub(super) root_complex_latency_ns: Vec<u32>,
    pub(super) latency_ns: Vec<f64>,
}

/// Throughput of the disk at x1, and results of `dd`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Disk {
    pub(super) error_percent: Figure,
    pub(super) physical_gbps: Figure,
    /// Lowest and highest share of the SSD's throughput.
    pub(super) of_physical_percent: [f64; 2],
    pub(super) x1_sector_gbps: Figure,
    pub(super) switch_latency_gain_percent: Figure,
    pub(super) switch_latency_gain_mbps: Figure,
    pub(super) x2_over_x1: Figure,
}

/// Replays by link width.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Width {
    pub(super) source: String,
    pub(super) lanes: Vec<u8>,
    pub(super) replay_percent: Vec<f64>,
}

/// Timeouts by buffer size.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Timeouts {
    pub(super) source: String,
    pub(super) tlps: Vec<u16>,
    pub(super) timeout_percent: Vec<f64>,
}

/// Timeouts and throughput by buffer size of the ports.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PortBuffer {
    pub(super) source: String,
    pub(super) tlps: Vec<u16>,
    pub(super) timeout_percent: Vec<f64>,
    pub(super) saturated_gbps: Figure,
}

/// Figures of the Chipyard study.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Chipyard {
    pub(super) latency: Latency,
    pub(super) bandwidth: Bandwidth,
    pub(super) nic: Nic,
    pub(super) resources: ResourceTable,
}

/// Table 2.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResourceTable {
    pub(super) source: String,
    pub(super) cells: Resources,
}

/// Cells of an FPGA.
#[derive(Clone, Copy, Default, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Resources {
    pub(super) logic_luts: f64,
    pub(super) memory_luts: f64,
    pub(super) flip_flops: f64,
    pub(super) block_rams: f64,
}

impl Resources {
    /// Returns the LUTs of logic and memories.
    pub(super) fn luts(&self) -> f64 {
        self.logic_luts + self.memory_luts
    }
}

impl std::ops::AddAssign for Resources {
    fn add_assign(&mut self, more: Resources) {
        self.logic_luts += more.logic_luts;
        self.memory_luts += more.memory_luts;
        self.flip_flops += more.flip_flops;
        self.block_rams += more.block_rams;
    }
}

/// Read latency at Gen3 x8.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Latency {
    pub(super) source: String,
    pub(super) payload_bytes: Vec<u32>,
    pub(super) study_ns: Vec<f64>,
    pub(super) measured_ns: Vec<f64>,
}

/// Bandwidth at Gen3 x16.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bandwidth {
    pub(super) source: String,
    pub(super) lanes_factor: f64,
}

/// Figures of the study's NIC.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nic {
    pub(super) waiting_percent: Figure,
    pub(super) physical_latency_cycles: Figure,
}

/// Figures of ReConFig'15, the SR-IOV DMA engine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DmaEngine {
    pub(super) d2h: D2h,
    pub(super) h2d: H2d,
}

/// Figure 6.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct D2h {
    pub(super) native_gbps: Figure,
    pub(super) vf_of_native_percent: Figure,
    pub(super) good_above_bytes: Figure,
    pub(super) wire_gbps: Figure,
}

/// Figure 7.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct H2d {
    pub(super) native_gbps: Figure,
    pub(super) vf_gbps: Figure,
    pub(super) vf_of_native_percent: Figure,
}

/// Figures of newer machines.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Newer {
    pub(super) one_way_gbytes: Figure,
    pub(super) both_ways_gbytes: Figure,
    pub(super) uplink_gbytes: Figure,
    pub(super) behind_switch_gbytes: Figure,
    pub(super) redirected_gbytes: Figure,
    pub(super) switch_ns: Figure,
    pub(super) lines_in_flight: Figure,
    pub(super) line_ns: Figure,
}

/// Figures of SIGCOMM'18, pcie-bench.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PcieBench {
    pub(super) nics: Nics,
    pub(super) round_trip: RoundTrip,
}

/// Figure 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nics {
    pub(super) source: String,
    pub(super) simple_line_rate_above_bytes: u32,
}

/// Figure 2.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RoundTrip {
    pub(super) source: String,
    pub(super) bytes: u32,
    pub(super) total_ns: f64,
    pub(super) pcie_ns: f64,
    pub(super) large_bytes: u32,
    pub(super) large_pcie_percent: f64,
}

fn parse<T: for<'de> Deserialize<'de>>(name: &str, text: &str) -> Result<T, PaperError> {
    toml::from_str(text).map_err(|e| PaperError::Lab(format!("data/papers/{name}: {e}")))
}

/// Returns the figures of newer machines.
pub(super) fn newer() -> Result<Newer, PaperError> {
    parse("newer.toml", include_str!("../../data/papers/newer.toml"))
}

/// Returns the figures of IISWC'18.
pub(super) fn gem5() -> Result<Gem5, PaperError> {
    parse("gem5.toml", include_str!("../../data/papers/gem5.toml"))
}

/// Returns the figures of the Chipyard study.
pub(super) fn chipyard() -> Result<Chipyard, PaperError> {
    parse("chipyard.toml", include_str!("../../data/papers/chipyard.toml"))
}

/// Returns the figures of ReConFig'15.
pub(super) fn dma_engine() -> Result<DmaEngine, PaperError> {
    parse("dma-engine.toml", include_str!("../../data/papers/dma-engine.toml"))
}

/// Returns the figures of SIGCOMM'18.
pub(super) fn pcie_bench() -> Result<PcieBench, PaperError> {
    parse("pcie-bench.toml", include_str!("../../data/papers/pcie-bench.toml"))
}
