// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser model`: prints the closed forms of `riser-model` as tables, JSON and charts.

mod bw;
mod inflight;
mod link;
mod nettlp;
mod nic;

use super::sizes::Sizes;
use crate::failure::Failure;
use clap::Subcommand;

/// Maximum number of sizes in one call.
const MAX_SIZES: usize = 100_000;

/// Calculate what a link can reach by formula, without simulation
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    model: Model,
}

const EXAMPLES: &str = "\
Examples:
  riser model bw --size 256 --gen 3 --lanes 8 --json
  riser model nic --form published --svg figure1.svg
  riser model nic --device my-nic.toml --gen 5 --lanes 16 --ethernet 400
  riser model inflight --size 128 --ethernet 40
  riser model nettlp --size 256";

#[derive(Subcommand)]
enum Model {
    Bw(bw::Args),
    Nic(nic::Args),
    Inflight(inflight::Args),
    Nettlp(nettlp::Args),
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    match args.model {
        Model::Bw(args) => bw::run(&args),
        Model::Nic(args) => nic::run(&args),
        Model::Inflight(args) => inflight::run(&args),
        Model::Nettlp(args) => nettlp::run(&args),
    }
}

/// Parses the rate of an Ethernet in Gb/s.
fn ethernet(text: &str) -> Result<f64, String> {
    let inside = text.parse::<f64>().ok().filter(|gbps| (0.001..=100_000.0).contains(gbps));
    inside.ok_or_else(|| "expected 0.001 to 100000".to_owned())
}

/// Returns the sizes of these lists, in order.
fn expand(lists: &[Sizes]) -> Result<Vec<u32>, Failure> {
    let sizes: Vec<u32> = lists.iter().flat_map(|s| s.iter()).take(MAX_SIZES + 1).collect();
    if sizes.len() > MAX_SIZES {
        return Err(Failure::usage(format!(
            "more than {MAX_SIZES} sizes, expected fewer: use a larger STEP"
        )));
    }
    Ok(sizes)
}
