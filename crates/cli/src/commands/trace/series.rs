// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--stats --interval`: prints statistics over time, as tables, JSON or CSV. Never counts itself.

use super::{Args, Format, Interval, for_each_record, need_time, reports};
use crate::failure::Failure;
use crate::output;
use capture::Direction;
use capture::series::{Row, Series, SeriesReport, WayRow};
use std::path::Path;

pub(super) fn run(args: &Args, interval: Interval) -> Result<(), Failure> {
    let format = args.format.unwrap_or(if args.json { Format::Json } else { Format::Text });
    if format == Format::Csv && args.names_files() {
        return Err(Failure::usage("--format csv takes one file"));
    }
    let print = if format == Format::Csv { print_csv } else { print };
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

fn print(report: &SeriesReport) -> Result<(), Failure> {
    let (us, rest) = (report.interval_ps / 1_000_000, report.interval_ps % 1_000_000);
    output::text(&format!("intervals of {us}.{rest:06} us; Gb/s and busy % on the wire, framing included"))?;
    let header = "from us,link,direction,TLPs,payload B,P Gb/s,NP Gb/s,Cpl Gb/s,DLLP Gb/s,busy %";
    let header: Vec<&str> = header.split(',').collect();
    let links = report.rows.iter().flat_map(|row| row.links.iter().map(move |way| (row, way)));
    output::table(&header, links.map(|(row, way)| link_row(report, row, way)))?;
    if report.rows.iter().any(|row| !row.outstanding.is_empty()) {
        output::text("\noutstanding requests")?;
        let rows = report.rows.iter().flat_map(|row| row.outstanding.iter().map(move |o| (row, o)));
        let cells = |(row, o): (&Row, &capture::series::OutstandingRow)| {
            let requester = o.requester.0.to_string();
            vec![start(row), report.link(o.link), requester, o.max.to_string(), format!("{:.3}", o.mean)]
        };
        output::table(&["from us", "link", "requester", "max", "mean"], rows.map(cells))?;
    }
    if report.rows.iter().any(|row| !row.credits.is_empty()) {
        output::text("\nfewest credits left after a TLP")?;
        let rows = report.rows.iter().flat_map(|row| row.credits.iter().map(move |c| (row, c)));
        let cells = |(row, c): (&Row, &capture::series::CreditRow)| {
            let counts = [c.header_min.to_string(), c.data_min.to_string()];
            let class = format!("{} vc {}", c.class, c.vc);
            [start(row), report.link(c.link), direction(c.direction), class]
                .into_iter()
                .chain(counts)
                .collect()
        };
        output::table(&["from us", "link", "direction", "class", "header", "data"], rows.map(cells))?;
    }
    Ok(())
}

fn link_row(report: &SeriesReport, row: &Row, way: &WayRow) -> Vec<String> {
    let gbps = |bytes: u64| format!("{:.3}", bytes as f64 * 8_000.0 / report.interval_ps as f64);
    let busy = way.utilization.map_or_else(|| "-".to_owned(), |share| format!("{:.1}", share * 100.0));
    let tlps = way.posted_tlps + way.non_posted_tlps + way.completion_tlps;
    let mut cells = vec![start(row), report.link(way.link), direction(way.direction), tlps.to_string()];
    cells.push(way.payload_bytes.to_string());
    cells.extend([way.posted_bytes, way.non_posted_bytes, way.completion_bytes, way.dllp_bytes].map(gbps));
    cells.push(busy);
    cells
}

/// Returns the start of an interval in microseconds.
fn start(row: &Row) -> String {
    format!("{}.{:03}", row.start_ps / 1_000_000, row.start_ps / 1_000 % 1_000)
}

fn direction(direction: Option<Direction>) -> String {
    direction.map_or("-", Direction::name).to_owned()
}
