// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--transactions`: a line, or a JSON object, per transaction, and a summary. Never holds more than what is under way.

use super::{Args, for_each_record, stdout, tell_bad};
use crate::failure::Failure;
use capture::names::OfRequests;
use capture::transactions::{self, Report, Summary, Tracker};
use capture::{Filter, Kind, Meaning, Transaction};
use plug::Models;
use serde::Serialize;
use std::io::Write;

/// The last line of a file's transactions.
#[derive(Serialize)]
struct OfSummary<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    summary: &'a Report,
}

pub(super) fn run(args: &Args, models: &Models) -> Result<(), Failure> {
    let filter = args.filter()?;
    let mut out = stdout(args);
    for file in &args.files {
        if args.names_files() && !args.json {
            writeln!(out, "==> {file} <==")?;
        }
        let (report, bad) =
            write_transactions(args, file, filter.as_ref(), OfRequests::new(models.registers()), &mut out)?;
        if args.json {
            let file = args.names_files().then_some(file.as_str());
            serde_json::to_writer(&mut out, &OfSummary { file, summary: &report })
                .map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            writeln!(out, "\n{report}")?;
        }
        out.flush()?;
        tell_bad(file, bad);
    }
    Ok(())
}

fn write_transactions(
    args: &Args,
    file: &str,
    filter: Option<&Filter>,
    mut names: OfRequests,
    out: &mut impl Write,
) -> Result<(Report, u64), Failure> {
    let lead = if args.names_files() {
        format!("{{\"file\":{},", serde_json::Value::from(file))
    } else {
        "{".to_owned()
    };
    let (mut tracker, mut summary) = (Tracker::new(), Summary::new());
    let (mut line, mut digits, mut bad) = (String::new(), 1, 0);
    let mut show = |tracker: &mut Tracker, names: &mut OfRequests, digits: u8| -> Result<(), Failure> {
        while let Some(t) = tracker.next_ended() {
            let meaning = names.take(t.request_number);
            if filter.is_none_or(|filter| filter.holds_for(&t)) {
                summary.add(&t);
                line.clear();
                append(args.json.then_some(&lead), &t, meaning.as_ref(), digits, &mut line);
                out.write_all(line.as_bytes())?;
            }
        }
        Ok(())
    };
    for_each_record(args, file, |record| {
        bad += u64::from(matches!(record.kind, Kind::Bad(_)));
        digits = record.interface.map_or(digits, |interface| digits.max(interface.resolution.digits()));
        names.see(record);
        tracker.see(record, filter.map_or(0, |filter| filter.terms(record)));
        show(&mut tracker, &mut names, digits)
    })?;
    tracker.finish();
    show(&mut tracker, &mut names, digits)?;
    Ok((summary.report(&tracker), bad))
}

/// A transaction with what its request means; JSON behind `lead`.
fn append(lead: Option<&String>, t: &Transaction, meaning: Option<&Meaning>, digits: u8, line: &mut String) {
    match lead {
        Some(lead) => {
            line.push_str(lead);
            transactions::append_fields(t, line);
            if let Some(meaning) = meaning {
                line.push_str(",\"means\":");
                line.push_str(&serde_json::Value::from(meaning.to_string()).to_string());
            }
            line.push('}');
        }
        None => {
            transactions::append_line(t, digits, line);
            if let Some(meaning) = meaning {
                capture::render::append_meaning(meaning, line);
            }
        }
    }
    line.push('\n');
}
