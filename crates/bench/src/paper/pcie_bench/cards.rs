// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures 4 to 6: bandwidth and latency of two cards, and distributions of latencies on two servers.

use super::super::published;
use super::super::report::ExperimentReport;
use super::super::table::{Cell, Chart, Column, Line, Table};
use super::super::verdict::{Shape, Step, Verdict};
use super::super::{Effort, PaperError};
use super::grid::{Axis, Grid, KIB, NFP, distributions, key, machine};
use super::{ETHERNET_GBPS, params};
use crate::experiments::{Cache, Test};
use crate::results::CdfPoint;
use crate::suite::Machine;
use model::{Addressing, Transfer, ethernet_gbps, published as closed_form};

/// The server of Figures 4 and 5.
const HSW: &str = "hsw-Xeon-E5-2637v3_supermicro";
const NETFPGA: &str = "netfpga-sume";
const SIZES: &[u64] = &[64, 128, 256, 257, 512, 513, 1024, 2048];
const WINDOW: u64 = 8 * KIB;

/// The bandwidth tests: the paper's name, and the benchmark's.
const TESTS: [(&str, Test); 3] =
    [("BW_RD", Test::BwDmaRd), ("BW_WR", Test::BwDmaWr), ("BW_RDWR", Test::BwDmaRw)];

const BANDWIDTH: &[Column] = &[
    Column { key: "size_bytes", head: "size B" },
    Column { key: "nfp_read_gbps", head: "NFP BW_RD" },
    Column { key: "nfp_write_gbps", head: "NFP BW_WR" },
    Column { key: "nfp_read_write_gbps", head: "NFP BW_RDWR" },
    Column { key: "netfpga_read_gbps", head: "NetFPGA BW_RD" },
    Column { key: "netfpga_write_gbps", head: "NetFPGA BW_WR" },
    Column { key: "netfpga_read_write_gbps", head: "NetFPGA BW_RDWR" },
    Column { key: "model_read_gbps", head: "model BW_RD" },
    Column { key: "model_write_gbps", head: "model BW_WR" },
    Column { key: "model_read_write_gbps", head: "model BW_RDWR" },
    Column { key: "ethernet_gbps", head: "40G Ethernet" },
];

const LATENCY: &[Column] = &[
    Column { key: "size_bytes", head: "size B" },
    Column { key: "nfp_ns", head: "NFP-6000 ns" },
    Column { key: "netfpga_ns", head: "NetFPGA ns" },
    Column { key: "nfp_min_ns", head: "NFP min" },
    Column { key: "nfp_p95_ns", head: "95 %" },
    Column { key: "netfpga_min_ns", head: "NetFPGA min" },
    Column { key: "netfpga_p95_ns", head: "95 %" },
];

const GENERATIONS: &[Column] = &[
    Column { key: "server", head: "server" },
    Column { key: "median_64_ns", head: "64 B ns" },
    Column { key: "median_2048_ns", head: "2048 B ns" },
];

/// One server of each generation: Sandy Bridge, Ivy Bridge, Haswell, Broadwell.
const SERVERS: [&str; 4] = [
    "snb-Xeon-E5-2630_dell-t620",
    "ib-Xeon-E5-2620v2_dell-t620-s0-s0-s0",
    "hsw-Xeon-E5-2620v3_dell-t630",
    "bdw-Xeon-E5-2630v4-dell-t430-s0-s0-s0",
];

/// Returns the paper's model of a test at a size, in Gb/s.
fn model(test: usize, size: u64, addressing: Addressing) -> Result<f64, PaperError> {
    let mut params = params()?;
    params.addressing = addressing;
    let of = closed_form(&params, Transfer::of(size as u32)).map_err(|e| PaperError::Lab(e.to_string()))?;
    Ok([of.read_gbps, of.write_gbps, of.read_write_gbps][test])
}

/// Figure 4: bandwidth by transfer size.
pub(in super::super) fn bandwidth(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = published::pcie_bench("figure4")?;
    let cards = [machine(HSW, NFP)?, machine(HSW, NETFPGA)?];
    let row = |test| key(test, Cache::HostWarm, WINDOW, 0);
    let series: Vec<_> = cards.iter().flat_map(|card| TESTS.map(|(_, test)| (card, row(test)))).collect();
    let grid = Grid::measure(effort, Axis::Size(SIZES), &series)?;
    let closed = |test| move |size| model(test, size, Addressing::A64).unwrap_or(f64::NAN);
    let ethernet = |size: u64| ethernet_gbps(ETHERNET_GBPS.into(), size as u32);
    let (rd, wr, rw) = (closed(0), closed(1), closed(2));
    let (nfp, netfpga) = (0..3, 3..6);
    let mut numbers =
        vec![paper.compare("transactions", model(2, 64, Addressing::A32)? * 1000.0 / (64.0 * 8.0))?];
    for ((name, _), (test, series)) in TESTS.iter().zip(netfpga.clone().enumerate()) {
        for &size in SIZES {
            let of_model = 100.0 * grid.at(series, size) / model(test, size, Addressing::A64)?;
            let mut number = paper.compare(name, of_model)?;
            number.what = format!("{size} B: {}", number.what);
            numbers.push(number);
        }
    }
    let each = |over: &dyn Fn(u64) -> f64, under: &dyn Fn(u64) -> f64| -> Vec<(f64, f64)> {
        SIZES.iter().map(|size| (over(*size), under(*size))).collect()
    };
    let mean = |series| {
        let rates = grid.points(series);
        rates.iter().map(|(_, gbps)| gbps).sum::<f64>() / rates.len() as f64
    };
    let above_nfp = |(a, b): (usize, usize)| {
        Shape::above(
            &format!("NFP-6000 generally below NetFPGA, {}: mean over sizes", TESTS[a].0),
            &[(mean(b), mean(a))],
        )
    };
    let mut shapes: Vec<Shape> = nfp.zip(netfpga).map(above_nfp).collect();
    shapes
        .push(Shape::above("NetFPGA's BW_WR slightly above the model", &each(&|size| grid.at(4, size), &wr)));
    shapes.push(Shape::above(
        "NFP-6000 does not read 64 B at the rate of 40G Ethernet",
        &[(ethernet(64), grid.at(0, 64))],
    ));
    let mut lines = grid.lines(BANDWIDTH);
    let model_line = |(name, of): (&str, &dyn Fn(u64) -> f64)| {
        Line::paper(name, SIZES.iter().map(|size| (*size as f64, of(*size))).collect())
    };
    let drawn: [(&str, &dyn Fn(u64) -> f64); 4] =
        [("model BW_RD", &rd), ("model BW_WR", &wr), ("model BW_RDWR", &rw), ("40G Ethernet", &ethernet)];
    lines.extend(drawn.map(model_line));
    Ok(ExperimentReport {
        verdict: Verdict::of(shapes, numbers),
        tables: vec![grid.table("Bandwidth of one direction, Gb/s", BANDWIDTH, &[&rd, &wr, &rw, &ethernet])],
        notes: vec![
            "Gen3 x8, MPS 256, MRRS 512, window of 8 KiB, warmed by the host. The model is the paper's: `riser model bw --form published`.".into(),
            "The paper says of both cards that they cannot read small packets at 40 Gb/s. Its model needs 30.5 Gb/s for 64 B and reaches 44.1, so this does not hold for a card that closely follows the model. It is compared for the NFP-6000 only.".into(),
            "The gaps after reads in the server's profile are fitted to the NFP-6000. NetFPGA has none (`read_gaps` in its profile), because it follows the model on the same server. The authors published no measurements of this card.".into(),
        ],
        chart: Some(Chart { x: "transfer (B)", y: "bandwidth of one direction (Gb/s)", lines }),
        ..ExperimentReport::default()
    })
}

/// Figure 5: latency by transfer size.
pub(in super::super) fn latency(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = published::pcie_bench("figure5")?;
    let (nfp, netfpga) = (machine(HSW, NFP)?, machine(HSW, NETFPGA)?);
    let read = key(Test::LatDmaRd, Cache::HostWarm, WINDOW, 0);
    let grid = Grid::measure(effort, Axis::Size(SIZES), &[(&nfp, read), (&netfpga, read)])?;
    let command = key(Test::LatCmdRd, Cache::HostWarm, WINDOW, 0);
    let command = Grid::measure(effort, Axis::Size(&[64]), &[(&nfp, command)])?;
    let machines = SERVERS.map(|server| machine(server, NFP));
    let machines = machines.into_iter().collect::<Result<Vec<_>, _>>()?;
    let series: Vec<_> = machines.iter().map(|machine| (machine, read)).collect();
    let servers = Grid::measure(effort, Axis::Size(&[64, 2048]), &series)?;
    let rows = SERVERS.iter().enumerate().map(|(n, server)| {
        vec![
            Cell::Text((*server).into()),
            Cell::Number(servers.at(n, 64), 1),
            Cell::Number(servers.at(n, 2048), 1),
        ]
    });
    let generations =
        Table { title: "NFP-6000 on four generations".into(), columns: GENERATIONS, rows: rows.collect() };
    let gap = |size| grid.at(0, size) - grid.at(1, size);
    let at_128 = grid.spread(0, 128);
    let numbers = paper.compare_all(&[
        ("offset", gap(64)),
        ("command", 100.0 * command.at(0, 64) / grid.at(1, 64)),
        ("least", at_128.min),
        ("most", at_128.p999),
        ("exanic_half", grid.at(1, 128)),
    ])?;
    let above: Vec<(f64, f64)> = SIZES.iter().map(|size| (grid.at(0, *size), grid.at(1, *size))).collect();
    let shapes = vec![
        Shape::above("NFP-6000 above NetFPGA at each size", &above),
        Shape::sign("the gap", Step::Rises, ["64 B", "2048 B"], [gap(64), gap(2048)]),
    ];
    let columns: [&dyn Fn(u64) -> f64; 4] = [
        &|size| grid.spread(0, size).min,
        &|size| grid.spread(0, size).p95,
        &|size| grid.spread(1, size).min,
        &|size| grid.spread(1, size).p95,
    ];
    Ok(ExperimentReport {
        verdict: Verdict::of(shapes, numbers),
        tables: vec![grid.table("Median latency of LAT_RD", LATENCY, &columns), generations],
        notes: vec![
            "Gen3 x8, MPS 256, MRRS 512, window of 8 KiB, warmed by the host.".into(),
            "§7 gives 560 to 666 ns for 128 B without a percentile. Here they are compared with the minimum and the 99.9th percentile.".into(),
            "At 64 B, the NFP-6000's DMA engine is slower than its command interface. The NetFPGA's profile has the latency of the command interface, because the paper says that both are equal. In the authors' published data of this server the same difference is 120 ns, which the paper rounds to \"about 100\": 640 and 520 ns with cold caches (`lat_dma_sweep_rd_rnd_64.csv`, `lat_cmd_sizes.csv`), and 600 and 480 ns with warm ones and an IOMMU. Without an IOMMU, warming had no effect on the rows of the command interface, as the notes on these data say. The number is compared with 120 ns.".into(),
        ],
        chart: Some(Chart { x: "transfer (B)", y: "median latency (ns)", lines: grid.lines(LATENCY) }),
        ..ExperimentReport::default()
    })
}

const SPREAD: &[Column] = &[
    Column { key: "server", head: "server" },
    Column { key: "min_ns", head: "min ns" },
    Column { key: "median_ns", head: "median" },
    Column { key: "p90_ns", head: "90 %" },
    Column { key: "p99_ns", head: "99 %" },
    Column { key: "p999_ns", head: "99.9 %" },
    Column { key: "max_ns", head: "max" },
];

/// The servers of Figure 6: a Xeon E5 and a Xeon E3.
const SPREAD_SERVERS: [&str; 2] = ["hsw-Xeon-E5-2620v3_dell-t630", "hsw-Xeon-E3-1226v3_fujitsu-tx1310"];

/// Returns the latency in ns that `percent` of the samples do not exceed.
fn percentile(distribution: &[CdfPoint], percent: f64) -> f64 {
    distribution.iter().find(|point| point.share * 100.0 >= percent).map_or(f64::NAN, |point| point.ns)
}

/// Returns the share of samples above `ns`.
fn above(distribution: &[CdfPoint], ns: f64) -> f64 {
    distribution.iter().rev().find(|point| point.ns <= ns).map_or(1.0, |point| 1.0 - point.share)
}

/// Figure 6: distributions of LAT_RD of 64 B.
pub(in super::super) fn distribution(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = published::pcie_bench("figure6")?;
    let machines = SPREAD_SERVERS.map(|server| machine(server, NFP));
    let machines: Vec<Machine> = machines.into_iter().collect::<Result<_, _>>()?;
    let measured = distributions(effort, &machines, key(Test::LatDmaRd, Cache::HostWarm, WINDOW, 64))?;
    let [(e5, _), (e3, e3_cdf)] = &measured[..] else {
        return Err(PaperError::Run("two servers expected".into()));
    };
    let numbers = paper.compare_all(&[
        ("e5_min", e5.min),
        ("e5_median", e5.median),
        ("e5_range", e5.p999 - e5.min),
        ("e5_max", e5.max),
        ("e3_min", e3.min),
        ("e3_median", e3.median),
        ("e3_p90", percentile(e3_cdf, 90.0) / e3.median),
        ("e3_p99", percentile(e3_cdf, 99.0)),
        ("e3_p999", e3.p999),
        ("e3_max", e3.max / 1000.0),
    ])?;
    let shapes = vec![
        Shape::above("the E3's minimum is below the E5's", &[(e5.min, e3.min)]),
        Shape::above("the E3's median is more than twice the E5's", &[(e3.median, 2.0 * e5.median)]),
    ];
    let rows = SPREAD_SERVERS.iter().zip(&measured).map(|(server, (spread, cdf))| {
        let ns = |ns: f64| Cell::Number(ns, 1);
        let [p90, p99] = [90.0, 99.0].map(|percent| ns(percentile(cdf, percent)));
        let server = Cell::Text((*server).into());
        vec![server, ns(spread.min), ns(spread.median), p90, p99, ns(spread.p999), ns(spread.max)]
    });
    let table = Table { title: "LAT_RD of 64 B, warm".into(), columns: SPREAD, rows: rows.collect() };
    let lines = SPREAD_SERVERS.iter().zip(&measured).map(|(server, (_, cdf))| {
        // The tail of the E3 would hide everything else.
        let shown = cdf.iter().filter(|point| point.share <= 0.999);
        Line::riser(*server, shown.map(|point| (point.ns, point.share)).collect())
    });
    Ok(ExperimentReport {
        verdict: Verdict::of(shapes, numbers),
        chart: Some(Chart { x: "latency (ns)", y: "share of transfers", lines: lines.collect() }),
        tables: vec![table],
        notes: vec![
            "The paper names the server of Figures 4 and 5. Its median of 547 ns and minimum of 520 ns are those of the other Haswell server in the authors' published data, the E5-2620 v3; the E5-2637 v3 has 600 and 547. So the E5-2620 v3 is used here.".into(),
            "The maxima are of as many transfers as the authors' published rows have. riser takes fewer, and adds the rarest latencies of the profile. The chart ends at 99.9 %.".into(),
            "The paper's row of the E5 is not a usual one. The published data of this server have 35 such rows. In 32 of them, 99.9 % of the reads end within 40 ns of the median, and the maximum is 53 to 80 ns above it. In the paper's row these are 53 and 400 ns: one read missed the cache and met a refresh. The profile has the usual values. Its minimum is the median, because all lines that a core wrote take equally long.".into(),
            "The paper's row of the E3 is the one with cold caches: its minimum, median, 99.9th percentile and maximum are those of `lat_dma_details.csv`. 12 us at 99.9 % are not usual either: of the 83 rows of 64 B, 63 have 2 ms.".into(),
            format!("E3: in riser, a link that retrains delays {:.2} % of the reads by 2 ms or more. In the paper, less than 0.1 % do. This share differs from run to run. If it is above 0.1 %, the 99.9th percentile is one of them.", 100.0 * above(e3_cdf, 1e6)),
        ],
        ..ExperimentReport::default()
    })
}
