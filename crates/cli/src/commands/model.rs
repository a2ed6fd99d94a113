// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser model`: the closed-form bandwidth model, from `riser-model`. Never computes a bandwidth itself.

use super::sizes::Sizes;
use crate::failure::Failure;
use crate::output;
use clap::{Subcommand, ValueEnum};
use model::{Addressing, Bandwidth, Dllps, Measured, Params, Transfer};
use serde::Serialize;
use std::str::FromStr;

/// Sizes that one call answers at most.
const MAX_SIZES: usize = 100_000;

/// What a link can reach, by formula alone
#[derive(clap::Args)]
#[command(after_help = "Example:\n  riser model bw --size 256 --gen 3 --lanes 8 --json")]
pub(crate) struct Args {
    #[command(subcommand)]
    model: Model,
}

#[derive(Subcommand)]
enum Model {
    Bw(BwArgs),
}

const BW_EXAMPLE: &str = "\
Examples:
  riser model bw --size 256
  riser model bw --form published --size 64..2048 --gen 3 --lanes 8 --mps 256 --mrrs 512
  riser model bw --size 256 --dllps write=0,0.17 --json

--json prints one object for one size, and {\"rows\": [OBJECT, ...]} for several.
It repeats the question:
  form, gen, lanes, mps_bytes, mrrs_bytes, rcb_bytes, addr_bits, ecrc,
  size_bytes, offset_bytes
and answers in 10^9 bits per second, payload of one direction:
  raw_gbps, tlp_gbps, write_gbps, read_gbps, read_write_gbps
Form exact adds write, read and read_write, each with what the two directions
carry per transfer; form published adds equations, with bytes per transfer.";

/// Payload bandwidth of memory reads, writes, and both in turn
#[derive(clap::Args)]
#[command(after_help = BW_EXAMPLE)]
struct BwArgs {
    /// Transfer sizes in bytes: N, A..B (doubling from A to B) or A..B:STEP
    #[arg(long = "size", value_name = "SIZE", required = true, num_args = 1..)]
    sizes: Vec<Sizes>,

    /// How to count
    #[arg(long, value_enum, default_value_t = Form::Exact)]
    form: Form,

    /// Generation of the link: 1, 2, 3, 4, 5
    #[arg(long = "gen", value_name = "GEN", default_value_t = 3)]
    generation: u8,

    /// Lanes: 1, 2, 4, 8, 12, 16, 32
    #[arg(long, default_value_t = 8)]
    lanes: u8,

    /// Max_Payload_Size in bytes: 128 to 4096
    #[arg(long, value_name = "BYTES", default_value_t = 256)]
    mps: u32,

    /// Max_Read_Request_Size in bytes: 128 to 4096
    #[arg(long, value_name = "BYTES", default_value_t = 512)]
    mrrs: u32,

    /// Read Completion Boundary in bytes: 64, 128
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    rcb: u32,

    /// Address width of requests in bits
    #[arg(long, value_enum, default_value_t = Addr::A64)]
    addr: Addr,

    /// TLPs carry an ECRC
    #[arg(long)]
    ecrc: bool,

    /// Start of each transfer behind a 4 KiB boundary, in bytes; exact form only
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    offset: u32,

    /// Counted DLLPs per transfer in place of the model's own rule, device to host and host to device, for
    /// write, read or read_write (per pair); exact form only. Can be given once for each
    #[arg(long, value_name = "KIND=UP,DOWN")]
    dllps: Vec<KindDllps>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Count the bytes that each direction of the wire carries
    Exact,
    /// As pcie-bench (SIGCOMM'18, section 3) prints it
    Published,
}

#[derive(Clone, Copy, ValueEnum)]
enum Addr {
    /// Below 4 GiB: headers of 3 DW
    #[value(name = "32")]
    A32,
    /// Headers of 4 DW
    #[value(name = "64")]
    A64,
}

/// One kind of traffic and its DLLPs.
#[derive(Clone, Copy)]
struct KindDllps {
    kind: Kind,
    measured: Measured,
}

#[derive(Clone, Copy)]
enum Kind {
    Write,
    Read,
    ReadWrite,
}

impl FromStr for KindDllps {
    type Err = String;

    fn from_str(text: &str) -> Result<KindDllps, String> {
        let legal = || "legal are write, read or read_write, then =UP,DOWN with two numbers".to_owned();
        let (kind, counts) = text.split_once('=').ok_or_else(legal)?;
        let (up, down) = counts.split_once(',').ok_or_else(legal)?;
        let number = |n: &str| n.parse::<f64>().map_err(|_| legal());
        let kind = match kind {
            "write" => Kind::Write,
            "read" => Kind::Read,
            "read_write" => Kind::ReadWrite,
            _ => return Err(legal()),
        };
        Ok(KindDllps { kind, measured: Measured { up: number(up)?, down: number(down)? } })
    }
}

/// Answers for several sizes.
#[derive(Serialize)]
struct Rows {
    rows: Vec<Bandwidth>,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    match args.model {
        Model::Bw(args) => bw(&args),
    }
}

fn bw(args: &BwArgs) -> Result<(), Failure> {
    let params = args.params()?;
    let dllps = args.dllps()?;
    let sizes: Vec<u32> = args.sizes.iter().flat_map(|s| s.iter()).take(MAX_SIZES + 1).collect();
    if sizes.len() > MAX_SIZES {
        return Err(Failure::usage(format!("more than {MAX_SIZES} sizes: take a larger STEP")));
    }
    let rows =
        sizes.into_iter().map(|size| answer(args, &params, size, &dllps)).collect::<Result<Vec<_>, _>>()?;
    match (args.json, rows.as_slice()) {
        (true, [one]) => output::json(one),
        (true, _) => output::json(&Rows { rows }),
        (false, rows) => print_table(&params, rows),
    }
}

impl BwArgs {
    fn params(&self) -> Result<Params, Failure> {
        let params = Params::new(self.generation, self.lanes, self.mps, self.mrrs, self.rcb);
        let addressing = match self.addr {
            Addr::A32 => Addressing::A32,
            Addr::A64 => Addressing::A64,
        };
        Ok(Params { addressing, ecrc: self.ecrc, ..params.map_err(Failure::usage)? })
    }

    fn dllps(&self) -> Result<Dllps, Failure> {
        if self.form == Form::Published && !self.dllps.is_empty() {
            return Err(Failure::usage("--dllps: only --form exact takes counts"));
        }
        let mut dllps = Dllps::default();
        for given in &self.dllps {
            let place = match given.kind {
                Kind::Write => &mut dllps.write,
                Kind::Read => &mut dllps.read,
                Kind::ReadWrite => &mut dllps.read_write,
            };
            *place = Some(given.measured);
        }
        Ok(dllps)
    }
}

fn answer(args: &BwArgs, params: &Params, size_bytes: u32, dllps: &Dllps) -> Result<Bandwidth, Failure> {
    let transfer = Transfer { size_bytes, offset_bytes: args.offset };
    let answer = match args.form {
        Form::Exact => model::exact(params, transfer, dllps),
        Form::Published => model::published(params, transfer),
    };
    answer.map_err(Failure::usage)
}

fn print_table(params: &Params, rows: &[Bandwidth]) -> Result<(), Failure> {
    let Some(first) = rows.first() else { return Ok(()) };
    output::text(&format!(
        "{}: Gen{} {}, MPS {}, MRRS {}, RCB {}, {}-bit addresses: raw {:.3} Gb/s, for TLPs {:.3} Gb/s",
        match first.form {
            model::Form::Exact => "exact",
            model::Form::Published => "published",
        },
        first.generation,
        params.width,
        params.mps,
        params.mrrs,
        params.rcb,
        first.addr_bits,
        first.raw_gbps,
        first.tlp_gbps
    ))?;
    let cells = rows.iter().map(|row| {
        let gbps = |x: f64| format!("{x:.3}");
        vec![row.size_bytes.to_string(), gbps(row.write_gbps), gbps(row.read_gbps), gbps(row.read_write_gbps)]
    });
    output::table(&["size B", "write Gb/s", "read Gb/s", "read+write Gb/s"], cells)
}
