// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints a line, or a JSON object, for each record; with `--credits` for each TLP. This module does not store records.

use super::{Args, for_each_record, stdout};
use crate::failure::Failure;
use crate::output;
use capture::credits::{Consumption, Ledgers};
use capture::render::{self, JsonRecord};
use capture::{Names, Sieve};
use plug::Models;
use serde::Serialize;
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
            render::full_line(record, meaning.as_ref(), args.hex, &mut line);
        }
        line.push('\n');
        Ok(out.write_all(line.as_bytes())?)
    })
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
            render::credits_line(record, took.as_ref(), &mut line);
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
