// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints a line, or a JSON object, for each record; with `--credits` for each TLP. This module does not store records.

use super::{Args, for_each_record, stdout};
use crate::failure::Failure;
use crate::output;
use capture::credits::{Consumption, Ledgers};
use capture::explain::append_broken_header;
use capture::render::{self, JsonRecord, class_name};
use capture::{Meaning, Names, Record, Sieve};
use plug::Models;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

pub(super) fn run(args: &Args, models: &Models) -> Result<(), Failure> {
    let mut out = stdout(args);
    for file in &args.files {
        if args.names_files() && !args.json {
            writeln!(out, "==> {} <==", file.display())?;
        }
        let sieve = args.sieve()?;
        if args.credits {
            write_credits(args, file, sieve, args.ledgers(), &mut out)?;
        } else {
            write_records(args, file, sieve, Names::new(models.registers()), &mut out)?;
        }
        out.flush()?;
    }
    Ok(())
}

pub(super) fn append_json(object: &impl Serialize, line: &mut String) {
    // These records consist of strings and integers, so they always serialize.
    line.push_str(&serde_json::to_string(object).unwrap_or_default());
}

/// Writes a line for each record that the sieve keeps.
fn write_records(
    args: &Args,
    file: &Path,
    mut sieve: Sieve,
    mut names: Names,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut line = String::new();
    for_each_record(args, file, |record| {
        let meaning = names.see(record);
        if !sieve.keeps(record) {
            return Ok(());
        }
        line.clear();
        if args.json {
            let of = JsonRecord::new(record).with_meaning(meaning.as_ref());
            append_json(&args.of_file(file, if args.hex { of.with_data() } else { of }), &mut line);
        } else {
            append_record_line(args, record, meaning.as_ref(), &mut line);
        }
        line.push('\n');
        Ok(out.write_all(line.as_bytes())?)
    })
}

fn append_record_line(args: &Args, record: &Record<'_>, meaning: Option<&Meaning>, line: &mut String) {
    render::line(record, line);
    if let Some(meaning) = meaning {
        render::append_meaning(meaning, line);
    }
    let start = line.len();
    append_broken_header(record, line);
    if line.len() > start {
        line.insert_str(start, "; ");
    }
    render::append_note(record, line);
    if let Some(tlp) = record.tlp().filter(|_| args.hex) {
        render::append_hex_dump(tlp.data, tlp.payload_bytes, line);
    }
}

/// A TLP and the credits that it consumed.
#[derive(Serialize)]
struct WithCredits<'a> {
    #[serde(flatten)]
    record: JsonRecord<'a>,
    /// Null if they cannot be derived from the capture.
    credits: Option<Consumption>,
}

fn write_credits(
    args: &Args,
    file: &Path,
    mut sieve: Sieve,
    mut ledgers: Ledgers,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut line = String::new();
    let mut unknown = 0u64;
    for_each_record(args, file, |record| {
        let took = ledgers.see(record);
        if !sieve.keeps(record) || record.tlp().is_none() {
            return Ok(());
        }
        unknown += u64::from(took.is_none());
        line.clear();
        if args.json {
            let object = WithCredits { record: JsonRecord::new(record), credits: took };
            append_json(&args.of_file(file, object), &mut line);
        } else {
            credits_line(record, took.as_ref(), &mut line);
        }
        line.push('\n');
        Ok(out.write_all(line.as_bytes())?)
    })?;
    if unknown > 0 {
        out.flush()?;
        output::note(format_args!(
            "{}: credits of {unknown} TLPs are unknown: needs a capture with DLLPs since the start of the link",
            file.display()
        ));
    }
    Ok(())
}

fn credits_line(record: &Record<'_>, took: Option<&Consumption>, line: &mut String) {
    render::line(record, line);
    // Writing to a string cannot fail.
    let _ = match took {
        None => write!(line, "; credits unknown"),
        Some(took) => write!(
            line,
            "; credits {} vc {}: header {} -> {}, data {} -> {}",
            class_name(took.ledger.class),
            took.ledger.vc,
            took.header_before,
            took.header_after,
            took.data_before,
            took.data_after
        ),
    };
}
