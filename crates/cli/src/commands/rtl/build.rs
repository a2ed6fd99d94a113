// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser rtl build`: builds an FPGA design for a slot, with `riser-rtl`.

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

The lab has device = \"rtl\" and rtl.design = \"litepcie.toml\" in a slot. The design is not changed. A stand-in with the ports of the design's instance replaces the module of the vendor's block, and \
behavioral models replace missing primitives. All output goes to the folder riser-rtl next to the file. The path of the library goes to standard output; clocks that never have an edge go to standard error; --json prints one object: design, library, still_clocks.
block.kind of the file is 7-series, virtex7-gen3, ultrascale or ultrascale-plus. It is tlp-stream for a design without a vendor's block: an instance of riser_tlp_stream then sends and receives TLPs. \
It is link-frames, root-complex or switch for a design with a data link layer, a root complex or a switch of its own: docs/external.md.
Required are verilator (VERILATOR names another), a C++ compiler (CXX), make (MAKE) and zlib. These variables may have arguments: CXX=\"ccache g++\".";

/// Build the library of a design, with Verilator
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    /// Design file
    #[arg(value_name = "DESIGN.toml")]
    design: PathBuf,

    /// Include all signals, for a wave file; the design runs slower
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
    /// Clocks of the design that never have an edge, each with its source location.
    still_clocks: Vec<String>,
}

pub(super) fn run(Args { design, waves, json }: &Args) -> Result<(), Failure> {
    let bar = progress::spinner("{spinner} {elapsed} {msg}");
    bar.enable_steady_tick(Duration::from_millis(200));
    let mut told = |step: Step| {
        bar.set_message(match step {
            Step::Verilator => "Verilator, and the compiler for its output",
            Step::Link => "the library",
        });
    };
    let built = rtl::build(design, &Options { waves: *waves }, &mut told);
    bar.finish_and_clear();
    let rtl::Built { library, still_clocks } = built.map_err(Failure::run)?;
    if still_clocks.is_none() {
        output::note(
            "warning: cannot check for clocks that never have an edge: this Verilator has no --xml-only",
        );
    }
    let still_clocks: Vec<String> = still_clocks.iter().flatten().map(ToString::to_string).collect();
    output::warn(&still_clocks);
    match json {
        true => output::json(&Built { design: design.clone(), library, still_clocks }),
        false => output::text(&library.display().to_string()),
    }
}
