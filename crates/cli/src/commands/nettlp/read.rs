// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp read`: memory behind an adapter, read by DMA.

use super::bytes::{dump, number, within_addresses};
use super::peer::{PeerArgs, failure};
use crate::failure::Failure;
use crate::output;
use crate::progress;
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Bytes of one transfer: what is read before it is written out.
const CHUNK_BYTES: u64 = 1 << 20;
/// Bytes that are shown as text; more want a file.
const SHOWN_BYTES: u64 = 16 << 20;

const EXAMPLE: &str = "\
Examples:
  riser nettlp read 0x1000 256 -r 192.168.10.1
  riser nettlp read 0 64M -r 127.0.0.1 -l 127.0.0.2 -o memory.bin

In place of dma_read. Any address and any length: reads are cut at --mrrs and 4 KiB, and pipelined over the tags. Without -o
the bytes are shown in hexadecimal. A file is not overwritten. --json prints one object:
  remote, address, length_bytes, data (hexadecimal, without -o), output (with -o), counters: {read_tlps, retried, timed_out,
  late, copies, strays}
The exit status is 1 where any byte could not be read: refused (Unsupported Request), or not answered.";

/// Read memory behind an adapter
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// First address, decimal or with 0x
    #[arg(value_parser = number)]
    address: u64,

    /// Bytes, decimal or with 0x, with K, M, G for powers of 1024
    #[arg(value_parser = number)]
    length: u64,

    #[command(flatten)]
    peer: PeerArgs,

    /// Write the bytes to a new file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    remote: String,
    address: u64,
    length_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    counters: super::counters::Counters,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    check(&args)?;
    let mut client = args.peer.client(args.peer.requester()?, args.peer.tags_of_one())?;
    let mut file = args.output.as_ref().map(create).transpose()?;
    let mut shown = Vec::new();
    let mut chunk = vec![0; args.length.min(CHUNK_BYTES) as usize];
    let (bar, begun) = (progress::bar("{bar:30} {bytes}/{total_bytes}, {eta} left"), Instant::now());
    bar.set_length(args.length);
    let mut done = 0;
    while done < args.length {
        let part = &mut chunk[..(args.length - done).min(CHUNK_BYTES) as usize];
        client.read(args.address + done, part).map_err(|e| failure(&args.peer, &e))?;
        match &mut file {
            Some(file) => file.write_all(part).map_err(|e| in_file(&args, &e))?,
            None => shown.extend_from_slice(part),
        }
        done += part.len() as u64;
        if begun.elapsed() > Duration::from_secs(2) {
            bar.set_position(done);
        }
    }
    bar.finish_and_clear();
    if args.json {
        let data = file.is_none().then(|| shown.iter().map(|byte| format!("{byte:02x}")).collect());
        return output::json(&Report {
            remote: args.peer.remote().to_string(),
            address: args.address,
            length_bytes: args.length,
            data,
            output: args.output.map(|path| path.display().to_string()),
            counters: client.counters().into(),
        });
    }
    match file {
        Some(_) => Ok(()),
        None => output::text(dump(args.address, &shown).trim_end()),
    }
}

fn check(args: &Args) -> Result<(), Failure> {
    if args.length == 0 {
        return Err(Failure::usage("length 0: legal are 1 byte and more"));
    }
    within_addresses(args.address, args.length)?;
    if args.output.is_none() && args.length > SHOWN_BYTES {
        let length = args.length;
        return Err(Failure::usage(format!(
            "{length} bytes are too many to show (at most {SHOWN_BYTES}): use -o FILE"
        )));
    }
    Ok(())
}

fn create(path: &PathBuf) -> Result<File, Failure> {
    File::create_new(path).map_err(|e| Failure::Run(format!("{}: {e}", path.display())))
}

fn in_file(args: &Args, error: &std::io::Error) -> Failure {
    let path = args.output.as_deref().unwrap_or_else(|| "standard output".as_ref());
    Failure::Run(format!("{}: {error}", path.display()))
}
