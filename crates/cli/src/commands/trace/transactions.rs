// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--transactions`: prints a line, or a JSON object, for each transaction, and a summary. Keeps only outstanding transactions.

use super::records::append_json;
use super::{Args, for_each_record, stdout};
use crate::failure::Failure;
use capture::Filter;
use capture::names::OfRequests;
use capture::render::append_meaning;
use capture::transactions::{self, JsonTransaction, Summary, Tracker, TransactionsReport};
use plug::Models;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

pub(super) fn run(args: &Args, models: &Models) -> Result<(), Failure> {
    let filter = args.filter()?;
    let mut out = stdout(args);
    for file in &args.files {
        if args.names_files() && !args.json {
            writeln!(out, "==> {} <==", file.display())?;
        }
        let report =
            write_transactions(args, file, filter.as_ref(), OfRequests::new(models.registers()), &mut out)?;
        if args.json {
            let object = args.of_file(file, BTreeMap::from([("summary", &report)]));
            serde_json::to_writer(&mut out, &object).map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            writeln!(out, "\n{report}")?;
        }
        out.flush()?;
    }
    Ok(())
}

fn write_transactions(
    args: &Args,
    file: &Path,
    filter: Option<&Filter>,
    mut names: OfRequests,
    out: &mut impl Write,
) -> Result<TransactionsReport, Failure> {
    let (mut tracker, mut summary) = (Tracker::new(), Summary::new());
    let (mut line, mut digits) = (String::new(), 1);
    let mut show = |tracker: &mut Tracker, names: &mut OfRequests, digits: u8| -> Result<(), Failure> {
        while let Some(t) = tracker.next_ended() {
            let meaning = names.take(t.request_number);
            t.hops.iter().for_each(|hop| _ = names.take(hop.request_number));
            if filter.is_none_or(|filter| filter.holds_for(&t)) {
                summary.add(&t);
                line.clear();
                if args.json {
                    let object = JsonTransaction { transaction: &t, meaning: meaning.as_ref() };
                    append_json(&args.of_file(file, object), &mut line);
                } else {
                    transactions::append_line(&t, digits, &mut line);
                    meaning.iter().for_each(|meaning| append_meaning(meaning, &mut line));
                }
                line.push('\n');
                out.write_all(line.as_bytes())?;
            }
        }
        Ok(())
    };
    for_each_record(args, file, |record| {
        digits = record.interface.map_or(digits, |interface| digits.max(interface.resolution.digits()));
        names.see(record);
        tracker.see(record, filter.map_or(0, |filter| filter.terms(record)));
        show(&mut tracker, &mut names, digits)
    })?;
    tracker.finish();
    show(&mut tracker, &mut names, digits)?;
    Ok(summary.report(&tracker))
}
