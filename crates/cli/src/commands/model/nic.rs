// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser model nic`: prints the throughput that a link allows NICs and their drivers, by packet size.

use super::LinkArgs;
use crate::commands::sizes::Sizes;
use crate::commands::words::{Word, one_of};
use crate::{Failure, output};
use bench::NicCurves;
use bench::packet_devices::{devices, names};
use clap::ValueEnum;
use files::ClaimedOutput;
use model::nic::{Answer, Question, TABLE_SIZES};
use model::{Packeting, Shipped};
use std::path::{Path, PathBuf};
use view::figure::MAX_SERIES;

/// Default sizes of a chart: every size, so that the sawtooth is sharp.
const PICTURE_SIZES: std::ops::RangeInclusive<u32> = 64..=1500;

const EXAMPLES: &str = "\
Examples:
  riser model nic
  riser model nic --form published --svg figure1.svg
  riser model nic --show simple > my-nic.toml
  riser model nic --device simple my-nic.toml --size 64..1500:4 --format csv
  riser model nic --device 82599-dpdk --gen 6 --lanes 16 --ethernet 800 --html nic.html

A device is a shipped one (simple, 82599-kernel, 82599-dpdk), or a TOML file
that lists its transactions per packet:

  version = 1
  kind = \"packet-device\"
  description = \"my NIC\"

  [[transactions]]
  what = \"fetch a batch of descriptors\"
  direction = \"tx\"       # tx, rx
  kind = \"dma_read\"      # dma_read, dma_write, mmio_read, mmio_write, interrupt
  bytes = 128            # or \"packet\"; not needed for interrupt
  per = 8                # once per 8 packets; count = 2: twice
  source = \"design note 3\"

A size is the size of the Ethernet frame with its FCS (IEEE 802.3 §3.2.8), as in model
inflight: 64 is the shortest frame. The wire carries 20 B more (8 of preamble and
start delimiter, 12 of gap). Host memory holds 4 B less, and so does \"packet\";
--form published moves the whole frame, as pcie-bench does.

With --json, prints one object: the arguments (form, basis, gen, lanes, mps_bytes,
mrrs_bytes, rcb_bytes, addr_bits, ecrc, traffic, ethernet_gbps), notes, and
series, each with name, title, kind (effective, ethernet, device) and points:
size_bytes, throughput_gbps; for devices also packets_per_s, bottleneck, and what
up and down carry per packet.";

/// Calculate the throughput of NICs by packet size (Figure 1 of pcie-bench)
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Devices: names of shipped ones, or TOML files [default: all shipped ones]
    #[arg(long = "device", value_name = "NAME|FILE", num_args = 1..)]
    devices: Vec<String>,

    /// Sizes of packets in bytes, 64 to 9216, FCS included: N, A..B (doubling from A to B) or A..B:STEP [default: 64 to 1500]
    #[arg(long = "size", value_name = "SIZE", num_args = 1.., value_delimiter = ',')]
    sizes: Vec<Sizes>,

    /// Direction of the packets
    #[arg(long, value_parser = one_of(&TRAFFIC), default_value = "both")]
    traffic: Packeting,

    /// Rate of the Ethernet in Gb/s, for comparison: 0.001 to 100000
    #[arg(long, value_name = "GBPS", default_value_t = 40.0, value_parser = super::ethernet)]
    ethernet: f64,

    #[command(flatten)]
    link: LinkArgs,

    /// Format of the output: a table, comma-separated values or JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Print one JSON object, like --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,

    /// Write an SVG picture to this file: the curves
    #[arg(long, value_name = "OUT.svg")]
    svg: Option<PathBuf>,

    /// Write an HTML page to this file: the curves; it needs no network
    #[arg(long, value_name = "OUT.html")]
    html: Option<PathBuf>,

    /// Print the file of a shipped device, to copy and change
    #[arg(long, value_name = "NAME", exclusive = true)]
    show: Option<String>,

    /// Overwrite existing files
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Csv,
    Json,
}

const TRAFFIC: [Word<Packeting>; 3] = [
    ("both", "One packet received for each packet sent", Packeting::Both),
    ("tx", "Packets sent only", Packeting::Tx),
    ("rx", "Packets received only", Packeting::Rx),
];

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(name) = &args.show {
        return show(name);
    }
    let question = args.question()?;
    let given = super::expand(&args.sizes)?;
    let sizes = if given.is_empty() { TABLE_SIZES.to_vec() } else { given.clone() };
    let [svg, html] = args.pictures()?;
    let series = question.series(&sizes).map_err(Failure::usage)?;
    let curves = NicCurves { question: &question, series: &series };
    if svg.is_some() || html.is_some() {
        let sizes = if given.is_empty() { PICTURE_SIZES.collect() } else { given };
        let drawn = question.series(&sizes).map_err(Failure::usage)?;
        let drawn = NicCurves { series: &drawn, ..curves };
        if let Some(place) = svg {
            place.write(&drawn.svg().map_err(Failure::usage)?)?;
        }
        if let Some(place) = html {
            place.write(&drawn.html(&series).map_err(Failure::usage)?)?;
        }
    }
    match if args.json { Format::Json } else { args.format } {
        Format::Text => output::text(&curves.to_string()),
        Format::Csv => output::text(&curves.csv()?),
        Format::Json => output::json(&Answer::new(&question, series)),
    }
}

impl Args {
    /// Claims the files of the chart and the page.
    fn pictures(&self) -> Result<[Option<ClaimedOutput>; 2], Failure> {
        let mut outputs = output::files(self.force);
        let files = self.devices.iter().filter(|name| Shipped::find(name).is_none());
        files.for_each(|file| outputs.reads(Path::new(file)));
        let svg = outputs.claim_if("--svg", self.svg.as_deref())?;
        Ok([svg, outputs.claim_if("--html", self.html.as_deref())?])
    }

    fn question(&self) -> Result<Question, Failure> {
        // The chart also has curves for the link alone and for the Ethernet.
        let devices = devices(&self.devices, MAX_SERIES - 2)?;
        Ok(Question {
            params: self.link.params()?,
            form: self.link.form(),
            packeting: self.traffic,
            ethernet_gbps: self.ethernet,
            devices,
        })
    }
}

fn show(name: &str) -> Result<(), Failure> {
    match Shipped::find(name) {
        Some(found) => output::text(found.text.trim_end()),
        None => Err(Failure::usage(format!("no shipped device {name:?}, expected one of {}", names()))),
    }
}
