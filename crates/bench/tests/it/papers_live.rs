// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Experiments with software on this machine, over sockets. Their rates and latencies depend on its load, so only their form is tested, and
//! what does not depend on time.

use riser_bench::paper::{Cell, Effort, Outcome, Report, experiment};

fn run(name: &str) -> Report {
    let report = experiment(name).unwrap().run(&Effort::least()).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(report.is_measured_here, "{name}");
    let line = report.line().unwrap();
    assert!(line.starts_with("on this machine: "), "{line}");
    report
}

fn positive(cell: &Cell) -> bool {
    matches!(cell, Cell::Number(value, _) if *value > 0.0)
}

/// Each figure has a value for each of its points, and the paper's numbers.
#[test]
fn figures_of_software_have_all_points_and_the_papers_numbers() {
    for (name, rows, shapes, numbers) in [
        ("nettlp-figure7", 5, 2, 2),
        ("nettlp-figure8", 16, 8, 0),
        ("nettlp-figure9", 3, 3, 1),
        ("nettlp-figure10", 5, 2, 1),
        ("nettlp-figure11", 16, 8, 1),
        ("nettlp-table2", 4, 1, 16),
    ] {
        let report = run(name);
        let table = &report.tables[0];
        assert_eq!(table.rows.len(), rows, "{name}");
        assert!(table.rows.iter().flatten().all(positive), "{name}: {:?}", table.rows);
        let verdict = &report.verdict;
        assert_eq!((verdict.shapes.len(), verdict.numbers.len()), (shapes, numbers), "{name}");
    }
}

/// NSDI'20, Figure 15: the TLPs of a frame are the paper's, in its order.
#[test]
fn nic_in_software_exchanges_the_papers_tlps() {
    let report = run("nettlp-figure15");
    assert_eq!(report.verdict.outcome, Outcome::Reproduced, "{report:?}");
}
