// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser trace`: shows captures, from `riser-capture`. Never decodes a byte itself.
//!
//! Each view of a capture is a module with a function that takes the arguments. This module selects the view.

mod check;
mod lines;
mod sequence;
mod stats;
mod to_file;

use super::reading::{self, Reading};
use super::words::one_of;
use crate::commands::sizes::{listed, whole};
use crate::{Failure, input, interrupt, output};
use capture::credits::Ledgers;
use capture::reader::BadRecords;
use capture::{Filter, Reader, Record, Sieve};
use clap::ValueEnum;
use files::ClaimedOutput;
use nettlp::net::{LiveCapture, LiveCounts, LiveError};
use plug::Models;
use std::borrow::Cow;
use std::io::Read;
use std::path::{Path, PathBuf};
use to_file::{LINK_TYPES, LinkType};

const EXAMPLE: &str = "\
Examples:
  riser trace capture.pcapng
  riser trace capture.pcapng --json | head
  riser trace -x --filter 'type=MWr' capture.pcapng
  riser trace --stats *.pcap
  riser trace --transactions --filter 'type=MRd and time>1us' capture.pcapng
  riser trace --sequence --filter 'slot=disk and type=MRd' capture.pcapng
  riser trace --stats --interval 10us --format csv capture.pcapng > series.csv
  riser trace --credits --filter 'slot=nic and dir=up' capture.pcapng
  riser trace --check capture.pcapng
  riser trace --html capture.html capture.pcapng
  riser trace --perfetto capture.json capture.pcapng
  riser trace --write tlps.pcapng --linktype 125 capture.pcapng
  riser trace --write-hex tlps.txt capture.pcapng
  riser trace -i lo --filter 'type=MWr' --capture live.pcap

Reads pcap and pcapng with Ethernet, IPv4 or IPv6, UDP and NetTLP, or with TLPs alone (LINKTYPE_PCI_EXP), and text: \
hexadecimal TLPs, kernel logs, lspci -vvv, rasdaemon, PCILeech and mmiotrace. A note on standard error names the detected format; \
docs/formats.md has examples. Unreadable records are shown where they occur, and counted, and \
the rest is read; the exit status stays 0 without --check. --json prints a line per record: TLPs with timestamp_ps, type, requester, \
completer, tag, address, length_dw, byte_count, status and payload_bytes where the type has them; with --transactions a \
line per transaction and one with its summary; with --stats one object. If there are several files, each object also \
names its file. docs/reference/trace.md lists all fields and the filter language. If a filter names a slot, link or \
interface that a file does not have, a note on standard error lists the existing ones.

Each line ends with the meaning of the TLP, if the capture shows it: a configuration register by name and field, an interrupt by \
function and vector, a device's register by its name. Names need the enumeration in the capture.

--sequence draws up to 20 transactions, each with all links that the capture shows. --filter selects them: 'number=120' is the \
transaction with the TLP of record 120. A replayed TLP is drawn once.

With -i, riser captures an interface until Ctrl-C, in place of NetTLP's tcpdump; all views except --html, \
--perfetto, --write and --write-hex support it. Only frames on NetTLP's ports over IPv4 and IPv6 are captured. \
--capture writes all of them; --filter does not apply to it. Datagrams that the kernel merged are split. The first fragment of a fragmented \
datagram is shown as a fragment, and counted.

--check judges a trace by the rules of the specification: headers, completions, tags, sizes, the order of posted requests and credits. It prints a line for each violation, with time, field, value, expected value, section, rule and the TLP, then a summary with the settings that it used and what it did not judge. riser rules explains a rule. The exit status is 1 if a rule is broken, no TLP was judged, or the file is cut or damaged.

Acks, replays, lost frames and credits are shown if the capture has DLLPs, as from riser run --capture OUT --dllps.";

/// Show captures: TLPs, transactions, or statistics
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
#[command(group = clap::ArgGroup::new("view").args(["transactions", "sequence", "stats", "credits", "check", "html", "perfetto", "write", "write_hex"]))]
pub(crate) struct Args {
    /// Captures: pcap, pcapng, or text with TLPs; - is standard input
    #[arg(value_name = "FILE", required_unless_present = "interface")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    reading: Reading,

    /// Capture on this interface until Ctrl-C, in place of files; needs root or CAP_NET_RAW
    #[arg(short, long, value_name = "IFACE", conflicts_with_all = ["files", "html", "perfetto", "write", "write_hex"])]
    interface: Option<String>,

    /// Write the captured frames to this pcap file too; needs -i
    #[arg(long, value_name = "OUT.pcap", requires = "interface")]
    capture: Option<PathBuf>,

    /// Show only records that match EXPR, such as 'type=MRd and (tag=0x12 or time>1us)'; errors list the known names
    #[arg(long, value_name = "EXPR", conflicts_with = "check")]
    filter: Option<String>,

    /// Print one line per transaction instead of records: request, completions, Ack, times, errors; and a summary
    #[arg(long)]
    transactions: bool,

    /// Print a sequence diagram of the first transactions: their TLPs as arrows between components, with times
    #[arg(long, conflicts_with = "json")]
    sequence: bool,

    /// Write an SVG picture to this file: the diagram of --sequence
    #[arg(long, value_name = "OUT.svg", requires = "sequence")]
    svg: Option<PathBuf>,

    /// Print the data of TLPs too, in hexadecimal and as text; with --json as a field
    #[arg(short = 'x', long, conflicts_with = "view")]
    hex: bool,

    /// Print counts, sizes, outstanding requests and errors instead of records
    #[arg(long)]
    stats: bool,

    /// Print statistics over time, for intervals of this length, such as 10us, or auto for about 20 intervals; needs --stats
    #[arg(long, value_name = "TIME", requires = "stats", value_parser = interval)]
    interval: Option<Interval>,

    /// Print the credits before and after each TLP; needs a capture with DLLPs
    #[arg(long)]
    credits: bool,

    /// The virtual channel of each traffic class from 0, such as 0,0,0,0,1,1,1,1; captures do not contain this mapping
    #[arg(long, value_name = "VC,...", value_parser = vc_map)]
    vc_of_tc: Option<[u8; 8]>,

    #[command(flatten)]
    check: check::CheckArgs,

    /// Write an HTML page to this file: the list, graphs and a filter box; it needs no network
    #[arg(long, value_name = "OUT.html", conflicts_with_all = ["filter", "json"])]
    html: Option<PathBuf>,

    /// Write trace events for the Perfetto viewer to this file
    #[arg(long, value_name = "OUT.json")]
    perfetto: Option<PathBuf>,

    /// Write the TLPs to this file as pcapng
    #[arg(long, value_name = "OUT.pcapng", conflicts_with = "json")]
    write: Option<PathBuf>,

    /// Link type of the --write file
    #[arg(long, value_name = "TYPE", value_parser = one_of(&LINK_TYPES), requires = "write", default_value = "125")]
    linktype: LinkType,

    /// Write the TLPs to this file as hexadecimal text, one per line
    #[arg(long, value_name = "OUT.txt", conflicts_with = "json")]
    write_hex: Option<PathBuf>,

    /// Overwrite existing files
    #[arg(long)]
    force: bool,

    /// Generation of the link: 1 to 5, for utilization, if the capture does not contain the speed
    #[arg(long = "gen", value_name = "GEN", requires = "lanes", value_parser = whole::<u8>(1..=5))]
    generation: Option<u8>,

    /// Lanes: their number, with --gen
    #[arg(long, value_name = "LANES", requires = "generation", value_parser = listed::<u8>(&[1, 2, 4, 8, 12, 16, 32]))]
    lanes: Option<u8>,

    /// Print JSON: a line per record or transaction, or one object with --stats
    #[arg(long)]
    json: bool,

    /// Format of the output: of --stats --interval
    #[arg(long, value_enum, requires = "interval", conflicts_with = "json")]
    format: Option<Format>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Tables
    Text,
    /// One JSON object per file, as with --json
    Json,
    /// One value per row: start_ps, interval_ps, link, direction, of, measure, value
    Csv,
}

/// The interval of statistics over time.
#[derive(Clone, Copy)]
enum Interval {
    Automatic,
    Ps(u64),
}

fn interval(text: &str) -> Result<Interval, String> {
    if text == "auto" {
        return Ok(Interval::Automatic);
    }
    let ps = capture::time::duration_ps(text).and_then(|ps| u64::try_from(ps).ok());
    let legal = "expected auto or a time above 0 such as 10us, in ps, ns, us, ms or s";
    ps.filter(|ps| *ps > 0).map(Interval::Ps).ok_or_else(|| legal.to_owned())
}

fn vc_map(text: &str) -> Result<[u8; 8], String> {
    let channels: Vec<u8> =
        text.split(',').map_while(|vc| vc.trim().parse().ok().filter(|vc| *vc < 8)).collect();
    let legal = "expected 8 numbers from 0 to 7, separated by commas, the first of them 0";
    let map = <[u8; 8]>::try_from(channels).ok().filter(|map| map[0] == 0);
    map.filter(|_| text.split(',').count() == 8).ok_or_else(|| legal.to_owned())
}

pub(crate) fn run(mut args: Args, models: &Models) -> Result<(), Failure> {
    // `requires` of clap does not apply, because --interface conflicts with files.
    if args.capture.is_some() && args.interface.is_none() {
        return Err(Failure::usage("--capture needs an interface to capture on, such as -i lo"));
    }
    // The views treat an interface as a file.
    args.files.extend(args.interface.as_ref().map(PathBuf::from));
    input::check(args.files.iter().map(PathBuf::as_path))?;
    match args.stats {
        _ if to_file::run(&args, models)? => Ok(()),
        true => stats::run(&args),
        false if args.sequence => sequence::run(&args),
        false => lines::run(&args, models),
    }
}

impl Args {
    /// Returns the filter; an error in it is a usage error.
    fn filter(&self) -> Result<Option<Filter>, Failure> {
        self.filter.as_deref().map(|text| text.parse::<Filter>().map_err(Failure::usage)).transpose()
    }

    fn sieve(&self) -> Result<Sieve, Failure> {
        Ok(Sieve::new(self.filter()?))
    }

    fn ledgers(&self) -> Ledgers {
        self.vc_of_tc.map_or_else(Ledgers::new, Ledgers::with_map)
    }

    /// Data rate in bits per second of links whose speed the capture does not contain.
    fn speed_bps(&self) -> Option<u64> {
        capture::series::speed_bps(self.generation?, self.lanes?)
    }

    const fn names_files(&self) -> bool {
        self.files.len() > 1
    }

    /// Name of a file in JSON output about several files.
    fn file_name<'a>(&self, file: &'a Path) -> Option<Cow<'a, str>> {
        self.names_files().then(|| file.to_string_lossy())
    }
}

/// Returns the name of a file for messages and pages.
fn shown(file: &Path) -> String {
    input::name(file).display().to_string()
}

/// Refuses a record without a time, for views that place records in time.
fn need_time(file: &Path, option: &str, record: &Record<'_>) -> Result<(), Failure> {
    if record.number == 0 || record.has_time {
        return Ok(());
    }
    let at = record.text.map_or(format!("record {}", record.number), |text| format!("line {}", text.line));
    Err(Failure::Run(format!("{}: {option} needs times; {at} has none", shown(file))))
}

fn for_each_record(
    args: &Args,
    file: &Path,
    each: impl FnMut(&Record<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Some(interface) = &args.interface else {
        let mut reader = args.reading.open(file)?;
        read(&mut reader, file, each)?;
        reading::tell(&reader, &shown(file));
        let unknown = args.filter()?.map(|filter| filter.unknown_names(reader.interfaces()));
        let note = |line| output::note(format_args!("{}: --filter: {line}", shown(file)));
        unknown.into_iter().flatten().for_each(note);
        return Ok(());
    };
    let capture = output::files(args.force).claim_if("--capture", args.capture.as_deref())?;
    let capture = capture.map(ClaimedOutput::open).transpose()?;
    let kept = capture.as_ref().map(|out| out.writer().map_err(|e| out.failed(&e))).transpose()?;
    let (live, counts) =
        LiveCapture::open(interface, kept, interrupt::flag()?).map_err(|e| refused(interface, e))?;
    output::note(format_args!("capturing on {interface}; Ctrl-C ends it"));
    let mut reader = Reader::new(live).map_err(|error| Failure::Run(error.to_string()))?;
    let shown = read(&mut reader, file, each);
    // The file is kept even if the reader of the output has closed it.
    if let (Ok(()) | Err(Failure::ReaderLeft), Some(capture)) = (&shown, capture) {
        capture.finish()?;
    }
    shown?;
    let LiveCounts { frames, fragments, dropped } = counts.get();
    output::note(format_args!(
        "{interface}: {frames} NetTLP frames, {fragments} of them fragments of datagrams, which are not \
         reassembled, {dropped} dropped by the kernel"
    ));
    Ok(())
}

fn refused(interface: &str, error: LiveError) -> Failure {
    match error {
        LiveError::NoInterface(_) | LiveError::LinkType(_) => {
            Failure::usage(format!("-i {interface}: {error}"))
        }
        LiveError::Interfaces(_) => Failure::run(error),
        LiveError::Write(error) => Failure::from(error),
        _ => Failure::Run(format!("-i {interface}: {error}")),
    }
}

fn read<R: Read>(
    reader: &mut Reader<R>,
    file: &Path,
    mut each: impl FnMut(&Record<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut bad = BadRecords::default();
    loop {
        match reader.next_record() {
            Ok(Some(record)) => {
                bad.see(&record);
                each(&record)?;
            }
            Ok(None) => break,
            // Only errors of reading name the file; errors of writing concern the output.
            Err(error) => return Err(Failure::Run(format!("{}: {error}", shown(file)))),
        }
    }
    if let Some(bad) = bad.line() {
        output::note(format_args!("{}: {bad}", shown(file)));
    }
    Ok(())
}
