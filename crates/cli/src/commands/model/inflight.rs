// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser model inflight`: calculates the transfers that a NIC must have in flight, with `riser-bench`.

use crate::commands::sizes::{at_least, listed, whole};
use crate::{Failure, output};
use bench::in_flight::{Answer, Latency, PAPER_BYTES, PAPER_GBPS, Question, QuestionError};
use model::IOMMU_MISS_NS;
use serde::Serialize;

const EXAMPLES: &str = "\
Examples:
  riser model inflight
  riser model inflight --size 64 --ethernet 100 --latency 450..700
  riser model inflight --host xeon-e5-2637v3 --iommu-miss 330
  riser model inflight --host xeon-platinum-8480 --device h100 --ethernet 400

Without --latency and --host, the answer uses both latencies that pcie-bench
(SIGCOMM'18) prints for 128 B, each with the time between packets given there.

A frame includes its FCS (IEEE 802.3 §3.2.8), as in model nic. The wire carries 20 B
more: 8 of preamble and start delimiter, 12 of gap.

The basis of a result is the origin of its latency: measured (by the paper),
fitted (simulated with figures fitted to measurements) or assumed.

With --json, prints {\"warnings\": [TEXT, ...], \"rows\": [OBJECT, ...]}; warnings is omitted if
it is empty. Rows have source, basis, frame_bytes, ethernet_gbps, packet_ns,
latency_ns_min, latency_ns_max, exact_min, exact_max, needed_min, needed_max,
paper_needed, note.";

/// Calculate the transfers that a NIC must have in flight to keep up with its Ethernet
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Size of an Ethernet frame in bytes, 64 to 9216, FCS included
    #[arg(long, value_name = "BYTES", default_value_t = PAPER_BYTES, value_parser = whole(1..=u32::MAX))]
    size: u32,

    /// Rate of the Ethernet in Gb/s: 0.001 to 100000
    #[arg(long, value_name = "GBPS", default_value_t = PAPER_GBPS, value_parser = super::ethernet)]
    ethernet: f64,

    /// Latency of a transfer: section-2, section-7 (as printed in the paper), NS, or NS..NS
    #[arg(long, value_name = "LATENCY", num_args = 1.., value_delimiter = ',')]
    latency: Vec<Latency>,

    /// Host profile: simulate LAT_RD of this size on it, for the latency
    #[arg(long, value_name = "PROFILE", num_args = 1..)]
    host: Vec<String>,

    /// Device profile: that of the card in --host [default: nfp6000]. With `ideal`, the device adds no time, so only the host
    /// causes latency
    #[arg(long, value_name = "PROFILE", requires = "host")]
    device: Option<String>,

    /// Generation of the link: that to --host, 1, 2, 3, 4, 5 [default: from its profile, or 3]
    #[arg(long = "gen", value_name = "GEN", requires = "host", value_parser = listed::<i64>(&[1, 2, 3, 4, 5]))]
    generation: Option<i64>,

    /// Lanes: 1, 2, 4, 8, 12, 16, 32, of the link to --host [default: from the profile, or 8]
    #[arg(long, requires = "host", value_parser = listed::<i64>(&[1, 2, 4, 8, 12, 16, 32]))]
    lanes: Option<i64>,

    /// Add the time of an IOMMU miss to each latency, in ns: 330 in the paper's section 7
    #[arg(long, value_name = "NS", num_args = 0..=1, default_missing_value = IOMMU_DEFAULT, value_parser = at_least(0.0))]
    iommu_miss: Option<f64>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const IOMMU_DEFAULT: &str = "330";
const _: () = assert!(IOMMU_MISS_NS == 330.0);

/// What `--json` prints.
#[derive(Serialize)]
struct InflightReport {
    /// Profile figures that are extrapolated to the link.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    rows: Vec<Answer>,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let question = Question {
        frame_bytes: args.size,
        ethernet_gbps: args.ethernet,
        latencies: args.latency.clone(),
        hosts: args.host.clone(),
        device: args.device.clone(),
        generation: args.generation,
        lanes: args.lanes,
        iommu_miss_ns: args.iommu_miss,
    };
    let mut warnings = Vec::new();
    let rows = question.answers(&mut warnings);
    output::warn(&warnings);
    let rows = rows.map_err(|error| match error {
        QuestionError::Ask(error) => error.into(),
        QuestionError::Model(_) | QuestionError::Link(_) => Failure::usage(error),
        QuestionError::Run(_) => Failure::run(error),
    })?;
    if args.json {
        return output::json(&InflightReport { warnings, rows });
    }
    output::text(&format!("Frames of {} B at {} Gb/s, each direction:", args.size, args.ethernet))?;
    rows.iter().try_for_each(|answer| output::text(&format!("\n{answer}")))?;
    output::text("\nDescriptor reads are not included; add them.")
}
