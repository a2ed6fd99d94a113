// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--stats`: prints statistics of captures, with `--interval` over time, as tables, JSON or CSV. Never counts itself.

use super::{Args, Format, Interval, for_each_record, need_time};
use crate::{Failure, output};
use capture::Stats;
use capture::series::{Series, SeriesReport};
use capture::stats::StatsReport;
use capture::views::OfFile;
use serde::Serialize;
use std::path::Path;

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let Some(interval) = args.interval else {
        return reports(args, args.json, |file| stats(args, file), StatsReport::to_string);
    };
    let format = args.format.unwrap_or(if args.json { Format::Json } else { Format::Text });
    if format == Format::Csv && args.names_files() {
        return Err(Failure::usage("--format csv takes one file"));
    }
    let text = |report: &SeriesReport| match format {
        Format::Csv => report.csv().trim_end().to_owned(),
        _ => report.to_string(),
    };
    reports(args, format == Format::Json, |file| series(args, file, interval), text)
}

/// Prints a report of each file: all in one JSON object, or each as text.
fn reports<T: Serialize>(
    args: &Args,
    json: bool,
    report: impl Fn(&Path) -> Result<T, Failure>,
    text: impl Fn(&T) -> String,
) -> Result<(), Failure> {
    if json && args.names_files() {
        let all = args.files.iter().map(|file| Ok(OfFile { file: args.file_name(file), of: report(file)? }));
        return output::json_of("files", &all.collect::<Result<Vec<_>, Failure>>()?);
    }
    args.files.iter().try_for_each(|file| {
        let report = report(file)?;
        if json {
            return output::json(&report);
        }
        if args.names_files() {
            output::text(&format!("==> {} <==", file.display()))?;
        }
        output::text(&text(&report))
    })
}

fn stats(args: &Args, file: &Path) -> Result<StatsReport, Failure> {
    let (mut stats, mut sieve) = (Stats::new(), args.sieve()?);
    for_each_record(args, file, |record| {
        if sieve.keeps(record) {
            stats.add(record);
        } else {
            stats.pass(record);
        }
        Ok(())
    })?;
    Ok(stats.report())
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
    Ok(series.report(args.speed_bps()))
}
