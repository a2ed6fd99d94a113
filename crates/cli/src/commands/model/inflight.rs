// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser model inflight`: transfers that a NIC must have under way. Asks `riser-model` for every quotient, and `riser-bench`
//! for the latency of a host; never mixes up which latency an answer rests on.

use crate::failure::Failure;
use crate::output;
use bench::ask::{check_profiles, link_to};
use bench::{Plan, Test};
use model::{IOMMU_MISS_NS, InFlight, QUOTED, Quoted, in_flight, packet_ns};
use plug::profile::Basis;
use plug::values::{Gen, Lanes};
use serde::Serialize;
use std::str::FromStr;

const EXAMPLES: &str = "\
Examples:
  riser model inflight
  riser model inflight --size 64 --ethernet 100 --latency 450..700
  riser model inflight --host xeon-e5-2637v3 --iommu-miss 330
  riser model inflight --host xeon-platinum-8480 --device h100 --ethernet 400

Without --latency and --host: both latencies that pcie-bench (SIGCOMM'18) prints
for 128 B, each over the time from packet to packet that stands beside it.

A frame includes its FCS (IEEE 802.3 §3.2.8), as in model nic. The wire carries 20 B
more: 8 of preamble and start delimiter, 12 of gap.

The basis of an answer says how its latency is known: measured (by the paper),
fitted (simulated on figures that are fitted to measurements) or assumed.

--json prints {\"warnings\": [TEXT, ...], \"rows\": [OBJECT, ...]}, without warnings if
there are none. Rows have source, basis, frame_bytes, ethernet_gbps, packet_ns,
latency_ns_min, latency_ns_max, exact_min, exact_max, needed_min, needed_max,
paper_needed, note.";

/// Transfers that a NIC must have under way to keep up with its Ethernet
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Bytes of an Ethernet frame, 64 to 9216, FCS included
    #[arg(long, value_name = "BYTES", default_value_t = PAPER_BYTES)]
    size: u32,

    /// Rate of the Ethernet in Gb/s: 0.001 to 100000
    #[arg(long, value_name = "GBPS", default_value_t = PAPER_GBPS, value_parser = super::ethernet)]
    ethernet: f64,

    /// Latency of a transfer: section-2, section-7 (what the paper prints there), or NS, or NS..NS
    #[arg(long, value_name = "LATENCY", num_args = 1..)]
    latency: Vec<Latency>,

    /// Also simulate it: LAT_RD of this size on a host profile
    #[arg(long, value_name = "PROFILE", num_args = 1..)]
    host: Vec<String>,

    /// The card of --host: a device profile; default: nfp6000. `ideal` costs nothing, so that the latency is that of the host alone
    #[arg(long, value_name = "PROFILE", requires = "host")]
    device: Option<String>,

    /// Generation of the link to --host: 1, 2, 3, 4, 5; default: what its profile says, or 3
    #[arg(long = "gen", value_name = "GEN", requires = "host")]
    generation: Option<i64>,

    /// Lanes of that link: 1, 2, 4, 8, 12, 16, 32; default: what the profile says, or 8
    #[arg(long, requires = "host")]
    lanes: Option<i64>,

    /// Add what an IOMMU without the translation takes to each latency, in ns: 330 in the paper's section 7
    #[arg(long, value_name = "NS", num_args = 0..=1, default_missing_value = IOMMU_DEFAULT)]
    iommu_miss: Option<f64>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What the paper asks.
const PAPER_BYTES: u32 = 128;
const PAPER_GBPS: f64 = 40.0;
const IOMMU_DEFAULT: &str = "330";
const _: () = assert!(IOMMU_MISS_NS == 330.0);

/// A latency as it is given.
#[derive(Clone, Copy)]
enum Latency {
    Quoted(&'static Quoted),
    Given(f64, f64),
}

impl FromStr for Latency {
    type Err = String;

    fn from_str(text: &str) -> Result<Latency, String> {
        if let Some(quoted) = Quoted::find(text) {
            return Ok(Latency::Quoted(quoted));
        }
        let number = |n: &str| n.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        let ends = number(least).zip(number(most)).filter(|(least, most)| least <= most);
        let names = QUOTED.map(|q| q.name).join(", ");
        ends.map(|(least, most)| Latency::Given(least, most))
            .ok_or_else(|| format!("legal are {names}, a number of ns above 0, or two as NS..NS"))
    }
}

/// A latency, and where it is from.
struct Known {
    source: String,
    basis: Basis,
    least_ns: f64,
    most_ns: f64,
}

/// One answer, with what it rests on.
#[derive(Serialize)]
struct Row {
    source: String,
    /// How the latency is known.
    basis: Basis,
    frame_bytes: u32,
    ethernet_gbps: f64,
    packet_ns: f64,
    latency_ns_min: f64,
    latency_ns_max: f64,
    exact_min: f64,
    exact_max: f64,
    needed_min: u32,
    needed_max: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    paper_needed: Option<u32>,
    note: String,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Answer {
    /// Figures of the profiles that are extrapolated on the link.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    rows: Vec<Row>,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let mut latencies = args.latency.clone();
    if latencies.is_empty() && args.host.is_empty() {
        latencies = QUOTED.iter().map(Latency::Quoted).collect();
    }
    let mut rows = latencies.iter().map(|l| args.row(*l)).collect::<Result<Vec<_>, _>>()?;
    let mut warnings = Vec::new();
    for host in &args.host {
        rows.push(args.simulated(host, &mut warnings)?);
    }
    if args.json { output::json(&Answer { warnings, rows }) } else { args.print(&rows) }
}

impl Args {
    fn packet_ns(&self) -> Result<f64, Failure> {
        packet_ns(self.size, self.ethernet).map_err(Failure::usage)
    }

    /// The question that the paper asks.
    fn is_papers(&self) -> bool {
        self.size == PAPER_BYTES && (self.ethernet - PAPER_GBPS).abs() < f64::EPSILON
    }

    fn row(&self, latency: Latency) -> Result<Row, Failure> {
        match latency {
            Latency::Given(least, most) => {
                let (source, basis) = ("as given".into(), Basis::Assumed);
                let known = Known { source, basis, least_ns: least, most_ns: most };
                self.answer(known, self.packet_ns()?, None, String::new())
            }
            Latency::Quoted(q) => self.quoted(q),
        }
    }

    fn quoted(&self, q: &Quoted) -> Result<Row, Failure> {
        let (source, basis) = (q.source.to_owned(), Basis::Measured);
        let known = Known { source, basis, least_ns: q.least_ns, most_ns: q.most_ns };
        if !self.is_papers() {
            let note = format!("the latency is one of {PAPER_BYTES} B");
            return self.answer(known, self.packet_ns()?, None, note);
        }
        let mut row = self.answer(known, q.packet_ns, Some(q.says), String::new())?;
        row.note = self.said(q, &row)?;
        Ok(row)
    }

    /// How the answer stands to what the paper says.
    fn said(&self, q: &Quoted, row: &Row) -> Result<String, Failure> {
        let agrees = row.needed_min <= q.says && q.says <= row.needed_max;
        let exact = self.packet_ns()?;
        Ok(match agrees || self.iommu_miss.is_some() {
            true if (q.packet_ns - exact).abs() > 1e-9 => {
                let finer = in_flight(row.latency_ns_max, exact).map_err(Failure::usage)?;
                format!("over {exact:.1} ns, which is not rounded, {:.1}, so {}", finer.exact, finer.needed)
            }
            true => String::new(),
            false => format!("the paper says {}, which is that of section-2", q.says),
        })
    }

    fn simulated(&self, host: &str, warnings: &mut Vec<String>) -> Result<Row, Failure> {
        let device = self.device.as_deref().unwrap_or("nfp6000");
        check_profiles(host, Some(device))?;
        let link = link_to(host, self.generation, self.lanes).map_err(Failure::usage)?;
        let over = match (link.generation, link.lanes) {
            (Some(Gen(rate)), Some(Lanes(width))) => format!("Gen{} x{}", rate.generation(), width.lanes()),
            _ => String::new(),
        };
        let plan = Plan { host: host.to_owned(), device: Some(device.to_owned()), link, ..Plan::default() };
        let new: Vec<String> = plan.warnings().into_iter().filter(|line| !warnings.contains(line)).collect();
        output::warn(&new);
        warnings.extend(new);
        let row = plan.measure(Test::LatRd, self.size).map_err(|e| Failure::Run(e.to_string()))?;
        let Some(latency) = row.latency else { return Err(Failure::Run("LAT_RD gave no latency".into())) };
        let ns = latency.latency_ns_median;
        let basis = plan.basis(Test::LatRd, self.size)?;
        let source = format!(
            "simulated: LAT_RD of {} B, median, host profile {host}, device profile {device}, {over}",
            self.size
        );
        let known = Known { source, basis, least_ns: ns, most_ns: ns };
        self.answer(known, self.packet_ns()?, None, String::new())
    }

    fn answer(
        &self,
        Known { source, basis, least_ns, most_ns }: Known,
        packet_ns: f64,
        paper_needed: Option<u32>,
        note: String,
    ) -> Result<Row, Failure> {
        let miss = self.iommu_miss.unwrap_or(0.0);
        let ask = |ns: f64| -> Result<InFlight, Failure> {
            in_flight(ns + miss, packet_ns).map_err(Failure::usage)
        };
        let (least, most) = (ask(least_ns)?, ask(most_ns)?);
        let source = if miss > 0.0 { format!("{source}; and {miss} ns of IOMMU") } else { source };
        Ok(Row {
            source,
            basis,
            frame_bytes: self.size,
            ethernet_gbps: self.ethernet,
            packet_ns,
            latency_ns_min: least.latency_ns,
            latency_ns_max: most.latency_ns,
            exact_min: least.exact,
            exact_max: most.exact,
            needed_min: least.needed,
            needed_max: most.needed,
            paper_needed,
            note,
        })
    }

    fn print(&self, rows: &[Row]) -> Result<(), Failure> {
        output::text(&format!("Frames of {} B at {} Gb/s, each direction:", self.size, self.ethernet))?;
        for row in rows {
            output::text(&format!(
                "\n{} under way: {} ns / {:.1} ns = {}\n  {}\n  basis: {}",
                range(row.needed_min, row.needed_max, |n| n.to_string()),
                range(row.latency_ns_min, row.latency_ns_max, |ns| format!("{ns:.0}")),
                row.packet_ns,
                range(row.exact_min, row.exact_max, |n| format!("{n:.1}")),
                row.source,
                row.basis.name(),
            ))?;
            if !row.note.is_empty() {
                output::text(&format!("  {}", row.note))?;
            }
        }
        output::text("\nDescriptor reads are not included; add them.")
    }
}

/// One value, or two as `from to to`.
fn range<T: PartialEq>(from: T, to: T, text: impl Fn(T) -> String) -> String {
    if from == to { text(from) } else { format!("{} to {}", text(from), text(to)) }
}
