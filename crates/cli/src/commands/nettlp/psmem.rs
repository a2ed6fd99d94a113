// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp psmem`: serves an adapter's BAR4 from memory, with the completer of `riser-nettlp`.

use super::bytes::{number, within_addresses};
use super::target::TargetArgs;
use crate::commands::sizes::mps;
use crate::progress::{EVERY, PATIENCE};
use crate::{Failure, interrupt, output, progress};
use nettlp::client::control::ControlError;
use nettlp::completer::Image;
use nettlp::net::AnyCarrier;
use nettlp::psmem::{Psmem, Window, serve};
use nettlp::tools::{Scheme, Target};
use session::report::SeenRefusals;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tlp::{Bdf, Mps};
use worlds::tools::PsmemReport;

const EXAMPLE: &str = "\
Examples:
  riser nettlp psmem -r 192.168.10.1
  riser nettlp psmem -r 127.0.0.1 -l 127.0.0.2 --base 0xfe000000 --bar-size 1M --bus 1b:00.0
  riser nettlp psmem -r 192.168.10.1 --file bar4.bin --write-back --json

Replaces psmem. Answers the host's accesses to BAR4, over a session or on ports 0x4000 to 0x400f, until Ctrl-C. Reads beyond \
the memory complete with Unsupported Request. Completions are split at 128 B boundaries, as an endpoint's are, and at \
--mps. Prints the counters at the end; --json prints one object:
  remote, carrier (session or tagged), base, size_bytes, seconds, received, malformed, mended, wrong_digest, unanswered (TLPs), \
  completer: {reads, read_bytes, writes, written_bytes, completions, reads_out_of_range, ...}, sockets: {received_datagrams, \
  sent_datagrams, malformed_datagrams}, refusals (as in riser run; omitted if empty).
Standard error shows the first refused TLP of each kind at once.";

/// Answer the host's reads and writes of BAR4 from memory
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,

    /// Address of BAR4 [default: ask the driver of the adapter's host]
    #[arg(long, value_name = "ADDRESS", value_parser = number)]
    base: Option<u64>,

    /// Bytes of BAR4 [default: 64K, or the size of --file]
    #[arg(long = "bar-size", alias = "size", value_name = "BYTES", value_parser = number)]
    size: Option<u64>,

    /// Initial content of the memory, followed by zeroes
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Write the memory back to its file, at the end
    #[arg(long, requires = "file", conflicts_with = "size")]
    write_back: bool,

    /// ID of the adapter's function, the completer [default: 00:00.0 with --base, otherwise from the driver of the adapter's host]
    #[arg(short, long, value_name = "BUS:DEVICE.FUNCTION")]
    bus: Option<Bdf>,

    /// Max_Payload_Size in bytes: limit of the data of a completion
    #[arg(long, value_name = "BYTES", default_value = "256", value_parser = mps)]
    mps: Mps,

    /// Poll instead of sleeping: lowest latency, but occupies a core
    #[arg(long = "busy-poll", alias = "busy")]
    busy: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let image = Arc::new(image(&args)?);
    let target = args.target.target()?;
    let (base, id) = place(&args, &target)?;
    within_addresses(base, image.bytes())?;
    let interrupted = interrupt::flag()?;
    #[expect(clippy::reversed_empty_ranges, reason = "psmem sends no requests")]
    let tags = if target.scheme == Scheme::Paper { 0..=15 } else { 1..=0 };
    let mut carrier = target.open(tags, true).map_err(Failure::run)?;
    let name = PsmemReport::carrier(&carrier);
    let mut psmem = Psmem::new(id, args.mps, Window { base, image: image.clone() });
    // A program that starts this command waits for this line.
    output::note(format_args!("{} bytes at {base:#x}, for {}, carrier {name}", image.bytes(), target.remote));
    let began = Instant::now();
    let served = until_interrupted(&mut carrier, &mut psmem, args.busy, &interrupted);
    let seconds = began.elapsed().as_secs_f64();
    // Write back and report after an error too.
    let written_back = image.write_back();
    let report = PsmemReport::new(target.remote, &carrier, (base, image.bytes()), seconds, &psmem);
    output::report(args.json, &report)?;
    served.map_err(|e| Failure::Run(format!("{}: {e}", target.remote)))?;
    written_back.map_err(|e| in_file(&args, &e))?;
    Ok(())
}

fn image(args: &Args) -> Result<Image, Failure> {
    let Some(path) = &args.file else {
        let bytes = args.size.unwrap_or(64 << 10);
        return Image::zeroes(bytes).map_err(|e| Failure::usage(format!("--bar-size: {e}")));
    };
    let image = if args.write_back { Image::file(path, true) } else { Image::copy(path, args.size) };
    image.map_err(|e| in_file(args, &e))
}

fn in_file(args: &Args, error: &io::Error) -> Failure {
    let path = args.file.as_deref().unwrap_or_else(|| "memory".as_ref());
    Failure::Run(format!("{}: {error}", path.display()))
}

/// Returns first address and Completer ID: as given, or asks the driver of the adapter's host.
fn place(args: &Args, target: &Target) -> Result<(u64, Bdf), Failure> {
    if let Some(base) = args.base {
        return Ok((base, args.bus.unwrap_or_default()));
    }
    let asked = |e: ControlError| Failure::Run(format!("{e}; name BAR4's address with --base"));
    let mut driver = target.messaging().map_err(asked)?;
    let base = driver.bar4_start().map_err(asked)?;
    let id = args.bus.map_or_else(|| driver.device_id(), Ok).map_err(asked)?;
    Ok((base, id))
}

fn until_interrupted(
    carrier: &mut AnyCarrier,
    psmem: &mut Psmem<Window>,
    busy: bool,
    interrupted: &AtomicBool,
) -> io::Result<()> {
    let (bar, mut seen) = (progress::spinner("{spinner} {elapsed} {msg}"), SeenRefusals::default());
    // One iteration takes a microsecond, or 50 ms without traffic. The clock is read in every 16th iteration.
    let (mut turns, mut shown) = (0_u32, (Instant::now(), 0));
    let served = serve(carrier, psmem, busy, |psmem| {
        turns = turns.wrapping_add(1);
        let new = seen.new_kinds(psmem.refusals().len(), || PsmemReport::refusals(psmem));
        new.iter().for_each(output::note);
        if turns.is_multiple_of(16) && shown.0.elapsed() >= EVERY && bar.elapsed() >= PATIENCE {
            let received = psmem.counters().received;
            let rate = (received - shown.1) as f64 / shown.0.elapsed().as_secs_f64();
            bar.set_message(format!("{received} TLPs, {rate:.0} per second"));
            shown = (Instant::now(), received);
        }
        !interrupted.load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    served
}
