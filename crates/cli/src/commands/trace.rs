// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser trace`: what captures hold, from `riser-capture`. Never decodes a byte itself.

use crate::failure::Failure;
use crate::output;
use capture::{Kind, Reader, Record, Stats, render};
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufWriter, Write};

/// Bytes of output gathered before they are written.
const BUFFER_BYTES: usize = 1 << 16;

const EXAMPLE: &str = "\
Examples:
  riser trace capture.pcapng
  riser trace capture.pcapng --json | head
  riser trace --stats *.pcap

Reads pcap and pcapng with Ethernet, IPv4, UDP and NetTLP. What cannot be read is named in its place and counted, and
the rest is read; the exit status stays 0. --json prints a line per record: TLPs with timestamp_ps, type, requester,
completer, tag, address, length_dw, byte_count, status and payload_bytes where the type has them; with --stats one
object. Of several files, each object also names its file.";

/// Show what captures hold: a line per TLP, or statistics
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Captures: pcap or pcapng
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,

    /// Print counts, sizes, outstanding requests and errors in place of the records
    #[arg(long)]
    stats: bool,

    /// Print JSON: a line per record, or one object with --stats
    #[arg(long)]
    json: bool,
}

/// An object of one of several files.
#[derive(Serialize)]
struct OfFile<'a, T> {
    file: &'a str,
    #[serde(flatten)]
    of: T,
}

/// Statistics of several files.
#[derive(Serialize)]
struct Files<'a> {
    files: Vec<OfFile<'a, capture::stats::Report>>,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    match (args.stats, args.json) {
        (true, true) => print_stats_json(&args.files),
        (true, false) => print_stats(&args.files),
        (false, json) => print_records(&args.files, json),
    }
}

fn print_stats_json(files: &[String]) -> Result<(), Failure> {
    if let [file] = files {
        return output::json(&stats(file)?);
    }
    let of_file = |file| Ok(OfFile { file, of: stats(file)? });
    let files = files.iter().map(String::as_str).map(of_file).collect::<Result<_, Failure>>()?;
    output::json(&Files { files })
}

fn print_stats(files: &[String]) -> Result<(), Failure> {
    for file in files {
        let report = stats(file)?;
        if files.len() > 1 {
            output::text(&format!("==> {file} <=="))?;
        }
        output::text(&report.to_string())?;
    }
    Ok(())
}

fn stats(file: &str) -> Result<capture::stats::Report, Failure> {
    let mut stats = Stats::new();
    for_each_record(file, |record| {
        stats.add(record);
        Ok(())
    })?;
    Ok(stats.report())
}

fn print_records(files: &[String], json: bool) -> Result<(), Failure> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
    let several = files.len() > 1;
    for file in files {
        if several && !json {
            writeln!(out, "==> {file} <==")?;
        }
        let bad = match (json, several) {
            (false, _) => write_records(file, &mut out, render::line)?,
            (true, false) => write_records(file, &mut out, render::json)?,
            (true, true) => write_records(file, &mut out, |record, line| named_json(file, record, line))?,
        };
        out.flush()?;
        if bad > 0 {
            eprintln!("riser: {file}: could not be read, as said in their places: {bad} of the records");
        }
    }
    Ok(())
}

/// The JSON object of a record of one of several files.
fn named_json(file: &str, record: &Record<'_>, line: &mut String) {
    let object = OfFile { file, of: render::JsonRecord::new(record) };
    // Strings and integers: nothing here fails to serialize.
    line.push_str(&serde_json::to_string(&object).unwrap_or_default());
}

/// Writes a line for each record, and says how many could not be read.
fn write_records(
    file: &str,
    out: &mut impl Write,
    mut render: impl FnMut(&Record<'_>, &mut String),
) -> Result<u64, Failure> {
    let mut line = String::new();
    let mut bad = 0;
    for_each_record(file, |record| {
        bad += u64::from(matches!(record.kind, Kind::Bad(_)));
        line.clear();
        render(record, &mut line);
        line.push('\n');
        Ok(out.write_all(line.as_bytes())?)
    })?;
    Ok(bad)
}

fn for_each_record(
    file: &str,
    mut each: impl FnMut(&Record<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut reader: Reader<File> = capture::open(file).map_err(|error| Failure::Run(error.to_string()))?;
    // An error of reading names its file; one of writing is the output's.
    while let Some(record) = reader.next_record().map_err(|error| Failure::Run(format!("{file}: {error}")))? {
        each(&record)?;
    }
    Ok(())
}
