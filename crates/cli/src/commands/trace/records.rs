// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A line, or a JSON object, per record; with `--credits` per TLP. Never keeps a record.

use super::{Args, OfFile, for_each_record, stdout, tell_bad};
use crate::failure::Failure;
use crate::output;
use capture::credits::{Available, Consumption, Ledgers};
use capture::render::{self, JsonRecord, class_name};
use capture::{Kind, Meaning, Names, Record, Sieve};
use plug::Models;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::Write;

pub(super) fn run(args: &Args, models: &Models) -> Result<(), Failure> {
    let mut out = stdout(args);
    for file in &args.files {
        if args.names_files() && !args.json {
            writeln!(out, "==> {file} <==")?;
        }
        let sieve = args.sieve()?;
        let bad = if args.credits {
            write_credits(args, file, sieve, args.ledgers(), &mut out)?
        } else {
            write_records(args, file, sieve, Names::new(models.registers()), &mut out)?
        };
        out.flush()?;
        tell_bad(file, bad);
    }
    Ok(())
}

fn append_json(object: &impl Serialize, line: &mut String) {
    // Strings and integers: nothing here fails to serialize.
    line.push_str(&serde_json::to_string(object).unwrap_or_default());
}

/// Writes a line for each record that the sieve keeps, and says how many of the file could not be read.
fn write_records(
    args: &Args,
    file: &str,
    mut sieve: Sieve,
    mut names: Names,
    out: &mut impl Write,
) -> Result<u64, Failure> {
    let mut line = String::new();
    let mut bad = 0;
    for_each_record(args, file, |record| {
        bad += u64::from(matches!(record.kind, Kind::Bad(_)));
        let meaning = names.see(record);
        if !sieve.keeps(record) {
            return Ok(());
        }
        line.clear();
        if args.json {
            append_record_json(args, file, record, meaning.as_ref(), &mut line);
        } else {
            append_record_line(args, record, meaning.as_ref(), &mut line);
        }
        line.push('\n');
        Ok(out.write_all(line.as_bytes())?)
    })?;
    Ok(bad)
}

fn append_record_line(args: &Args, record: &Record<'_>, meaning: Option<&Meaning>, line: &mut String) {
    render::line(record, line);
    if let Some(meaning) = meaning {
        render::append_meaning(meaning, line);
    }
    if let Some(tlp) = record.tlp().filter(|_| args.hex) {
        render::append_hex_dump(tlp.data, tlp.payload_bytes, line);
    }
}

fn append_record_json(
    args: &Args,
    file: &str,
    record: &Record<'_>,
    meaning: Option<&Meaning>,
    line: &mut String,
) {
    let mut of = JsonRecord::new(record).with_meaning(meaning);
    if args.hex {
        of = of.with_data(record);
    }
    if args.names_files() { append_json(&OfFile { file, of }, line) } else { append_json(&of, line) }
}

/// A TLP, and the credits that it took.
#[derive(Serialize)]
struct WithCredits<T> {
    #[serde(flatten)]
    record: T,
    /// Null where the capture does not tell.
    credits: Option<JsonCredits>,
}

#[derive(Serialize)]
struct JsonCredits {
    class: &'static str,
    vc: u8,
    header_before: Available,
    header_after: Available,
    data_before: Available,
    data_after: Available,
}

impl JsonCredits {
    fn new(took: &Consumption) -> JsonCredits {
        JsonCredits {
            class: class_name(took.ledger.class),
            vc: took.ledger.vc,
            header_before: took.header_before,
            header_after: took.header_after,
            data_before: took.data_before,
            data_after: took.data_after,
        }
    }
}

fn write_credits(
    args: &Args,
    file: &str,
    mut sieve: Sieve,
    mut ledgers: Ledgers,
    out: &mut impl Write,
) -> Result<u64, Failure> {
    let mut line = String::new();
    let (mut bad, mut unknown) = (0, 0u64);
    for_each_record(args, file, |record| {
        bad += u64::from(matches!(record.kind, Kind::Bad(_)));
        let took = ledgers.see(record);
        if !sieve.keeps(record) || record.tlp().is_none() {
            return Ok(());
        }
        unknown += u64::from(took.is_none());
        line.clear();
        match (args.json, args.names_files()) {
            (false, _) => credits_line(record, took.as_ref(), &mut line),
            (true, false) => append_json(&with_credits(JsonRecord::new(record), took.as_ref()), &mut line),
            (true, true) => {
                let object = with_credits(OfFile { file, of: JsonRecord::new(record) }, took.as_ref());
                append_json(&object, &mut line);
            }
        }
        line.push('\n');
        Ok(out.write_all(line.as_bytes())?)
    })?;
    if unknown > 0 {
        out.flush()?;
        output::note(format_args!(
            "{file}: credits of {unknown} TLPs are not known: captures with DLLPs from the start of the link on tell them"
        ));
    }
    Ok(bad)
}

fn with_credits<T>(record: T, took: Option<&Consumption>) -> WithCredits<T> {
    WithCredits { record, credits: took.map(JsonCredits::new) }
}

fn credits_line(record: &Record<'_>, took: Option<&Consumption>, line: &mut String) {
    render::line(record, line);
    // Writing to a string cannot fail.
    let _ = match took {
        None => write!(line, "; credits not known"),
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
