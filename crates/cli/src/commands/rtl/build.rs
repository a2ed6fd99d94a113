// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser rtl build`: a design for an FPGA, made ready for a slot, from `riser-rtl`.

use crate::failure::Failure;
use crate::{output, progress};
use rtl::{Options, Step};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLE: &str = "\
Examples:
  riser rtl build litepcie.toml
  riser rtl build litepcie.toml --waves
  riser run lab.toml --allow-native

The lab has device = \"rtl\" and rtl.design = \"litepcie.toml\" in a slot. The design stays as it is. The module of the vendor's block is replaced by a stand-in with the ports that the design's instance has, and \
primitives that are missing by what they do. All that is made goes below riser-rtl beside the file. The library's file goes to standard output; clocks that never have an edge go to standard error; --json prints one object: design, library, still_clocks.
block.kind of the file is 7-series, virtex7-gen3, ultrascale or ultrascale-plus, or tlp-stream for a design without a vendor's block: TLPs as they are, to and from an instance of riser_tlp_stream.
Needed are verilator (VERILATOR names another), a C++ compiler (CXX), make (MAKE) and zlib. These variables may have arguments: CXX=\"ccache g++\".";

/// Build the library of a design, with Verilator
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    /// The file of the design
    #[arg(value_name = "DESIGN.toml")]
    design: PathBuf,

    /// With all signals, for a file of waves; it is slower
    #[arg(long)]
    waves: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Built {
    design: PathBuf,
    library: PathBuf,
    /// Clocks of the design that never have an edge, each with its place.
    still_clocks: Vec<String>,
}

pub(super) fn run(Args { design, waves, json }: &Args) -> Result<(), Failure> {
    let bar = progress::spinner("{spinner} {elapsed} {msg}");
    bar.enable_steady_tick(Duration::from_millis(200));
    let mut told = |step: Step| {
        bar.set_message(match step {
            Step::Verilator => "verilator, and the compiler over what it writes",
            Step::Link => "the library",
        });
    };
    let built = rtl::build(design, &Options { waves: *waves }, &mut told);
    bar.finish_and_clear();
    let rtl::Built { library, still_clocks } = built.map_err(Failure::run)?;
    if still_clocks.is_none() {
        output::note("warning: clocks that stand still are not looked for: this Verilator has no --xml-only");
    }
    let still_clocks: Vec<String> = still_clocks.iter().flatten().map(ToString::to_string).collect();
    output::warn(&still_clocks);
    match json {
        true => output::json(&Built { design: design.clone(), library, still_clocks }),
        false => output::text(&library.display().to_string()),
    }
}
