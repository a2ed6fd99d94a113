// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser model nettlp`: prints the rate of writes that NetTLP's packets leave on an Ethernet.

use crate::commands::sizes::Sizes;
use crate::commands::words::{ADDRESSINGS, one_of};
use crate::{Failure, output};
use model::{Addressing, encapsulated_gbps};
use serde::Serialize;

const EXAMPLES: &str = "\
Examples:
  riser model nettlp
  riser model nettlp --size 256 --ethernet 40 --addr 64 --json

Each packet carries one memory write, with data in whole DWs. Around it are 14 B of Ethernet, 20 B of IP, 8 B of UDP,
6 B of NetTLP and 4 B of FCS, and 20 B of preamble and gap (NSDI'20, section 3.2).

--json prints {\"rows\": [{size_bytes, ethernet_gbps, addr_bits, gbps}]}.";

/// Calculate the rate of memory writes over Ethernet in NetTLP's packets
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Data of each write in bytes, 1 to 4096: N, A..B (doubling from A to B) or A..B:STEP
    #[arg(long = "size", value_name = "SIZE", num_args = 1.., value_delimiter = ',', default_value = "64..1024")]
    sizes: Vec<Sizes>,

    /// Rate of the Ethernet in Gb/s: 0.001 to 100000
    #[arg(long, value_name = "GBPS", default_value_t = 10.0, value_parser = super::ethernet)]
    ethernet: f64,

    /// Address width of requests in bits
    #[arg(long, value_parser = one_of(&ADDRESSINGS), default_value = "32")]
    addr: Addressing,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row {
    size_bytes: u32,
    ethernet_gbps: f64,
    addr_bits: u8,
    gbps: f64,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let addr_bits = args.addr.bits();
    let row = |size_bytes| {
        let gbps = encapsulated_gbps(args.ethernet, size_bytes, args.addr).map_err(Failure::usage)?;
        Ok(Row { size_bytes, ethernet_gbps: args.ethernet, addr_bits, gbps })
    };
    let rows = super::expand(&args.sizes)?.into_iter().map(row).collect::<Result<Vec<_>, Failure>>()?;
    if args.json {
        return output::json_of("rows", &rows);
    }
    output::text(&format!("Writes over {} Gb/s Ethernet, {}-bit addresses", args.ethernet, addr_bits))?;
    output::table(
        &["size B", "Gb/s"],
        rows.iter().map(|row| vec![row.size_bytes.to_string(), format!("{:.3}", row.gbps)]),
    )
}
