// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp read`: reads the memory of an adapter's host by DMA.

use super::bytes::{number, within_addresses};
use super::peer::{PeerArgs, failure_of, interrupted};
use crate::{Failure, output, progress};
use files::{ClaimedOutput, Output};
use std::io::Write;
use std::path::PathBuf;
use worlds::tools::ReadReport;

/// Bytes per read and per write to the file.
const CHUNK_BYTES: u64 = 1 << 20;
/// Maximum number of bytes in a hexadecimal dump.
const SHOWN_BYTES: u64 = 16 << 20;

const EXAMPLE: &str = "\
Examples:
  riser nettlp read 0x1000 256 -r 192.168.10.1
  riser nettlp read 0 64M -r 127.0.0.1 -l 127.0.0.2 -o memory.bin

Replaces dma_read. Takes any address and length: reads are split at --mrrs and 4 KiB, and pipelined over the tags. Without -o \
the bytes are printed in hexadecimal. After Ctrl-C the bytes read so far are printed or written, and their number is reported. \
With --json, prints one object:
  remote, address, length_bytes, read_bytes (fewer than length_bytes after Ctrl-C), data (hexadecimal, without -o), output \
  (with -o), counters: {read_tlps, retried, timed_out, late, copies, strays}, \
  refusals (as in riser run; omitted if empty), drops: [{reason, text, count, at_ps, peer, first}] (omitted if empty).
The exit status is 1 if a read was refused (Unsupported Request) or not answered, and 130 after Ctrl-C.";

/// Read the memory of an adapter's host
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

    /// Write the bytes to this file; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Overwrite existing files
    #[arg(long, requires = "output")]
    force: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    check(&args)?;
    let (mut client, target) = args.peer.client()?;
    let output = output::files(args.force).claim_if("-o", args.output.as_deref())?;
    let mut file = output.map(ClaimedOutput::open).transpose()?;
    let mut shown = Vec::new();
    let mut chunk = vec![0; args.length.min(CHUNK_BYTES) as usize];
    let bar = progress::bar("{bar:30} {bytes}/{total_bytes}, {eta} left");
    bar.set_length(args.length);
    let (mut done, mut whole) = (0, true);
    while done < args.length && whole {
        let part = &mut chunk[..(args.length - done).min(CHUNK_BYTES) as usize];
        let read = client.read_until_stopped(args.address + done, part);
        let read = read.map_err(|error| failure_of(&target, &error, &client))?;
        (whole, done) = (read == part.len(), done + read as u64);
        match &mut file {
            Some(file) => file.write_all(&part[..read]).map_err(|e| file.failed(&e))?,
            None => shown.extend_from_slice(&part[..read]),
        }
        if bar.elapsed() > progress::PATIENCE {
            bar.set_position(done);
        }
    }
    bar.finish_and_clear();
    file.map_or(Ok(()), Output::finish)?;
    let (Args { address, length, output, json, .. }, remote) = (args, target.remote);
    let output = output.map(|path| path.display().to_string());
    let report = ReadReport::new(remote, &client, (address, length, done), shown, output);
    if !json {
        output::refusals(&report.refusals);
        report.drops.iter().for_each(output::note);
    }
    output::report(json, &report)?;
    if whole {
        return Ok(());
    }
    Err(interrupted(&target, &format!("{done} of {length} bytes were read, from {address:#x} on")))
}

fn check(args: &Args) -> Result<(), Failure> {
    if args.length == 0 {
        return Err(Failure::usage("length 0: expected at least 1 byte"));
    }
    within_addresses(args.address, args.length)?;
    if args.output.is_none() && args.length > SHOWN_BYTES {
        let length = args.length;
        let why = format!("{length} bytes without -o: expected at most {SHOWN_BYTES}; use -o FILE");
        return Err(Failure::usage(why));
    }
    Ok(())
}
