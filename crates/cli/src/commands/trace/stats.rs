// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--stats`: what captures hold, counted. Never counts itself.

use super::{Args, OfFile, for_each_record};
use crate::failure::Failure;
use crate::output;
use capture::Stats;
use capture::stats::Report;
use serde::Serialize;

/// Statistics of several files.
#[derive(Serialize)]
struct Files<'a> {
    files: Vec<OfFile<'a, Report>>,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    if args.json { print_json(args) } else { print(args) }
}

fn print_json(args: &Args) -> Result<(), Failure> {
    if let [file] = args.files.as_slice() {
        return output::json(&stats(args, file)?);
    }
    let of_file = |file| Ok(OfFile { file, of: stats(args, file)? });
    let files = args.files.iter().map(String::as_str).map(of_file).collect::<Result<_, Failure>>()?;
    output::json(&Files { files })
}

fn print(args: &Args) -> Result<(), Failure> {
    for file in &args.files {
        let report = stats(args, file)?;
        if args.names_files() {
            output::text(&format!("==> {file} <=="))?;
        }
        output::text(&report.to_string())?;
    }
    Ok(())
}

fn stats(args: &Args, file: &str) -> Result<Report, Failure> {
    let (mut stats, mut sieve) = (Stats::new(), args.sieve()?);
    for_each_record(args, file, |record| {
        if sieve.keeps(record) {
            stats.add(record);
        }
        Ok(())
    })?;
    Ok(stats.report())
}
