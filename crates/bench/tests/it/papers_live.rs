// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Experiments with software on this machine, over sockets. Their rates and latencies depend on its load, so only their form is tested, and
//! what does not depend on time.

use riser_bench::paper::{Cell, Effort, ExperimentReport, Outcome, experiment};

fn run(name: &str) -> ExperimentReport {
    let report = experiment(name).unwrap().run(&Effort::least()).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(report.is_measured_here, "{name}");
    let line = report.line().unwrap();
    assert!(line.starts_with("on this machine: "), "{line}");
    report
}

fn positive(cell: &Cell) -> bool {
    matches!(cell, Cell::Number(value, _) if *value > 0.0)
}

/// Checks that the figure has a value for each of its points, all shapes of the paper, and its numbers.
fn has_all_points(name: &str, rows: usize, shapes: usize, numbers: usize) {
    let report = run(name);
    let table = &report.tables[0];
    assert_eq!(table.rows.len(), rows, "{name}");
    assert!(table.rows.iter().flatten().all(positive), "{name}: {:?}", table.rows);
    let verdict = &report.verdict;
    assert_eq!((verdict.shapes.len(), verdict.numbers.len()), (shapes, numbers), "{name}");
}

#[test]
fn figures_of_device_software_have_all_points_and_the_papers_numbers() {
    has_all_points("nettlp-figure7", 5, 2, 2);
    has_all_points("nettlp-figure8", 16, 8, 0);
    has_all_points("nettlp-figure9", 3, 3, 1);
    has_all_points("nettlp-figure10", 5, 2, 1);
}

/// The card's reads time out if the memory's thread does not run for 50 ms, so this test needs a machine without other load.
#[test]
#[ignore = "of .ci/long sockets"]
fn figures_of_a_card_have_all_points_and_the_papers_numbers() {
    has_all_points("nettlp-figure11", 16, 8, 1);
    has_all_points("nettlp-table2", 4, 1, 16);
}

/// NSDI'20, Figure 15: the TLPs of a frame are the paper's, in its order. On a machine with much other load, the TLPs of two frames can mix, so
/// one of three runs is enough.
#[test]
fn nic_in_software_exchanges_the_papers_tlps() {
    let runs: Vec<ExperimentReport> = (0..3).map(|_| run("nettlp-figure15")).collect();
    let verdicts: Vec<_> = runs.iter().map(|report| &report.verdict).collect();
    assert!(verdicts.iter().any(|verdict| verdict.outcome == Outcome::Reproduced), "{verdicts:?}");
}
