// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--stats`: prints statistics of captures. Never counts itself.

use super::{Args, for_each_record, reports};
use crate::failure::Failure;
use crate::output;
use capture::Stats;
use capture::stats::StatsReport;
use std::path::Path;

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    reports(args, args.json, |file| stats(args, file), |report| output::text(&report.to_string()))
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
