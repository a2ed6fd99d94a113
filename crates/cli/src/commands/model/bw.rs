// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser model bw`: prints payload bandwidth by transfer size.

use super::LinkArgs;
use crate::commands::sizes::{Sizes, whole};
use crate::{Failure, output};
use model::{Bandwidth, Dllps, Form, KindDllps, Params, Transfer};

const EXAMPLES: &str = "\
Examples:
  riser model bw --size 256
  riser model bw --form published --size 64..2048 --gen 3 --lanes 8 --mps 256 --mrrs 512
  riser model bw --size 256 --measured-dllps write=0,0.17 --json
  riser model bw --size 64..4096 --gen 6 --lanes 16

--json prints one object for one size, and {\"rows\": [OBJECT, ...]} for several.
The object repeats the arguments, and adds the basis of the result:
  form, basis, gen, lanes, mps_bytes, mrrs_bytes, rcb_bytes, addr_bits, ecrc,
  size_bytes, offset_bytes.
The bandwidths are in 10^9 bits per second, payload of one direction:
  raw_gbps, tlp_gbps, write_gbps, read_gbps, read_write_gbps.
Form exact adds write, read and read_write, each with what the two directions
carry per transfer; form published adds equations, with bytes per transfer.";

/// Calculate the payload bandwidth of memory reads, of writes, and of both alternating
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Sizes of transfers in bytes: N, A..B (doubling from A to B) or A..B:STEP
    #[arg(long = "size", value_name = "SIZE", required = true, num_args = 1.., value_delimiter = ',')]
    sizes: Vec<Sizes>,

    #[command(flatten)]
    link: LinkArgs,

    /// Offset of each transfer in bytes, from a 4 KiB boundary; exact form only
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = whole::<u32>(0..=4095))]
    offset: u32,

    /// Measured DLLPs per transfer, which replace the model's own rule. UP is from device to host, DOWN from host to
    /// device, for write, read or read_write (per pair); exact form only. Can be given once for each
    #[arg(long = "measured-dllps", alias = "dllps", value_name = "KIND=UP,DOWN")]
    dllps: Vec<KindDllps>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let params = args.link.params()?;
    if args.link.form() == Form::Published && !args.dllps.is_empty() {
        return Err(Failure::usage("--measured-dllps: requires --form exact"));
    }
    let dllps = args.dllps.iter().copied().collect();
    let sizes = super::expand(&args.sizes)?;
    let rows =
        sizes.into_iter().map(|size| answer(args, &params, size, &dllps)).collect::<Result<Vec<_>, _>>()?;
    match (args.json, rows.as_slice()) {
        (true, [one]) => output::json(one),
        (true, rows) => output::json_of("rows", &rows),
        (false, rows) => print_table(&params, rows),
    }
}

fn answer(args: &Args, params: &Params, size_bytes: u32, dllps: &Dllps) -> Result<Bandwidth, Failure> {
    let transfer = Transfer { size_bytes, offset_bytes: args.offset };
    let answer = match args.link.form() {
        Form::Exact => model::exact(params, transfer, dllps),
        Form::Published => model::published(params, transfer),
    };
    answer.map_err(Failure::usage)
}

fn print_table(params: &Params, rows: &[Bandwidth]) -> Result<(), Failure> {
    let Some(first) = rows.first() else { return Ok(()) };
    output::text(&format!(
        "{}: {}: raw {:.3} Gb/s, for TLPs {:.3} Gb/s; basis: {}",
        first.form.name(),
        params.describe(),
        first.raw_gbps,
        first.tlp_gbps,
        first.basis.text()
    ))?;
    if let Some(note) = params.flit_note() {
        output::text(&note)?;
    }
    let cells = rows.iter().map(|row| {
        let gbps = |x: f64| format!("{x:.3}");
        vec![row.size_bytes.to_string(), gbps(row.write_gbps), gbps(row.read_gbps), gbps(row.read_write_gbps)]
    });
    output::table(&["size B", "write Gb/s", "read Gb/s", "read+write Gb/s"], cells)
}
