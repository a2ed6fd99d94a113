// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser paper`: runs experiments of published papers, with `riser-bench`.

mod chart;

use crate::failure::Failure;
use crate::output;
use crate::outputs::{ClaimedOutput, Outputs};
use crate::progress;
use bench::paper::{EXPERIMENTS, Effort, ExperimentReport, Outcome, Table, by_paper, experiment, run_all};
use serde::Serialize;
use std::num::NonZero;
use std::path::PathBuf;

const EXAMPLE: &str = "\
Examples:
  riser paper
  riser paper gem5-mmio
  riser paper gem5-width --html width.html
  riser paper all --html papers.html

Each experiment is a lab of labs/papers in which one thing is varied. The output has the paper's own figures next to riser's, with \
notes about both below. If the paper's shapes and numbers can be compared, the first line has the verdict. `all` also reports \
experiments that cannot run here, which do not count as reproduced.

--json prints one object: experiments: [{experiment, title, source, basis (how well the figures of its host profiles are known: measured, fitted or assumed), is_measured_here (of software on this machine, so it differs from run to run), verdict: {outcome (reproduced, shape-reproduced, not-reproduced, not-compared or not-run), \
shapes: [{kind, paper, riser, reproduced}], numbers: [{what, unit, paper, riser, difference, limit, within}]}, labs, tables: [{title, rows}], notes}]; rows \
are objects with units in their names. Without NAME, it prints {experiments: [{name, title, source}]}.";

/// Run the experiments of published papers and compare the figures with riser's
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Experiment to run, or `all` [default: list the experiments]
    name: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Write an SVG picture to this file: the chart
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Write an HTML page to this file: chart, tables and notes; for `all`, of each experiment
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Overwrite existing files
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    title: &'static str,
    source: &'static str,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let mut outputs = Outputs::new(args.force);
    let svg = outputs.claim_if("--svg", args.svg.as_deref())?;
    let html = outputs.claim_if("--html", args.html.as_deref())?;
    let (svg, html) =
        (svg.map(ClaimedOutput::prepare).transpose()?, html.map(ClaimedOutput::prepare).transpose()?);
    let pictures = args.svg.is_some() || args.html.is_some();
    let reports = match args.name.as_deref() {
        None if pictures => return Err(Failure::usage("--svg and --html draw experiments: name one")),
        None => return list(args.json),
        Some("all") if args.svg.is_some() => {
            return Err(Failure::usage("--svg draws one experiment: name it instead of `all`"));
        }
        Some("all") => measure_all(),
        Some(name) => vec![measure(name)?],
    };
    match &reports[..] {
        [report] => draw(svg, html, report)?,
        reports => draw_all(html, reports)?,
    }
    if args.json {
        return output::json_of("experiments", &reports);
    }
    reports.iter().enumerate().try_for_each(|(n, report)| show(n, report))?;
    if reports.len() > 1 { output::text(&format!("\n{}", summary(&reports))) } else { Ok(()) }
}

/// Counts the reports by outcome.
fn summary(reports: &[ExperimentReport]) -> String {
    let count = |outcome: &Outcome| reports.iter().filter(|r| r.verdict.outcome == *outcome).count();
    let counts: Vec<String> = Outcome::ALL
        .iter()
        .map(|outcome| (count(outcome), outcome.name()))
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    format!("{} experiments: {}", reports.len(), counts.join(", "))
}

fn list(json: bool) -> Result<(), Failure> {
    let entry = |e: &bench::paper::Experiment| Entry { name: e.name, title: e.title, source: e.source };
    let experiments: Vec<Entry> = EXPERIMENTS.iter().map(entry).collect();
    if json {
        return output::json_of("experiments", &experiments);
    }
    let width = experiments.iter().map(|e| e.name.len()).max().unwrap_or(0);
    by_paper().into_iter().try_for_each(|(paper, of)| {
        output::text(paper)?;
        of.into_iter()
            .try_for_each(|e| output::text(&format!("  {:width$}  {} ({})", e.name, e.title, e.place())))
    })
}

/// Runs all experiments on all cores.
fn measure_all() -> Vec<ExperimentReport> {
    let bar = progress::bar("{pos}/{len}, {elapsed}: {msg}");
    bar.set_length(EXPERIMENTS.len() as u64);
    let jobs = std::thread::available_parallelism().map_or(1, NonZero::get);
    run_all(&Effort::default(), jobs, |ended| {
        bar.set_message(ended.name);
        bar.inc(1);
    })
}

fn measure(name: &str) -> Result<ExperimentReport, Failure> {
    let found = experiment(name).map_err(Failure::usage)?;
    found.run(&Effort::default()).map_err(|e| Failure::Run(format!("{}: {e}", found.name)))
}

fn draw(
    svg: Option<ClaimedOutput>,
    html: Option<ClaimedOutput>,
    report: &ExperimentReport,
) -> Result<(), Failure> {
    let failed = |e: view::figure::FigureError| Failure::Run(e.to_string());
    if let Some(place) = svg {
        place.write(&chart::chart(report)?.svg().map_err(failed)?)?;
    }
    if let Some(place) = html {
        place.write(&chart::page(report)?.html().map_err(failed)?)?;
    }
    Ok(())
}

fn draw_all(html: Option<ClaimedOutput>, reports: &[ExperimentReport]) -> Result<(), Failure> {
    let Some(place) = html else { return Ok(()) };
    let page = chart::collection(reports, summary(reports))?;
    place.write(&page.html().map_err(|e| Failure::Run(e.to_string()))?)
}

fn show(n: usize, report: &ExperimentReport) -> Result<(), Failure> {
    let before = if n == 0 { "" } else { "\n" };
    if let Some(line) = report.line() {
        output::text(&format!("{before}{}: {line}", report.experiment))?;
        output::text(&format!("{} ({})", report.title, report.source))?;
    } else {
        output::text(&format!("{before}{}: {} ({})", report.experiment, report.title, report.source))?;
    }
    if !report.labs.is_empty() {
        output::text(&format!("varies {}", report.labs.join(", ")))?;
    }
    if let Some(basis) = report.basis {
        output::text(&format!("basis of the hosts' figures: {}", basis.name()))?;
    }
    report.verdict.tables().iter().chain(&report.tables).try_for_each(show_table)?;
    report.notes.iter().try_for_each(|note| output::text(&format!("\n{}", folded(note))))
}

fn show_table(table: &Table) -> Result<(), Failure> {
    output::text(&format!("\n{}", table.title))?;
    let header: Vec<&str> = table.columns.iter().map(|c| c.head).collect();
    output::table(&header, table.rows.iter().map(|row| row.iter().map(|cell| cell.text()).collect()))
}

/// Maximum number of characters in a line of notes.
const LINE: usize = 110;

/// Wraps `text` to lines of at most [`LINE`] characters, unless a word is longer.
fn folded(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let full =
            lines.last().is_some_and(|l| !l.is_empty() && l.chars().count() + word.chars().count() >= LINE);
        if full {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines.join("\n")
}
