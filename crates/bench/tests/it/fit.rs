// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fits recover known figures: one profile simulates the measurements, and another is fitted to them.

use riser_bench::configurations::{Iommu, Sockets};
use riser_bench::experiments::{Cache, Experiment, Key, Test};
use riser_bench::fit::task::warnings;
use riser_bench::fit::{Begun, Evidence, Input, Parameter, Profile, fit, known_range};
use riser_bench::results::{Figures, ResultRow, Tables};
use riser_bench::suite::{Machine, Rule, measure_row};
use std::path::Path;

/// Experiments used: window sweeps with small and large windows.
const SWEEPS: [&str; 4] = [
    "lat_cmd_sweep_rd_rnd_08",
    "lat_cmd_sweep_wrrd_rnd_64",
    "lat_dma_sweep_rd_rnd_64",
    "lat_dma_sweep_wrrd_rnd_64",
];

fn rule() -> Rule {
    Rule { latency_batch: 128, latency_batches: 6, seen_lines: 8192, ..Rule::quick() }
}

fn text(name: &str) -> &'static str {
    lab::profile::HOSTS.get(name).unwrap().text
}

/// Simulates these windows with `profile`, in place of measurements.
fn made_by(profile: &str, iommu: Iommu, sockets: Sockets, keep: impl Fn(&Key) -> bool) -> Input {
    let machine = Machine { iommu, sockets, ..Machine::profile(profile, "nfp6000") };
    let mut tables = Tables::default();
    for name in SWEEPS {
        let keys = Experiment::named(name).unwrap().rows().into_iter().filter(&keep);
        let rows = keys.map(|key| measure_row(&machine, key, &rule(), 1).unwrap()).collect();
        tables.experiments.insert(name.into(), rows);
    }
    Input { machine, tables, cmd_path_valid: true }
}

#[test]
#[ignore = "of .ci/long fidelity"]
fn fit_finds_the_figures_of_another_server() {
    let windows = [65_536, 262_144, 33_554_432];
    let keep = |key: &Key| windows.contains(&key.window_bytes);
    let far = Sockets { device: 0, memory: 1, program: 1 };
    let near = Sockets::default();
    let inputs = [
        made_by("xeon-e5-2630v4", Iommu::Off, near, keep),
        made_by("xeon-e5-2630v4", Iommu::Pages4k, near, keep),
        made_by("xeon-e5-2630v4", Iommu::Off, far, keep),
    ];
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fit.toml");
    let mut profile = Profile::parse(text("xeon-e5-2620v2")).unwrap();
    profile.adopt_data_sheet(text("xeon-e5-2630v4")).unwrap();
    let fitted = fit(&inputs, &mut profile, Begun::Another, &rule(), &file, |_| Ok(())).unwrap();
    let truth = Profile::parse(text("xeon-e5-2630v4")).unwrap();
    for figure in &fitted {
        let (is, was) = (figure.value_ps, truth.get(figure.parameter).unwrap());
        if figure.parameter == Parameter::RemoteSnoop || figure.parameter.is_of_bandwidth() {
            assert_eq!(
                figure.rows, 0,
                "no program is on the other socket while memory is on this one; no bandwidths"
            );
            let (least, most) = known_range(figure.parameter).unwrap();
            assert!((least..=most).contains(&figure.value_ps), "{figure:?} is that of a known server");
            continue;
        }
        assert!(figure.rows > 0, "{figure:?}");
        // Reads that wait for a refresh scatter the means of a few hundred samples.
        assert!(is.abs_diff(was) <= 8_000, "{:?}: {is} ps, and it is {was}", figure.parameter);
    }
    assert!(profile.text().contains("fit: "), "sources are recorded");
}

/// If bandwidths of reads are given, the gap after short requests is fitted to them, and only to them.
#[test]
fn fit_finds_the_gap_in_bandwidths() {
    let machine = Machine { mrrs_bytes: 4096, ..Machine::profile("xeon-e5-2630v4", "nfp6000") };
    let keys = Experiment::named("bw_dma_sz_sweep").unwrap().rows();
    let rows = keys.into_iter().filter(|key| [128, 512, 2048].contains(&key.size_bytes));
    let mut tables = Tables::default();
    let rows = rows.map(|key| measure_row(&machine, key, &rule(), 1).unwrap()).collect();
    tables.experiments.insert("bw_dma_sz_sweep".into(), rows);
    let inputs = [Input { machine, tables, cmd_path_valid: true }];
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fit-gaps.toml");
    let mut profile = Profile::parse(text("xeon-e5-2630v4")).unwrap();
    let truth = profile.get(Parameter::ShortGap).unwrap();
    profile.set(Parameter::ShortGap, 0, "none").unwrap();
    let fitted = fit(&inputs, &mut profile, Begun::Own, &rule(), &file, |_| Ok(())).unwrap();
    for figure in fitted {
        match figure.parameter {
            Parameter::ShortGap => {
                assert!(figure.value_ps.abs_diff(truth) <= 150, "{figure:?} for {truth}");
            }
            _ => assert_eq!(figure.rows, 0, "{figure:?}"),
        }
    }
}

/// Host-warm reads alone cannot separate the core's latency from the root complex's. The data determine the sum, the core's
/// latency is kept, and predictions are still right.
#[test]
fn fits_latency_sum_without_device_written_rows() {
    let keep = |key: &Key| {
        key.window_bytes == 65_536
            && key.test.is_latency()
            && matches!(key.cache, Cache::HostWarm | Cache::Cold)
    };
    let inputs = [made_by("xeon-e5-2630v4", Iommu::Off, Sockets::default(), keep)];
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fit-sum.toml");
    let mut profile = Profile::parse(text("xeon-e5-2637v3")).unwrap();
    let snoop = profile.get(Parameter::CoreSnoop);
    let fitted = fit(&inputs, &mut profile, Begun::Another, &rule(), &file, |_| Ok(())).unwrap();
    let evidence = |parameter| fitted.iter().find(|f| f.parameter == parameter).unwrap().evidence;
    assert_eq!(evidence(Parameter::RootComplex), Evidence::Together(Parameter::CoreSnoop));
    assert_eq!(evidence(Parameter::CoreSnoop), Evidence::NotApart(Parameter::RootComplex));
    assert_eq!(evidence(Parameter::Dram), Evidence::Rows);
    assert_eq!(evidence(Parameter::PageWalk), Evidence::Missing);
    assert_eq!(profile.get(Parameter::CoreSnoop), snoop);
    assert!(profile.get(Parameter::Dram) > snoop, "cold reads are slower than warm ones: {}", profile.text());
    // Both kinds of reads are predicted as measured.
    let machine = Machine { host: file.to_string_lossy().into_owned(), ..inputs[0].machine.clone() };
    let is_read = |row: &&ResultRow| matches!(row.key.test, Test::LatCmdRd | Test::LatDmaRd);
    for row in inputs[0].tables.experiments.values().flatten().filter(is_read) {
        let again = measure_row(&machine, row.key, &rule(), 1).unwrap();
        let off = (again.value() - row.value()).abs();
        assert!(off < 15.0, "{}: {} for {}", row.key, again.value(), row.value());
    }
    let warned = warnings(&[], Begun::Another, &fitted);
    assert!(
        warned.iter().any(|line| line.starts_with("llc.core_snoop_latency_ps: not determined")),
        "{warned:?}"
    );
    assert!(warned.iter().any(|line| line.starts_with("root_complex_latency_ps: fitted on")), "{warned:?}");
}

/// One set is a thousand times too long, as if picoseconds were read as nanoseconds; the other has latencies below the
/// time of the card alone.
#[test]
fn rejects_impossible_latencies() {
    let keep = |key: &Key| key.window_bytes == 65_536 && key.cache == Cache::HostWarm;
    let made = made_by("xeon-e5-2630v4", Iommu::Off, Sockets::default(), keep);
    for (factor, asked) in [(1000.0, "expected 0 to"), (0.2, "the rows give -")] {
        let mut input = made.clone();
        for row in input.tables.experiments.values_mut().flatten() {
            if let Figures::Latency(figures) = &mut row.figures {
                figures.ns = figures.ns.scaled(|ns| factor * ns);
            }
        }
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fit-absurd.toml");
        let mut profile = Profile::parse(text("xeon-e5-2637v3")).unwrap();
        let why =
            fit(&[input], &mut profile, Begun::Another, &rule(), &file, |_| Ok(())).unwrap_err().to_string();
        assert!(why.starts_with("root_complex_latency_ps: the rows give") && why.contains(asked), "{why}");
    }
}
