// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser model`: prints the closed forms of `riser-model` as tables, JSON and charts.

mod bw;
mod inflight;
mod nettlp;
mod nic;

use super::sizes::{Sizes, listed, mps_bytes, mrrs_bytes, rcb_bytes};
use super::words::{ADDRESSINGS, Word, one_of};
use crate::Failure;
use ::model::{Addressing, Form, Params};
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

/// Arguments that describe a link.
#[derive(clap::Args)]
struct LinkArgs {
    /// Way to count bytes
    #[arg(long, value_parser = one_of(&FORMS), default_value = "exact")]
    form: Form,

    /// Generation of the link: 1, 2, 3, 4, 5; exact form also 6, 7 (FLIT mode: arithmetic, not simulated)
    #[arg(long = "gen", value_name = "GEN", default_value_t = 3, value_parser = listed::<u8>(&[1, 2, 3, 4, 5, 6, 7]))]
    generation: u8,

    /// Lanes: 1, 2, 4, 8, 12, 16, 32
    #[arg(long, default_value_t = 8, value_parser = listed::<u8>(&[1, 2, 4, 8, 12, 16, 32]))]
    lanes: u8,

    /// Max_Payload_Size in bytes: 128 to 4096
    #[arg(long, value_name = "BYTES", default_value_t = 256, value_parser = mps_bytes::<u32>)]
    mps: u32,

    /// Max_Read_Request_Size in bytes: 128 to 4096
    #[arg(long, value_name = "BYTES", default_value_t = 512, value_parser = mrrs_bytes::<u32>)]
    mrrs: u32,

    /// Read Completion Boundary in bytes: 64, 128
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = rcb_bytes::<u32>)]
    rcb: u32,

    /// Address width of requests in bits
    #[arg(long, value_parser = one_of(&ADDRESSINGS), default_value = "64")]
    addr: Addressing,

    /// Add an ECRC to TLPs
    #[arg(long)]
    ecrc: bool,
}

const FORMS: [Word<Form>; 2] = [
    ("exact", "Count the bytes that each direction of the wire carries", Form::Exact),
    ("published", "Use the formulas of pcie-bench (SIGCOMM'18, section 3)", Form::Published),
];

impl LinkArgs {
    const fn form(&self) -> Form {
        self.form
    }

    fn params(&self) -> Result<Params, Failure> {
        let params = Params::new(self.generation, self.lanes, self.mps, self.mrrs, self.rcb);
        Ok(Params { addressing: self.addr, ecrc: self.ecrc, ..params.map_err(Failure::usage)? })
    }
}
