// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--stats --interval`: prints statistics over time, as tables, JSON or CSV. Never counts itself.

use super::{Args, Format, Interval, for_each_record, need_time, reports};
use crate::failure::Failure;
use crate::output;
use capture::series::{Series, SeriesReport};
use std::path::Path;

pub(super) fn run(args: &Args, interval: Interval) -> Result<(), Failure> {
    let format = args.format.unwrap_or(if args.json { Format::Json } else { Format::Text });
    if format == Format::Csv && args.names_files() {
        return Err(Failure::usage("--format csv takes one file"));
    }
    let print = |report: &SeriesReport| match format {
        Format::Csv => print_csv(report),
        _ => output::text(&report.to_string()),
    };
    reports(args, format == Format::Json, |file| series(args, file, interval), print)
}

fn series(args: &Args, file: &Path, interval: Interval) -> Result<SeriesReport, Failure> {
    let interval_ps = match interval {
        Interval::Automatic => None,
        Interval::Ps(ps) => Some(ps),
    };
    let (mut series, mut sieve) = (Series::new(interval_ps, args.ledgers()), args.sieve()?);
    for_each_record(args, file, |record| {
        need_time(file, "--interval", record)?;
        if sieve.keeps(record) {
            series.add(record).map_err(|error| Failure::Run(format!("{}: {error}", file.display())))?;
        } else {
            series.pass(record);
        }
        Ok(())
    })?;
    Ok(series.report(args.speed_bps()?))
}

fn print_csv(report: &SeriesReport) -> Result<(), Failure> {
    let mut csv = String::new();
    report.append_csv(&mut csv);
    output::text(csv.trim_end())
}
