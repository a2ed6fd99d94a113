// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Experiments of published papers, repeated: each is a lab of `labs/papers` with varied settings. Results are compared with
//! the paper's own figures.
//!
//! - [`gem5`]: IISWC'18: register reads, and a disk with non-posted writes over links without credits;
//! - [`chipyard`]: Chipyard's PCIe study of 2022: read latency, bandwidth, and a NIC that waits for control;
//! - [`pcie_bench`]: SIGCOMM'18: the three NICs of Figure 1, the round trip of Figure 2, and transfers in flight;
//! - [`nettlp`]: NSDI'20: the cost of encapsulation, reads between devices, and rates and latencies of software on this machine;
//! - [`dma_engine`]: ReConFig'15: transfers of the DMA engine over their size;
//! - [`beyond`]: figures of newer machines, which none of the papers could have;
//! - [`nvme`]: without a paper: an NVMe controller over the depth of its queue;
//! - [`figures`] and [`published`]: the papers' figures, from `data/papers`, each with its place in the paper;
//! - [`setup`]: a lab with varied settings; [`table`]: the results; [`verdict`]: the comparison with the paper.
//!
//! If a paper's figure includes effects outside the interconnect, or does not follow from the paper's own mechanism,
//! the result notes it. This module does not print.

mod beyond;
mod chipyard;
mod dma_engine;
mod figures;
mod gem5;
mod make;
mod nettlp;
mod nvme;
mod page;
mod pcie_bench;
mod published;
mod report;
mod setup;
mod table;
mod verdict;

pub use verdict::{Compared, Kind, Limit, Outcome, Shape, Verdict};

pub use page::html_of_all;
pub use report::{ExperimentReport, summary};
pub use table::{Cell, Chart, Column, Line, Table};

use crate::BenchError;
use crate::basis;
use crate::jobs::for_each;
use crate::suite::Rule;
use serde::Serialize;
use std::convert::Infallible;
use std::time::Duration;

/// Amount of work in each experiment. The simulation has no noise: more work repeats the same pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Sectors that a disk reads.
    pub sectors: u32,
    /// Sizes in MiB of the blocks that `dd` reads in a guest.
    pub dd_mib: &'static [u32],
    /// Number of register reads.
    pub reads: u32,
    /// Frames of a NIC.
    pub frames: u32,
    /// Frames of a NIC whose rate is measured. Twice as many warm-up frames come before them, until the rings have settled.
    pub packets: u32,
    /// Sizes of these frames, in bytes.
    pub packet_sizes: &'static [u32],
    /// Sizes of a DMA engine's transfers, in bytes. 1 MiB must be among them.
    pub dma_sizes: &'static [u32],
    /// Transfers of a latency test.
    pub latency_transfers: u64,
    /// Transfers of a bandwidth test, and as many warm-up transfers before them.
    pub bandwidth_transfers: u64,
    /// When a row of pcie-bench's measurements ends.
    pub rule: Rule,
    /// Measurements on this machine.
    pub live: Live,
}

/// Amount of work in a measurement of software on this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Live {
    /// Number of rounds, each with every point of a figure. A point is its best round.
    pub rounds: u32,
    /// Duration of a point in each round.
    pub span: Duration,
    /// Reads of a latency test.
    pub reads: u64,
    /// Step of request sizes in bytes.
    pub step_bytes: u64,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort {
            sectors: 200,
            dd_mib: &[64, 128, 256, 512],
            reads: 20,
            frames: 64,
            packets: 1_920,
            packet_sizes: &pcie_bench::SIZES,
            dma_sizes: &[
                1 << 10,
                1 << 11,
                1 << 12,
                1 << 13,
                1 << 14,
                1 << 15,
                1 << 16,
                1 << 17,
                1 << 18,
                1 << 19,
                1 << 20,
                1 << 21,
                1 << 22,
            ],
            latency_transfers: 200,
            bandwidth_transfers: 4_000,
            rule: Rule::default(),
            live: Live { rounds: 4, span: Duration::from_millis(10), reads: 10_000, step_bytes: 32 },
        }
    }
}

impl Effort {
    /// Returns the smallest effort at which the effects are visible, for tests.
    pub const fn least() -> Effort {
        Effort {
            sectors: 20,
            dd_mib: &[16],
            reads: 2,
            frames: 16,
            packets: 960,
            packet_sizes: &[64, 512, 1520],
            dma_sizes: &[1 << 17, 1 << 18, 1 << 19, 1 << 20],
            latency_transfers: 8,
            bandwidth_transfers: 500,
            rule: Rule::least(),
            live: Live { rounds: 1, span: Duration::from_millis(1), reads: 50, step_bytes: 512 },
        }
    }
}

/// Reason why an experiment has no result.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PaperError {
    /// The lab cannot be built: an unknown key, or an invalid value.
    #[error("lab: {0}")]
    Lab(String),
    /// The run did not finish.
    #[error("run: {0}")]
    Run(String),
}

/// A figure or table of a paper.
#[derive(Serialize)]
pub struct Experiment {
    /// Name of the experiment.
    pub name: &'static str,
    /// Its subject, in one line.
    pub title: &'static str,
    /// Paper, and the place in it.
    pub source: &'static str,
    /// Host profiles of its labs.
    #[serde(skip)]
    pub hosts: &'static [&'static str],
    #[serde(skip)]
    run: FigureOrigin,
}

/// Origin of a figure.
enum FigureOrigin {
    /// A simulation.
    Here(fn(&Effort) -> Result<ExperimentReport, PaperError>),
    /// A measurement of software on this machine.
    Measured(fn(&Effort) -> Result<ExperimentReport, PaperError>),
    /// Other commands or tools, which the text names, with the paper's numbers.
    Elsewhere(&'static str),
}

impl Experiment {
    /// Runs the experiment. A figure that other commands or tools make has a report that says so.
    ///
    /// # Errors
    /// A lab that cannot be built or does not finish.
    pub fn run(&self, effort: &Effort) -> Result<ExperimentReport, PaperError> {
        let report = match self.run {
            FigureOrigin::Here(run) => run(effort)?,
            FigureOrigin::Measured(run) => ExperimentReport { is_measured_here: true, ..run(effort)? },
            FigureOrigin::Elsewhere(needs) => {
                let (verdict, notes) = (Verdict::not_run(), vec![needs.to_owned()]);
                return Ok(self.named(ExperimentReport { verdict, notes, ..ExperimentReport::default() }));
            }
        };
        let basis = self.hosts.iter().map(|host| basis::of_both_ways(host)).max();
        Ok(ExperimentReport { basis, ..self.named(report) })
    }

    /// Returns the report of an experiment that has no result, with the reason.
    pub fn not_run(&self, why: &PaperError) -> ExperimentReport {
        let notes = vec![format!("Not run: {why}.")];
        self.named(ExperimentReport { verdict: Verdict::not_run(), notes, ..ExperimentReport::default() })
    }

    fn named(&self, report: ExperimentReport) -> ExperimentReport {
        ExperimentReport { experiment: self.name, title: self.title, source: self.source, ..report }
    }

    /// Returns the place in the paper: the part of `source` after the paper.
    pub fn place(&self) -> &'static str {
        self.source[self.paper().len()..].trim_start_matches([',', ':', ' '])
    }

    /// Returns the paper: the part of `source` before the place in it.
    pub fn paper(&self) -> &'static str {
        self.source.split([',', ':']).next().unwrap_or(self.source)
    }
}

/// All experiments, by paper.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "gem5-mmio",
        title: "register read latency by root complex latency",
        source: "gem5 (IISWC'18), Table II",
        hosts: &["gem5"],
        run: FigureOrigin::Here(gem5::mmio),
    },
    Experiment {
        name: "gem5-switch-latency",
        title: "disk throughput by switch latency",
        source: "gem5 (IISWC'18), Figure 9(a), at the device",
        hosts: &["gem5"],
        run: FigureOrigin::Here(gem5::switch_latency),
    },
    Experiment {
        name: "gem5-width",
        title: "disk throughput by link width",
        source: "gem5 (IISWC'18), Figure 9(b), at the device",
        hosts: &["gem5"],
        run: FigureOrigin::Here(gem5::width),
    },
    Experiment {
        name: "gem5-replay-buffer",
        title: "timeouts by size of replay buffers",
        source: "gem5 (IISWC'18), Figure 9(c), at the device",
        hosts: &["gem5"],
        run: FigureOrigin::Here(gem5::replay_buffer),
    },
    Experiment {
        name: "gem5-port-buffer",
        title: "timeouts by size of port buffers",
        source: "gem5 (IISWC'18), Figure 9(d), at the device",
        hosts: &["gem5"],
        run: FigureOrigin::Here(gem5::port_buffer),
    },
    Experiment {
        name: "gem5-dd",
        title: "dd in a Linux guest by block size and switch latency; needs QEMU, minutes",
        source: "gem5 (IISWC'18), Figure 9(a), by dd",
        hosts: &["gem5"],
        run: FigureOrigin::Here(gem5::dd),
    },
    Experiment {
        name: "chipyard-latency",
        title: "read latency by lanes and payload",
        source: "Chipyard PCIe (2022), Figure 6",
        hosts: &["chipyard"],
        run: FigureOrigin::Here(chipyard::latency),
    },
    Experiment {
        name: "chipyard-bandwidth",
        title: "effective and total bandwidth of writes at Gen3 x16",
        source: "Chipyard PCIe (2022), Figure 7",
        hosts: &["ideal"],
        run: FigureOrigin::Here(chipyard::bandwidth),
    },
    Experiment {
        name: "chipyard-nic",
        title: "a NIC close to the core and over PCIe, and the gain of batching",
        source: "Chipyard PCIe (2022), Figures 9 and 10",
        hosts: &["ideal"],
        run: FigureOrigin::Here(chipyard::nic),
    },
    Experiment {
        name: "chipyard-rtl-figure6",
        title: "read latency of the PCI Express stack in RTL; needs Verilator",
        source: "Chipyard PCIe (2022), Figure 6, in RTL",
        hosts: &["chipyard"],
        run: FigureOrigin::Here(chipyard::rtl_latency),
    },
    Experiment {
        name: "chipyard-rtl-figure7",
        title: "bandwidth of writes of the PCI Express stack in RTL; needs Verilator",
        source: "Chipyard PCIe (2022), Figure 7, in RTL",
        hosts: &["ideal"],
        run: FigureOrigin::Here(chipyard::rtl_bandwidth),
    },
    Experiment {
        name: "chipyard-rtl-figure9",
        title: "a NIC on the bus of a RISC-V core and over PCIe, in RTL, by delay; needs Verilator",
        source: "Chipyard PCIe (2022), Figure 9, in RTL",
        hosts: &["ideal"],
        run: FigureOrigin::Here(chipyard::rtl_nic_delays),
    },
    Experiment {
        name: "chipyard-rtl-figure10",
        title: "a NIC on the bus of a RISC-V core and over PCIe, in RTL, by lanes; needs Verilator",
        source: "Chipyard PCIe (2022), Figure 10, in RTL",
        hosts: &["ideal"],
        run: FigureOrigin::Here(chipyard::rtl_nic_lanes),
    },
    Experiment {
        name: "chipyard-rtl-table2",
        title: "resources of the PCI Express stack in RTL; needs Yosys, minutes",
        source: "Chipyard PCIe (2022), Table 2, in RTL",
        hosts: &[],
        run: FigureOrigin::Here(chipyard::rtl_table2),
    },
    Experiment {
        name: "dma-engine-figure6",
        title: "transfers of the DMA engine from device to host, by size",
        source: "DMA engine (ReConFig'15), Figure 6",
        hosts: &["xeon-e5-2620v2"],
        run: FigureOrigin::Here(dma_engine::figure6),
    },
    Experiment {
        name: "dma-engine-figure7",
        title: "transfers of the DMA engine from host to device, by size",
        source: "DMA engine (ReConFig'15), Figure 7",
        hosts: &["xeon-e5-2620v2"],
        run: FigureOrigin::Here(dma_engine::figure7),
    },
    Experiment {
        name: "dma-engine-table1",
        title: "resources of the DMA engine in RTL, without and with SR-IOV; needs Yosys, a minute",
        source: "DMA engine (ReConFig'15), Table I",
        hosts: &[],
        run: FigureOrigin::Here(dma_engine::table1),
    },
    Experiment {
        name: "dma-engine-beyond",
        title: "the DMA engine with many functions, scattered pages, an IOMMU, small transfers, later generations",
        source: "DMA engine (ReConFig'15), beyond its measurements",
        hosts: &["xeon-e5-2637v3", "xeon-gold-6342", "xeon-platinum-8480"],
        run: FigureOrigin::Here(dma_engine::beyond),
    },
    Experiment {
        name: "pcie-bench-figure1",
        title: "three NICs with their drivers, by frame size",
        source: "pcie-bench (SIGCOMM'18), Figure 1",
        hosts: &["ideal", "xeon-e5-2637v3"],
        run: FigureOrigin::Here(pcie_bench::nics),
    },
    Experiment {
        name: "pcie-bench-figure2",
        title: "a frame to the cable and back, and the share of PCI Express",
        source: "pcie-bench (SIGCOMM'18), Figure 2",
        hosts: &["xeon-e5-2637v3"],
        run: FigureOrigin::Here(pcie_bench::round_trip),
    },
    Experiment {
        name: "pcie-bench-figure4",
        title: "bandwidth of two cards by transfer size",
        source: "pcie-bench (SIGCOMM'18), Figure 4",
        hosts: &["xeon-e5-2637v3"],
        run: FigureOrigin::Here(pcie_bench::bandwidth),
    },
    Experiment {
        name: "pcie-bench-figure5",
        title: "latency of two cards by transfer size",
        source: "pcie-bench (SIGCOMM'18), Figure 5",
        hosts: &["xeon-e5-2637v3"],
        run: FigureOrigin::Here(pcie_bench::latency),
    },
    Experiment {
        name: "pcie-bench-figure6",
        title: "distribution of latencies on two servers",
        source: "pcie-bench (SIGCOMM'18), Figure 6",
        hosts: &["xeon-e5-2620v3", "xeon-e3-1226v3"],
        run: FigureOrigin::Here(pcie_bench::distribution),
    },
    Experiment {
        name: "pcie-bench-figure7",
        title: "latency and bandwidth by window and state of the cache",
        source: "pcie-bench (SIGCOMM'18), Figure 7",
        hosts: &["xeon-e5-2630"],
        run: FigureOrigin::Here(pcie_bench::caches),
    },
    Experiment {
        name: "pcie-bench-figure8",
        title: "reads of remote memory by window and size",
        source: "pcie-bench (SIGCOMM'18), Figure 8",
        hosts: &["xeon-e5-2630v4"],
        run: FigureOrigin::Here(pcie_bench::remote),
    },
    Experiment {
        name: "pcie-bench-figure9",
        title: "cost of the IOMMU by window and size",
        source: "pcie-bench (SIGCOMM'18), Figure 9",
        hosts: &["xeon-e5-2630v4"],
        run: FigureOrigin::Here(pcie_bench::iommu),
    },
    Experiment {
        name: "pcie-bench-table2",
        title: "the paper's four findings, one comparison each",
        source: "pcie-bench (SIGCOMM'18), Table 2",
        hosts: &["xeon-e5-2630", "xeon-e5-2630v4"],
        run: FigureOrigin::Here(pcie_bench::findings),
    },
    Experiment {
        name: "pcie-bench-in-flight",
        title: "a NIC's rate by its outstanding transfers",
        source: "pcie-bench (SIGCOMM'18), §2 and §7",
        hosts: &["xeon-e5-2637v3"],
        run: FigureOrigin::Here(pcie_bench::in_flight),
    },
    Experiment {
        name: "nettlp-encapsulation",
        title: "rate of writes in Ethernet packets",
        source: "NetTLP (NSDI'20), §3.2",
        hosts: &[],
        run: FigureOrigin::Here(nettlp::encapsulation),
    },
    Experiment {
        name: "nettlp-figure13",
        title: "a read between two devices, through a switch and through a root complex",
        source: "NetTLP (NSDI'20), Figure 13",
        hosts: &["ideal"],
        run: FigureOrigin::Here(nettlp::reads),
    },
    measured(
        "nettlp-figure7",
        "read rate of LibTLP by cores, on this machine",
        "NetTLP (NSDI'20), Figure 7",
        nettlp::reads_by_cores,
    ),
    measured(
        "nettlp-figure8",
        "read rate of LibTLP by size, on this machine",
        "NetTLP (NSDI'20), Figure 8",
        nettlp::reads_by_size,
    ),
    measured(
        "nettlp-figure9",
        "read latency of LibTLP, on this machine",
        "NetTLP (NSDI'20), Figure 9",
        nettlp::latencies,
    ),
    measured(
        "nettlp-figure10",
        "write rate of LibTLP by cores, on this machine",
        "NetTLP (NSDI'20), Figure 10",
        nettlp::writes_by_cores,
    ),
    measured(
        "nettlp-figure11",
        "read rate of pcie-bench from a memory in software, on this machine",
        "NetTLP (NSDI'20), Figure 11",
        nettlp::psmem_reads,
    ),
    measured(
        "nettlp-table2",
        "read latency of pcie-bench from a memory in software, on this machine",
        "NetTLP (NSDI'20), Table 2",
        nettlp::psmem_latencies,
    ),
    elsewhere(
        "nettlp-figure14",
        "tags of four devices",
        "NetTLP (NSDI'20), Figure 14",
        "Needs the authors' captures, which have no licence and are not in riser: `riser trace FILE --stats` prints the tags. The paper: 0 to 15 (X520, P4600), 24 to 249 (XL710), 0 to 63 (PM1725a).",
    ),
    measured(
        "nettlp-figure15",
        "TLPs of a NIC in software, over this machine's loopback",
        "NetTLP (NSDI'20), Figure 15",
        nettlp::nic_tlps,
    ),
    elsewhere(
        "nettlp-figure16",
        "processes in the memory of another host",
        "NetTLP (NSDI'20), Figure 16",
        "Needs a guest under QEMU, whose memory `riser nettlp ps` and `riser nettlp codedump` read (docs/introspection.md). The figure has no number.",
    ),
    Experiment {
        name: "beyond",
        title: "published figures of newer machines: peer-to-peer over Gen5, and lines in flight",
        source: "reports of 2024 and 2026, named in the table",
        hosts: &["ideal"],
        run: FigureOrigin::Here(beyond::newer),
    },
    Experiment {
        name: "nvme-queue-depth",
        title: "an NVMe controller by queue depth: where the time goes, and its limit",
        source: "no paper: NVMe 1.4 on current links",
        hosts: &["xeon-e5-2637v3", "xeon-platinum-8480"],
        run: FigureOrigin::Here(nvme::queue_depth),
    },
];

/// Returns a figure that other commands or tools make.
const fn elsewhere(
    name: &'static str,
    title: &'static str,
    source: &'static str,
    needs: &'static str,
) -> Experiment {
    Experiment { name, title, source, hosts: &[], run: FigureOrigin::Elsewhere(needs) }
}

/// Returns a figure of software that is measured on this machine.
const fn measured(
    name: &'static str,
    title: &'static str,
    source: &'static str,
    run: fn(&Effort) -> Result<ExperimentReport, PaperError>,
) -> Experiment {
    Experiment { name, title, source, hosts: &[], run: FigureOrigin::Measured(run) }
}

/// Runs all experiments on up to `jobs` threads, then measures software on this machine, one experiment after the other. Calls `progress`
/// with each experiment that has ended. An experiment without a result has a report with the reason.
pub fn run_all(effort: &Effort, jobs: usize, mut progress: impl FnMut(&Experiment)) -> Vec<ExperimentReport> {
    let run = |n: usize| {
        let experiment: &Experiment = &EXPERIMENTS[n];
        experiment.run(effort).unwrap_or_else(|why| experiment.not_run(&why))
    };
    let is_live = |n: &usize| matches!(EXPERIMENTS[*n].run, FigureOrigin::Measured(_));
    let (live, mut alike): (Vec<usize>, Vec<usize>) = (0..EXPERIMENTS.len()).partition(is_live);
    // The longest ones first, so that no thread waits for them at the end.
    let rank = |n: usize| LONGEST.iter().position(|name| *name == EXPERIMENTS[n].name);
    alike.sort_by_key(|&n| rank(n).unwrap_or(LONGEST.len()));
    let mut reports: Vec<(usize, ExperimentReport)> = Vec::new();
    let mut take = |n: usize, report| {
        progress(&EXPERIMENTS[n]);
        reports.push((n, report));
    };
    let taken = for_each(
        alike.len(),
        jobs,
        |at| run(alike[at]),
        |at, report| {
            take(alike[at], report);
            Ok::<(), Infallible>(())
        },
    );
    let Ok(()) = taken;
    live.into_iter().for_each(|n| take(n, run(n)));
    reports.sort_by_key(|(n, _)| *n);
    reports.into_iter().map(|(_, report)| report).collect()
}

/// Experiments that take minutes, in the order in which they start. The two that use one simulator are not neighbours.
const LONGEST: [&str; 5] =
    ["chipyard-rtl-figure9", "chipyard-rtl-table2", "gem5-dd", "dma-engine-table1", "chipyard-rtl-figure10"];

/// Returns all experiments, by paper: each paper and its experiments, in the order of [`EXPERIMENTS`].
pub fn by_paper() -> Vec<(&'static str, Vec<&'static Experiment>)> {
    let mut papers: Vec<(&str, Vec<&Experiment>)> = Vec::new();
    for experiment in EXPERIMENTS {
        match papers.iter_mut().find(|(paper, _)| *paper == experiment.paper()) {
            Some((_, of)) => of.push(experiment),
            None => papers.push((experiment.paper(), vec![experiment])),
        }
    }
    papers
}

/// Returns the experiment `name`.
///
/// # Errors
/// The known names, by paper.
pub fn experiment(name: &str) -> Result<&'static Experiment, BenchError> {
    let names = |of: Vec<&Experiment>| of.iter().map(|e| e.name).collect::<Vec<_>>().join(", ");
    let known = || {
        by_paper().into_iter().map(|(paper, of)| format!("\n  {paper}: {}", names(of))).collect::<String>()
    };
    EXPERIMENTS
        .iter()
        .find(|e| e.name.eq_ignore_ascii_case(name))
        .ok_or_else(|| BenchError::Unknown(format!("no experiment `{name}`; known experiments:{}", known())))
}
