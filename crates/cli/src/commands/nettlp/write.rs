// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp write`: memory behind an adapter, written by DMA.

use super::bytes::{hex, number, within_addresses};
use super::peer::{PeerArgs, failure, interrupted};
use crate::failure::Failure;
use crate::{input, interrupt, output};
use nettlp::client::{Client, ClientError};
use nettlp::net::AnyCarrier;
use serde::Serialize;
use std::path::PathBuf;
use tlp::Duration;

/// How long a peer that acknowledges may take for the rest.
const SETTLE: Duration = Duration::from_ms(5000);

const EXAMPLE: &str = "\
Examples:
  riser nettlp write 0x1000 --hex 'de ad be ef' -r 192.168.10.1
  riser nettlp write 0 memory.bin -r 127.0.0.1 -l 127.0.0.2 --verify

In place of dma_write. Any address and any length: writes are cut at --mps and 4 KiB, and only bytes that are written are \
enabled. Writes are posted: nobody answers them, and an adapter that refuses one says nothing. In a session the peer \
acknowledges every TLP, and this waits for that; else --verify reads back. Ctrl-C ends it, and how many bytes were sent by \
then is said. --json prints one object:
  remote, address, length_bytes, sent_bytes (fewer than length_bytes after Ctrl-C), acknowledged (whether the peer has \
  acknowledged all: true in a session alone), verified, counters: {write_tlps, read_tlps, retried, timed_out, late, copies, \
  strays}
The exit status is 1 where the bytes could not be sent, or are not there when read back; after Ctrl-C 130.";

/// Write memory behind an adapter
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
#[command(group = clap::ArgGroup::new("data").args(["file", "hex"]).required(true))]
pub(crate) struct Args {
    /// First address, decimal or with 0x
    #[arg(value_parser = number)]
    address: u64,

    /// The file whose bytes are written; - is standard input
    file: Option<PathBuf>,

    /// The bytes, in hexadecimal
    #[arg(long, value_name = "BYTES", value_parser = hex)]
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

#[derive(Serialize)]
struct Report {
    remote: String,
    address: u64,
    length_bytes: usize,
    sent_bytes: u64,
    acknowledged: bool,
    verified: bool,
    counters: super::counters::Counters,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let data = data(&args)?;
    let stop = interrupt::flag()?;
    let mut client = args.peer.client(args.peer.requester()?, args.peer.tags_of_one())?;
    client.stop_with(stop);
    let mut step = "sent";
    let written = write(&args, &mut client, &data, &mut step);
    let stopped = matches!(written, Err(Ended::Client(ClientError::Stopped)));
    let sent = client.counters().written_bytes;
    if !stopped {
        written.map_err(|ended| match ended {
            Ended::Client(error) => failure(&args.peer, &error),
            Ended::Differs(failure) => failure,
        })?;
    }
    if args.json {
        output::json(&Report {
            remote: args.peer.remote().to_string(),
            address: args.address,
            length_bytes: data.len(),
            sent_bytes: sent,
            acknowledged: client.is_reliable() && step == "read back",
            verified: args.verify && !stopped,
            counters: client.counters().into(),
        })?;
    }
    if !stopped {
        return Ok(());
    }
    let (length, address) = (data.len(), args.address);
    let rest = if sent < length as u64 { String::new() } else { format!(", not all of them {step}") };
    Err(interrupted(&args.peer, &format!("{sent} of {length} bytes were sent, from {address:#x} on{rest}")))
}

/// Why a write ended early.
enum Ended {
    Client(ClientError),
    Differs(Failure),
}

impl From<ClientError> for Ended {
    fn from(error: ClientError) -> Ended {
        Ended::Client(error)
    }
}

/// Writes, waits, and reads back; `step` says what is under way.
fn write(
    args: &Args,
    client: &mut Client<AnyCarrier>,
    data: &[u8],
    step: &mut &'static str,
) -> Result<(), Ended> {
    client.write(args.address, data)?;
    *step = "acknowledged";
    client.settle(SETTLE)?;
    *step = "read back";
    if args.verify {
        // Where each tag has a port, reads may overtake writes, but not this one: the first read has the tag of all writes.
        client.read(args.address, &mut [0])?;
        let mut found = vec![0; data.len()];
        client.read(args.address, &mut found)?;
        compare(args.address, data, &found).map_err(Ended::Differs)?;
    }
    Ok(())
}

fn data(args: &Args) -> Result<Vec<u8>, Failure> {
    let data = match (&args.hex, &args.file) {
        (Some(bytes), _) => bytes.clone(),
        (None, Some(path)) => input::bytes(path)?,
        (None, None) => Vec::new(),
    };
    if data.is_empty() {
        return Err(Failure::usage("no bytes to write: legal are 1 byte and more"));
    }
    within_addresses(args.address, data.len() as u64)?;
    Ok(data)
}

fn compare(address: u64, written: &[u8], found: &[u8]) -> Result<(), Failure> {
    let differs = written.iter().zip(found).position(|(written, found)| written != found);
    let Some(at) = differs else { return Ok(()) };
    let (there, expected, place) = (found[at], written[at], address + at as u64);
    Err(Failure::Run(format!(
        "byte {place:#x} is {there:#04x} after {expected:#04x} was written: writes are refused there, were lost, or \
         somebody else writes too"
    )))
}
