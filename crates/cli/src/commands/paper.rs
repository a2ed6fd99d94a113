// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser paper`: runs experiments of published papers, with `riser-bench`.

use crate::{Failure, output, progress};
use bench::paper::{
    EXPERIMENTS, Effort, ExperimentReport, by_paper, experiment, html_of_all, run_all, summary,
};
use files::ClaimedOutput;
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

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let mut outputs = output::files(args.force);
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
    if let Some(place) = svg {
        place.write(&reports[0].svg()?)?;
    }
    if let Some(place) = html {
        let page = if let [report] = &reports[..] { report.html() } else { html_of_all(&reports) };
        place.write(&page?)?;
    }
    if args.json {
        return output::json_of("experiments", &reports);
    }
    let all = (reports.len() > 1).then(|| summary(&reports));
    let texts: Vec<String> = reports.iter().map(ExperimentReport::to_string).chain(all).collect();
    output::text(&texts.join("\n\n"))
}

fn list(json: bool) -> Result<(), Failure> {
    if json {
        return output::json_of("experiments", &EXPERIMENTS);
    }
    let width = EXPERIMENTS.iter().map(|e| e.name.len()).max().unwrap_or(0);
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
