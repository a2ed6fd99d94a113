// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Points of sweeps, faults of sweep files, and records of points, in one process.

use crate::common;
use crate::common::{GRID, finish, parquet, sweep};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use proptest::prelude::*;
use riser_sweep::results::{Values, columns};
use riser_sweep::{Outcome, RunningSweep, Sweep, Value, front};
use std::collections::BTreeSet;
use std::io::Write;

/// Returns the settings of all points of the first round, as text.
fn points(file: &str) -> Vec<String> {
    let sweep = sweep(file).unwrap_or_else(|e| panic!("{e}"));
    let row = |n| sweep.settings(n).iter().map(Value::to_string).collect::<Vec<_>>().join(" ");
    (0..sweep.rounds()[0].points).map(row).collect()
}

/// Returns a sweep file with these lines.
fn over(lines: &str) -> String {
    format!("version = 1\nlab = 'lab.toml'\n{lines}\n[metrics]\nhops = 'tlp_hops'\n")
}

#[test]
fn grid_has_all_combinations_last_key_first() {
    let mut wanted = Vec::new();
    for generation in [1, 3, 5] {
        for mps in [128, 256] {
            wanted.extend((1..=10).map(|n| format!("{generation} {mps} {}", 16 * n)));
        }
    }
    assert_eq!(points(GRID), wanted);
}

#[test]
fn ranges_have_configured_spacing() {
    let key = "slot.a.memory.exercise_bytes";
    for (range, wanted) in [
        ("{ from = 16, to = 64, step = 20 }", "16 36 56"),
        ("{ from = 16, to = 1024, points = 7, scale = 'log' }", "16 32 64 128 256 512 1024"),
        ("{ from = 1, to = 4, points = 7 }", "1 2 3 4"),
        ("[32, 16]", "32 16"),
    ] {
        assert_eq!(points(&over(&format!("[over]\n'{key}' = {range}"))).join(" "), wanted, "{range}");
    }
    // Steps that binary fractions miss.
    let floats = "[over]\n'link.bit_error_rate' = { from = 1e-4, to = 7e-4, step = 2e-4 }";
    assert_eq!(points(&over(floats)), ["0.0001", "0.0003", "0.0005", "0.0007"]);
}

#[test]
fn keys_of_together_tables_change_together() {
    let file = over(
        "[[together]]\n'link.gen' = [3, 4]\n'link.lanes' = [8, 4]\n[over]\n'link.mps_bytes' = [128, 256]",
    );
    assert_eq!(points(&file), ["3 8 128", "3 8 256", "4 4 128", "4 4 256"]);
}

#[test]
fn samples_are_in_range_and_repeatable() {
    let axes = "[over]\n'link.gen' = [1, 2, 3, 4, 5]\n'slot.a.memory.exercise_bytes' = { from = 1, to = 64 }";
    for sample in ["method = 'random'\nseed = 3", "method = 'sobol'", "method = 'sobol'\nseed = 3"] {
        let file = over(&format!("[sample]\npoints = 64\n{sample}\n{axes}"));
        let all = points(&file);
        assert_eq!(all, points(&file), "{sample}");
        let of = |column: usize| -> Vec<i64> {
            all.iter().map(|row| row.split(' ').nth(column).unwrap().parse().unwrap()).collect()
        };
        assert!(of(0).iter().all(|n| (1..=5).contains(n)) && of(1).iter().all(|n| (1..=64).contains(n)));
        let distinct = of(1).into_iter().collect::<BTreeSet<_>>().len();
        // 64 Sobol points hit each of 64 values once. The same number of random points misses a third of the values
        // (e^-1).
        assert_eq!(distinct == 64, sample.contains("sobol"), "{sample}: {distinct}");
        assert!(distinct > 30);
    }
    let other =
        |seed| points(&over(&format!("[sample]\nmethod = 'random'\npoints = 20\nseed = {seed}\n{axes}")));
    assert_ne!(other(1), other(2));
}

#[test]
fn errors_name_their_position() {
    assert!(sweep("").unwrap_err().starts_with("sweep.toml: it is empty: expected `version = 1`"));
    for case in testkit::cases(include_str!("../cases/errors.txt")) {
        let error = sweep(&case.input()).unwrap_err();
        assert!(error.contains(case.expected()[0]), "{}: {error}", case.text);
    }
}

#[test]
fn invalid_lab_is_reported_before_any_run() {
    let error = common::sweep_of(&devices::models(), GRID, "version = 1\n").unwrap_err();
    assert!(error.starts_with("lab.toml"), "{error}");
    let file = text_of("/no/such/folder/s.toml");
    let error = Sweep::parse(&devices::models(), file, None, plug::site::NativeCode::Refused).unwrap_err();
    assert!(error.to_string().starts_with("/no/such/folder/s.toml:2:7: lab `lab.toml`"), "{error}");
}

fn text_of(path: &str) -> riser_sweep::TextFile {
    common::text(path, GRID)
}

#[test]
fn records_equal_single_runs_and_are_in_the_file() {
    let sweep = sweep(GRID).unwrap();
    let mut run = RunningSweep::begin(&sweep, None).unwrap();
    finish(&mut run, 7);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&parquet(&run)).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let names: Vec<String> =
        reader.metadata().file_metadata().schema().get_fields().iter().map(|f| f.name().to_owned()).collect();
    assert_eq!(
        names,
        [
            "point",
            "link.gen",
            "link.mps_bytes",
            "slot.a.memory.exercise_bytes",
            "hops",
            "ns",
            "down",
            "rate",
            "feasible",
            "basis",
            "outcome",
            "error"
        ]
    );
    let (mut rows, mut besides) = (0, None);
    for (n, row) in reader.get_row_iter(None).unwrap().map(Result::unwrap).enumerate() {
        let fields: Vec<Field> = row.get_column_iter().map(|(_, field)| field.clone()).collect();
        let settings = sweep.settings(n as u64);
        let Value::Integer(bytes) = settings[2] else { panic!("{settings:?}") };
        assert_eq!(fields[0], Field::Long(n as i64));
        assert_eq!(fields[3], Field::Long(bytes));
        // The driver writes all bytes that it is configured for, in addition to the traffic of enumeration.
        let Field::Long(down) = fields[6] else { panic!("{fields:?}") };
        assert_eq!(down - bytes, *besides.get_or_insert(down - bytes));
        let (Field::Double(ns), Field::Double(rate)) = (&fields[5], &fields[7]) else { panic!("{fields:?}") };
        assert_eq!(*rate, down as f64 / ns * 8.0);
        assert_eq!(fields[8], Field::Bool(down >= 100));
        // Its host is the ideal host, whose basis is assumed by definition.
        assert_eq!(
            (&fields[9], &fields[10]),
            (&Field::Str("assumed".into()), &Field::Str("finished".into()))
        );
        assert_eq!(fields[11], Field::Null);
        rows += 1;
    }
    assert_eq!(rows, 60);
    // Points of the front are feasible, and no feasible point is better in both aims.
    let of = |n: u64| run.record_of(n).map(|r| (r.number(1).unwrap(), r.number(2).unwrap())).unwrap();
    let best = front(&sweep, run.records());
    let better = |a: (f64, f64), b: (f64, f64)| a.0 <= b.0 && a.1 >= b.1 && a != b;
    for n in 0..60 {
        let is_best =
            of(n).1 >= 100.0 && (0..60).all(|other| of(other).1 < 100.0 || !better(of(other), of(n)));
        assert_eq!(best.contains(&n), is_best, "{n}");
    }
    assert!(!best.is_empty() && (0..60).any(|n| of(n).1 < 100.0));
}

/// Each point is run until it has one record, and the file is the same, for any order in which points are taken, given
/// back and returned.
#[test]
fn order_of_records_does_not_matter() {
    let sweep = sweep(GRID).unwrap();
    let mut straight = RunningSweep::begin(&sweep, None).unwrap();
    finish(&mut straight, 100);
    let wanted = parquet(&straight);
    proptest!(ProptestConfig::with_cases(20), |(steps in prop::collection::vec((1usize..9, any::<bool>(), any::<bool>()), 1..200))| {
        let mut run = RunningSweep::begin(&sweep, None).unwrap();
        let mut out = Vec::new();
        for (most, backwards, lost) in steps.into_iter().cycle().take(400) {
            let chunk = run.next_chunk(most);
            prop_assert!(chunk.iter().all(|point| run.record_of(point.number).is_none()));
            if !chunk.is_empty() {
                out.push(chunk);
            }
            let Some(chunk) = (if backwards { out.pop() } else { (!out.is_empty()).then(|| out.remove(0)) }) else { break };
            if lost {
                run.give_back(&chunk[1..]);
                run.accept(vec![straight.record_of(chunk[0].number).unwrap().clone()]).unwrap();
            } else {
                let records: Vec<_> = chunk.iter().map(|p| straight.record_of(p.number).unwrap().clone()).collect();
                prop_assert_eq!(run.accept(records.clone()).unwrap(), chunk.len());
                prop_assert_eq!(run.accept(records).unwrap(), 0);
            }
        }
        out.iter().for_each(|chunk| run.give_back(chunk));
        finish(&mut run, 5);
        prop_assert_eq!(parquet(&run), wanted.clone());
    });
}

#[test]
fn failed_points_have_records() {
    let file = over("[over]\n'link.gen' = [3, 9]\n'slot.a.memory.exercise_bytes' = [16, 65537]")
        .replace("version = 1", "version = 1\nmax_events = 4000");
    let sweep = sweep(&file).unwrap();
    let mut run = RunningSweep::begin(&sweep, None).unwrap();
    finish(&mut run, 1);
    let of = |n| run.record_of(n).map(|r| (r.outcome, r.error.clone().unwrap_or_default())).unwrap();
    assert_eq!(of(0), (Outcome::Finished, String::new()));
    assert_eq!(of(1).0, Outcome::Refused);
    assert!(of(1).1.contains("exercise_bytes of 65537, expected at most size_bytes, 65536"), "{}", of(1).1);
    assert!(of(2).1.contains("expected"), "{}", of(2).1);
    let Values::Integer(hops) = &columns(&run)[3].values else { panic!("{:?}", columns(&run)) };
    assert!(hops[0].is_some() && hops[1..] == [None, None, None]);
    let long = GRID.replace("version = 1", "version = 1\nmax_events = 20");
    let sweep = common::sweep(&long).unwrap();
    let ran = sweep.run(&riser_sweep::Point { number: 3, config: 3, round: 0 });
    assert_eq!(ran.record.outcome, Outcome::EventLimit);
    assert_eq!(ran.record.error.as_deref(), Some("max_events was reached before the end"));
}

#[test]
fn missing_metric_ends_the_sweep_at_once() {
    let file =
        over("[over]\n'link.gen' = [3, 4]").replace("'tlp_hops'", "'links.a.transactions.dma_read.requests'");
    let read = sweep(&file).unwrap();
    let mut run = RunningSweep::begin(&read, None).unwrap();
    let chunk = run.next_chunk(10);
    assert_eq!(chunk.len(), 1, "only the first point");
    assert!(run.next_chunk(10).is_empty());
    let error = run.accept(vec![read.run(&chunk[0]).record]).unwrap_err().to_string();
    assert!(
        error.starts_with("point 0: metric `hops`: no `dma_read` in `links.a.transactions`; known names: "),
        "{error}"
    );
    let sweep = sweep(&file.replace(
        "'links.a.transactions.dma_read.requests'",
        "{ path = 'links.a.transactions.dma_read.requests', default = 0 }",
    ))
    .unwrap();
    let mut run = RunningSweep::begin(&sweep, None).unwrap();
    finish(&mut run, 10);
    assert_eq!(run.record_of(1).unwrap().metrics, [Some(Value::Integer(0))]);
}

#[test]
fn text_with_an_aim_or_a_bound_ends_the_sweep() {
    let run = |metric: &str| {
        let file = over("[over]\n'link.gen' = [3, 4]").replace("'tlp_hops'", metric);
        let read = sweep(&file).unwrap();
        let mut run = RunningSweep::begin(&read, None).unwrap();
        let chunk = run.next_chunk(10);
        run.accept(vec![read.run(&chunk[0]).record]).map_err(|e| e.to_string())
    };
    assert_eq!(run("'outcome'"), Ok(1), "a column of text");
    for compared in ["aim = 'maximize'", "at_least = 1", "at_most = 1"] {
        let error = run(&format!("{{ path = 'outcome', {compared} }}")).unwrap_err();
        let why = "1: metric `hops`: the report has text, `finished`: expected a number with aim, at_least or at_most";
        assert!(error.starts_with("sweep.toml:") && error.contains(why), "{error}");
    }
}

#[test]
fn packed_sweep_survives_a_round_trip() {
    let sweep = sweep(GRID).unwrap();
    let again = Sweep::unpack(&devices::models(), &sweep.pack()).unwrap();
    assert_eq!(again.fingerprint(), sweep.fingerprint());
    let point = riser_sweep::Point { number: 17, config: 17, round: 0 };
    assert_eq!(again.run(&point).record, sweep.run(&point).record);
    assert!(Sweep::unpack(&devices::models(), "{}").is_err());
    let other = common::sweep(&GRID.replace("[1, 3, 5]", "[1, 3, 4]")).unwrap();
    assert_ne!(other.fingerprint(), sweep.fingerprint());
}

const HALVING: &str = "version = 1\nlab = 'lab.toml'
[over]
'link.gen' = [1, 2, 3, 4, 5]
'link.lanes' = [1, 2, 4, 8]
[halving]
budget = 'slot.a.memory.exercise_bytes'
least = 64
most = 4096
eta = 4
[metrics]
us = { path = 'simulated_ns', at_most = 1e9 }
cost = { expr = 'link.lanes * exp2(link.gen)', aim = 'minimize' }
";

/// Halving continues with the points that a grid ranks first, with more work each, for any order in which records
/// arrive.
#[test]
fn halving_keeps_the_best_points() {
    let sweep = sweep(HALVING).unwrap();
    let mut run = RunningSweep::begin(&sweep, None).unwrap();
    finish(&mut run, 3);
    let sizes: Vec<_> = sweep.rounds().iter().map(|r| (r.points, r.budget.unwrap())).collect();
    assert_eq!(sizes, [(20, 64), (5, 256), (2, 1024), (1, 4096)]);
    let configs =
        |from: u64, to: u64| -> Vec<u64> { (from..to).map(|n| run.point(n).unwrap().config).collect() };
    // Cost is lanes times 2^gen: configuration 4 * (gen - 1) + log2(lanes). Equal points keep their order.
    let mut ranked: Vec<(u32, u64)> = (0..20).map(|n| ((n / 4 + 1 + n % 4) as u32, n)).collect();
    ranked.sort_unstable();
    let best = |count: usize| {
        let mut best: Vec<u64> = ranked[..count].iter().map(|(_, config)| *config).collect();
        best.sort_unstable();
        best
    };
    assert_eq!(configs(20, 25), best(5));
    assert_eq!(configs(25, 27), best(2));
    assert_eq!(configs(27, 28), best(1));
    // A bound that only faster links meet: the cheapest of these.
    let time = |n: u64| run.record_of(n).unwrap().number(0).unwrap();
    let mut times: Vec<f64> = (0..20).map(time).collect();
    times.sort_by(f64::total_cmp);
    let bounded = common::sweep(&HALVING.replace("1e9", &times[9].to_string())).unwrap();
    let mut second = RunningSweep::begin(&bounded, None).unwrap();
    finish(&mut second, 4);
    let feasible: Vec<u64> = (0..20).filter(|n| time(*n) <= times[9]).collect();
    let next: Vec<u64> = (20..25).map(|n| second.point(n).unwrap().config).collect();
    let mut wanted: Vec<(u32, u64)> =
        ranked.iter().copied().filter(|(_, n)| feasible.contains(n)).take(5).collect();
    wanted.sort_unstable_by_key(|(_, n)| *n);
    assert_eq!(next, wanted.iter().map(|(_, n)| *n).collect::<Vec<_>>());
    assert_eq!(parquet(&second), {
        let mut again = RunningSweep::begin(&bounded, None).unwrap();
        finish(&mut again, 1);
        parquet(&again)
    });
}

/// A round begins only after all points of the round before are recorded.
#[test]
fn rounds_wait_for_all_records() {
    let sweep = sweep(HALVING).unwrap();
    let mut run = RunningSweep::begin(&sweep, None).unwrap();
    let first = run.next_chunk(1);
    run.accept(vec![sweep.run(&first[0]).record]).unwrap();
    let rest = run.next_chunk(100);
    assert_eq!(rest.len(), 19);
    assert!(run.next_chunk(1).is_empty() && run.point(20).is_none());
    run.accept(rest[1..].iter().map(|p| sweep.run(p).record).collect()).unwrap();
    assert!(run.next_chunk(1).is_empty());
    run.give_back(&rest[..1]);
    assert_eq!(run.next_chunk(9), rest[..1]);
    run.accept(vec![sweep.run(&rest[0]).record]).unwrap();
    assert_eq!(run.next_chunk(9).len(), 5);
}

#[test]
fn records_of_other_sweeps_are_rejected() {
    let sweep = sweep(GRID).unwrap();
    let mut run = RunningSweep::begin(&sweep, None).unwrap();
    let record = sweep.run(&run.next_chunk(1)[0]).record;
    let beyond = riser_sweep::Record { point: 60, ..record.clone() };
    assert_eq!(
        run.accept(vec![beyond]).unwrap_err().to_string(),
        "record of point 60: expected points 0 to 59"
    );
    let short = riser_sweep::Record { metrics: record.metrics[..2].to_vec(), ..record };
    assert!(run.accept(vec![short]).unwrap_err().to_string().contains("2 metrics: expected 4"));
}
