// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The suite: rows as in the published files, and small suites that are run, interrupted and repeated.

use riser_bench::configurations::{CONFIGURATIONS, Configuration};
use riser_bench::experiments::{EXPERIMENTS, Experiment, Key};
use riser_bench::results::{Figures, ResultSet};
use riser_bench::suite::{Extra, Machine, RECORD, Rule, Suite, SuiteError};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Every published file has the rows of its experiment, in order, and there are no other files.
#[test]
fn rows_match_published_files() {
    let Some(path) = testkit::shared_data("pcie-bench") else { return };
    let data = ResultSet::read(&path).unwrap();
    assert_eq!(data.configurations.len(), 17);
    let mut seen = Vec::new();
    for (name, tables) in &data.configurations {
        assert!(Configuration::named(name).is_some(), "{name}");
        for (experiment, rows) in &tables.experiments {
            let known = Experiment::named(experiment).unwrap_or_else(|| panic!("{name}/{experiment}"));
            let keys: Vec<Key> = rows.iter().map(|r| r.key).collect();
            assert_eq!(keys, known.rows(), "{name}/{experiment}");
            for row in rows {
                check_counts(known, row.figures);
            }
            seen.push(known.name);
        }
        for (experiment, series) in &tables.distributions {
            assert!(Experiment::named(experiment).unwrap().has_distribution());
            assert_eq!(series.len(), tables.experiments[experiment].len(), "{name}/{experiment}_cdf");
        }
    }
    assert!(EXPERIMENTS.iter().all(|e| seen.contains(&e.name)), "an experiment without a file");
}

fn check_counts(experiment: &Experiment, figures: Figures) {
    match figures {
        Figures::Latency(latency) => assert_eq!(latency.samples, experiment.card_samples()),
        // For alternating reads and writes, one direction counts.
        Figures::Bandwidth(bandwidth) => {
            let all = experiment.card_samples();
            assert!([all, all / 2].contains(&bandwidth.transactions), "{}", bandwidth.transactions);
        }
    }
}

/// Published files that are read and written again are identical, byte for byte.
#[test]
fn published_files_survive_a_round_trip() {
    let Some(path) = testkit::shared_data("pcie-bench") else { return };
    let folder = path.join("nfp6000-1.2GHz_hsw-Xeon-E3-1226v3_fujitsu-tx1310");
    for name in
        ["lat_dma_off_rd", "lat_cmd_sweep_wrrd_rnd_64", "bw_dma_sz_sweep", "bw_dma_win_sweep_wr_rnd_64"]
    {
        let file = folder.join(format!("{name}.csv"));
        let bytes = fs::read(&file).unwrap();
        let rows = riser_bench::results::parse_table(&file, &bytes).unwrap();
        assert!(riser_bench::results::write::table(&rows).as_bytes() == bytes, "{name}");
    }
    let file = folder.join("lat_cmd_details_cdf.csv");
    let bytes = fs::read(&file).unwrap();
    let series = riser_bench::results::parse_distributions(&file, &bytes).unwrap();
    assert!(riser_bench::results::write::distributions(series.iter().map(Vec::as_slice)).as_bytes() == bytes);
}

/// The table of configurations agrees with `hosts.json`.
#[test]
fn configurations_agree_with_hosts_json() {
    let Some(path) = testkit::shared_data("pcie-bench") else { return };
    let text = fs::read_to_string(path.join("hosts.json")).unwrap();
    let hosts: serde_json::Value = serde_json::from_str(&text).unwrap();
    let hosts = hosts.as_object().unwrap();
    assert_eq!(hosts.len(), CONFIGURATIONS.len());
    for c in &CONFIGURATIONS {
        let host = &hosts[c.name];
        assert_eq!(host["llc_mib"], c.llc_mib, "{}", c.name);
        assert_eq!(host["mps_bytes"], c.mps_bytes, "{}", c.name);
        assert_eq!(host["mrrs_bytes"], c.mrrs_bytes, "{}", c.name);
        assert_eq!(host["iommu"], c.iommu.in_records(), "{}", c.name);
        assert_eq!(host["cmd_path_valid"], c.cmd_path_valid, "{}", c.name);
        assert_eq!(host["link"], "gen3 x8", "{}", c.name);
        let cpu = c.profile.trim_start_matches("xeon-").to_lowercase();
        assert!(host["cpu"].as_str().unwrap().to_lowercase().ends_with(&cpu), "{}", c.name);
        let sockets = c.sockets.map(|s| {
            serde_json::json!({ "device_socket": s.device, "memory_socket": s.memory, "program_socket": s.program })
        });
        assert_eq!(host["numa"], sockets.unwrap_or(serde_json::Value::Null), "{}", c.name);
    }
}

/// Returns a new, empty folder for a test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    folder
}

/// Returns a fast suite, with few samples per row.
fn suite(folder: &Path, experiments: &[&str]) -> Suite {
    let rule = Rule {
        latency_batch: 32,
        latency_batches: 2,
        bandwidth_batches: 1,
        detail_factor: 1,
        ..Rule::default()
    };
    Suite {
        machines: vec![Machine::profile("ideal", "nfp6000")],
        experiments: experiments.iter().map(|name| Experiment::named(name).unwrap()).collect(),
        rule: Rule { seen_lines: 64, ..rule },
        extra: Extra::default(),
        seed: 1,
        jobs: 2,
        folder: folder.into(),
        fresh: false,
        force: false,
    }
}

fn run(suite: &Suite) -> Result<riser_bench::suite::Outcome, SuiteError> {
    suite.run(&AtomicBool::new(false), &mut |_| {})
}

/// Returns name and text of each file of a folder.
fn files(folder: &Path) -> Vec<(String, String)> {
    let file = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path.file_name().unwrap().to_string_lossy().into_owned(), text)
    };
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| file(entry.unwrap().path())).collect();
    files.sort();
    files
}

#[test]
fn results_are_equal_for_any_number_of_jobs_and_are_reused() {
    let (one, two) = (folder("one-job"), folder("two-jobs"));
    let names = ["lat_cmd_sizes", "lat_cmd_details"];
    let first = suite(&two, &names);
    let outcome = run(&first).unwrap();
    assert_eq!((outcome.rows, outcome.written, outcome.kept, outcome.left), (22, 2, 0, 0));
    run(&Suite { jobs: 1, ..suite(&one, &names) }).unwrap();
    let made = files(&two.join("nfp6000_ideal"));
    assert_eq!(made, files(&one.join("nfp6000_ideal")));
    let found: Vec<&str> = made.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(found, ["lat_cmd_details.csv", "lat_cmd_details_cdf.csv", "lat_cmd_sizes.csv", RECORD]);

    let again = run(&first).unwrap();
    assert_eq!((again.rows, again.kept), (0, 2));
    let tables = &ResultSet::read(&two).unwrap().configurations["nfp6000_ideal"];
    let keys: Vec<Key> = tables.experiments["lat_cmd_sizes"].iter().map(|r| r.key).collect();
    assert_eq!(keys, Experiment::named("lat_cmd_sizes").unwrap().rows());
    assert_eq!(tables.distributions["lat_cmd_details"].len(), 8);
    for row in &tables.experiments["lat_cmd_sizes"] {
        let Figures::Latency(latency) = row.figures else { panic!("a latency") };
        assert_eq!(latency.samples, 64);
        assert!(latency.cycles.median % 8.0 == 0.0 && latency.cycles.min % 16.0 == 0.0, "{latency:?}");
    }
}

#[test]
fn interrupted_suite_resumes() {
    let folder = folder("interrupted");
    let all = Suite { jobs: 1, ..suite(&folder, &["lat_cmd_sizes", "lat_dma_sizes"]) };
    let cancel = AtomicBool::new(false);
    let outcome = all.run(&cancel, &mut |at| cancel.store(at.rows >= 16, Ordering::Relaxed)).unwrap();
    assert_eq!((outcome.written, outcome.left), (1, 1));
    let kept = files(&folder.join("nfp6000_ideal"));
    assert_eq!(kept.len(), 2, "one table and the record, nothing half done: {kept:?}");
    let rest = run(&all).unwrap();
    assert_eq!((rest.rows, rest.written, rest.kept, rest.left), (30, 1, 1, 0));
    assert!(files(&folder.join("nfp6000_ideal")).contains(&kept[0]));
}

#[test]
fn foreign_files_are_not_overwritten() {
    let folder = folder("others");
    let own = suite(&folder, &["lat_cmd_sizes"]);
    let file = folder.join("nfp6000_ideal/lat_cmd_sizes.csv");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "somebody's\n").unwrap();
    let error = run(&own).unwrap_err().to_string();
    assert!(
        error.ends_with("lat_cmd_sizes.csv: exists and is not of this suite: --force overwrites it"),
        "{error}"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "somebody's\n");
    run(&Suite { force: true, ..own.clone() }).unwrap();

    let other_seed = Suite { seed: 2, ..own.clone() };
    let error = run(&other_seed).unwrap_err().to_string();
    assert!(error.ends_with("was measured with other parameters: --fresh measures it again"), "{error}");
    assert_eq!(run(&Suite { fresh: true, ..other_seed }).unwrap().written, 1);
    // A file that a user edited is no longer the suite's own.
    fs::write(&file, fs::read_to_string(&file).unwrap().replace("4096", "4095")).unwrap();
    assert!(matches!(run(&Suite { seed: 2, ..own }), Err(SuiteError::InTheWay { .. })));
}

#[test]
fn writes_histograms_and_time_series() {
    let folder = folder("extra");
    let mut with = suite(&folder, &["lat_cmd_details"]);
    with.extra = Extra { histograms: true, time_series: true };
    run(&with).unwrap();
    let read = |name: &str| fs::read_to_string(folder.join("nfp6000_ideal").join(name)).unwrap();
    let (histograms, series) = (read("lat_cmd_details_hist.csv"), read("lat_cmd_details_ts.csv"));
    let counts: u64 =
        histograms.lines().skip(1).filter_map(|l| l.rsplit(',').next()?.parse::<u64>().ok()).sum();
    assert_eq!(counts, 8 * 64);
    assert_eq!(series.lines().filter(|l| l.starts_with("row,")).count(), 8);
    assert_eq!(series.lines().count(), 1 + 8 + 8 * 64);
}
