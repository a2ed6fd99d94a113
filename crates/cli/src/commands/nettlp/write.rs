// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp write`: writes the memory of an adapter's host by DMA.

use super::bytes::{hex, number, within_addresses};
use super::peer::{PeerArgs, failure_of, interrupted};
use crate::{Failure, input, output};
use nettlp::client::{ClientError, WriteError, WriteStep};
use std::path::PathBuf;
use worlds::tools::WriteReport;

const EXAMPLE: &str = "\
Examples:
  riser nettlp write 0x1000 --data 'de ad be ef' -r 192.168.10.1
  riser nettlp write 0 memory.bin -r 127.0.0.1 -l 127.0.0.2 --verify

Replaces dma_write. Takes any address and length: writes are split at --mps and 4 KiB, and byte enables cover only the given \
bytes. Writes are posted: they have no completion, and an adapter that refuses a write does not report it. In a session the \
command waits until the peer has acknowledged every TLP; otherwise use --verify to read back. After Ctrl-C the number of \
bytes sent is reported. With --json, prints one object:
  remote, address, length_bytes, sent_bytes (fewer than length_bytes after Ctrl-C), acknowledged (whether the peer has \
  acknowledged all TLPs: only true in a session), verified, counters: {write_tlps, read_tlps, retried, timed_out, late, copies, \
  strays}, refusals (as in riser run; omitted if empty), drops: [{reason, text, count, at_ps, peer, first}] (omitted if empty).
The exit status is 1 if the bytes could not be sent or the data read back differs, and 130 after Ctrl-C.";

/// Write the memory of an adapter's host
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
#[command(group = clap::ArgGroup::new("data").args(["file", "hex"]).required(true))]
pub(crate) struct Args {
    /// First address, decimal or with 0x
    #[arg(value_parser = number)]
    address: u64,

    /// File with the bytes to write; - is standard input
    file: Option<PathBuf>,

    /// Bytes to write, in hexadecimal
    #[arg(long = "data", alias = "hex", value_name = "HEX", value_parser = hex)]
    hex: Option<std::vec::Vec<u8>>,

    #[command(flatten)]
    peer: PeerArgs,

    /// Read the bytes back and compare
    #[arg(long)]
    verify: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let data = data(&args)?;
    let (mut client, target) = args.peer.client()?;
    let mut step = WriteStep::Send;
    let stopped = match client.write_all(args.address, &data, args.verify, &mut step) {
        Ok(()) => false,
        Err(WriteError::Client(ClientError::Stopped)) => true,
        Err(WriteError::Client(error)) => {
            return Err(failure_of(&target, &error, &client));
        }
        Err(differs) => return Err(Failure::run(differs)),
    };
    let (written, verified) = ((args.address, data.len()), args.verify && !stopped);
    let report = WriteReport::new(target.remote, &client, written, step, verified);
    match args.json {
        true => output::json(&report)?,
        false => {
            output::refusals(&report.refusals);
            report.drops.iter().for_each(output::note);
        }
    }
    if stopped { Err(interrupted(&target, &report.progress())) } else { Ok(()) }
}

fn data(args: &Args) -> Result<Vec<u8>, Failure> {
    let data = match (&args.hex, &args.file) {
        (Some(bytes), _) => bytes.clone(),
        (None, Some(path)) => input::bytes(path)?,
        (None, None) => Vec::new(),
    };
    if data.is_empty() {
        return Err(Failure::usage("no bytes to write: expected at least 1 byte"));
    }
    within_addresses(args.address, data.len() as u64)?;
    Ok(data)
}
