// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scores of small sets, checked by hand, and against the published scorer if it is available.

use crate::compare::made::{add, key, row, set, whole};
use proptest::prelude::*;
use riser_bench::experiments::{Cache, EXPERIMENTS, Test};
use riser_bench::results::{ResultRow, ResultSet, write};
use riser_bench::score::{GroupScore, family, score};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const KIB: u64 = 1024;

fn only(groups: Vec<GroupScore>) -> GroupScore {
    let [group] = <[GroupScore; 1]>::try_from(groups).unwrap();
    group
}

fn sizes(values: &[(u32, f64)]) -> Vec<ResultRow> {
    values
        .iter()
        .map(|(size, gbps)| row(key(Test::BwDmaRd, Cache::HostWarm, 8 * KIB, *size), *gbps))
        .collect()
}

fn bandwidths(values: &[(u32, f64)]) -> ResultSet {
    set("mine", "bw_dma_sz_sweep", sizes(values))
}

/// Windows from 16 KiB on, each twice the one before.
fn windows(values: &[f64]) -> ResultSet {
    let at = |n: usize| key(Test::LatDmaRd, Cache::HostWarm, (16 * KIB) << n, 64);
    set("mine", "lat_dma_sweep_rd_rnd_64", values.iter().enumerate().map(|(n, ns)| row(at(n), *ns)))
}

#[test]
fn errors_are_relative_to_the_measurement() {
    let measured = bandwidths(&[(16, 10.0), (32, 20.0), (192, 40.0)]);
    for (predicted, error) in [
        (bandwidths(&[(16, 10.0), (32, 20.0), (192, 40.0)]), 0.0),
        (bandwidths(&[(16, 11.0), (32, 18.0), (192, 40.0)]), 6.67),
        // A missing row counts as an error of 100 %; an additional one does not count.
        (bandwidths(&[(16, 10.0), (192, 40.0), (320, 1.0)]), 33.33),
        (ResultSet::default(), 100.0),
    ] {
        let score = only(score(&measured, &predicted, None));
        assert_eq!((score.group, score.rows, score.mape_percent["BW_SZ"]), ("other", 3, error));
        assert_eq!(score.mape_percent_by_configuration["mine"], error);
    }
}

#[test]
fn family_error_is_the_mean_of_its_files() {
    let mut measured = bandwidths(&[(16, 10.0)]);
    let mut predicted = bandwidths(&[(16, 12.0)]);
    add(
        &mut measured,
        "nfp6000-1.2GHz_yours",
        "bw_dma_sz_sweep",
        sizes(&[(16, 10.0), (32, 10.0), (192, 10.0)]),
    );
    add(&mut predicted, "yours", "bw_dma_sz_sweep", sizes(&[(16, 10.0), (32, 10.0), (192, 16.0)]));
    let score = only(score(&measured, &predicted, None));
    // (20 % + 60 % / 3) / 2, not a mean of all rows.
    assert_eq!(score.mape_percent, BTreeMap::from([("BW_SZ", 20.0)]));
    let by_configuration: Vec<_> =
        score.mape_percent_by_configuration.iter().map(|(k, v)| (k.as_str(), *v)).collect();
    assert_eq!(by_configuration, [("mine", 20.0), ("yours", 20.0)]);
    assert_eq!(score.mape_percent_by_server["yours"], BTreeMap::from([("BW_SZ", 20.0)]));
}

/// The configurations of a server with the same mode of its IOMMU share a line.
#[test]
fn servers_with_and_without_iommu_are_scored_apart() {
    let names = ["s0-s0-s0", "s0-s1-s1", "s0-s0-s0-iommu-nosp"];
    let names = names.map(|end| format!("nfp6000-1.2GHz_ib-Xeon-E5-2620v2_dell-t620-{end}"));
    let (mut measured, mut predicted) = (ResultSet::default(), ResultSet::default());
    for (name, gbps) in names.iter().zip([11.0, 13.0, 15.0]) {
        add(&mut measured, name, "bw_dma_sz_sweep", sizes(&[(16, 10.0)]));
        add(&mut predicted, name, "bw_dma_sz_sweep", sizes(&[(16, gbps)]));
    }
    let by_server = only(score(&measured, &predicted, None)).mape_percent_by_server;
    let by_server: Vec<_> =
        by_server.iter().map(|(server, errors)| (server.as_str(), errors["BW_SZ"])).collect();
    assert_eq!(by_server, [("xeon-e5-2620v2", 20.0), ("xeon-e5-2620v2, IOMMU 4k", 50.0)]);
}

#[test]
fn edges_are_steps_at_boundaries() {
    let measured = bandwidths(&[(63, 10.0), (64, 12.0), (127, 20.0), (128, 20.1), (256, 40.0), (257, 30.0)]);
    for (predicted, right) in [
        // The measured steps; then half and twice the step of 20 %, which still count, and a step below 2 %,
        // which is flat.
        ([10.0, 12.0, 20.0, 20.1, 40.0, 30.0], 100.0),
        ([10.0, 11.0, 20.0, 20.3, 40.0, 22.0], 100.0),
        ([10.0, 10.9, 20.0, 20.3, 40.0, 22.0], 66.67),
        ([10.0, 11.0, 20.0, 20.5, 40.0, 22.0], 66.67),
        ([10.0, 11.0, 20.0, 20.3, 40.0, 50.0], 66.67),
        ([12.0, 10.0, 20.0, 30.0, 30.0, 30.0], 0.0),
    ] {
        let sizes = [63, 64, 127, 128, 256, 257];
        let points: Vec<(u32, f64)> = sizes.into_iter().zip(predicted).collect();
        assert_eq!(
            only(score(&measured, &bandwidths(&points), None)).edge_percent,
            Some(right),
            "{points:?}"
        );
    }
    // A boundary with one side missing is wrong. A boundary that was not measured does not count.
    let half = bandwidths(&[(63, 10.0), (127, 20.0), (128, 20.1)]);
    assert_eq!(only(score(&measured, &half, None)).edge_percent, Some(33.33));
    assert_eq!(only(score(&bandwidths(&[(63, 10.0)]), &half, None)).edge_percent, None);
}

#[test]
fn finds_knees_at_the_ends_of_plateaus() {
    // Two ticks of the card's clock are 26.67 ns, 6 % of 560 ns are 33.6 ns.
    let flat = [560.0, 560.0, 573.0, 573.0, 573.0, 573.0, 573.0];
    let third = [560.0, 560.0, 573.0, 620.0, 640.0, 640.0, 640.0];
    let fourth = [560.0, 560.0, 573.0, 573.0, 640.0, 640.0, 640.0];
    let last = [560.0, 560.0, 573.0, 573.0, 573.0, 573.0, 640.0];
    for (measured, predicted, right) in [
        (third, third, 100.0),
        (third, fourth, 50.0),
        (fourth, third, 50.0),
        (third, last, 0.0),
        (third, flat, 0.0),
        (flat, third, 0.0),
        (flat, flat, 100.0),
    ] {
        let score = only(score(&windows(&measured), &windows(&predicted), None));
        assert_eq!(score.knee_percent, Some(right), "{measured:?} {predicted:?}");
    }
    assert_eq!(
        only(score(&windows(&third), &windows(&third[..6]), None)).knee_percent,
        Some(0.0),
        "one is missing"
    );
    assert_eq!(only(score(&windows(&third[..5]), &windows(&third), None)).knee_percent, None, "too short");
}

#[test]
fn ranks_are_the_order_of_rows() {
    let measured = bandwidths(&[(16, 1.0), (32, 2.0), (192, 3.0), (320, 4.0)]);
    for (values, right) in [
        ([5.0, 6.0, 7.0, 8.0], Some(100.0)),
        // Four ranks with two neighbours exchanged: 1 - 6 * 2 / (4 * 15).
        ([5.0, 7.0, 6.0, 8.0], Some(80.0)),
        // Two equal values with rank 1.5 each: 4.5 / sqrt(5 * 4.5).
        ([5.0, 6.0, 6.0, 8.0], Some(94.87)),
        ([8.0, 7.0, 6.0, 5.0], Some(0.0)),
        ([5.0, 5.0, 5.0, 5.0], Some(0.0)),
    ] {
        let points: Vec<(u32, f64)> = [16, 32, 192, 320].into_iter().zip(values).collect();
        assert_eq!(only(score(&measured, &bandwidths(&points), None)).rank_percent, right, "{points:?}");
    }
    let flat = bandwidths(&[(16, 1.0), (32, 1.01)]);
    assert_eq!(only(score(&flat, &measured, None)).rank_percent, None, "nothing to order");
}

#[test]
fn scores_groups_and_skips_given_experiments() {
    let mut all = ResultSet::default();
    let e3 = "nfp6000-1.2GHz_hsw-Xeon-E3-1226v3_fujitsu-tx1310";
    let snb = "nfp6000-1.2GHz_snb-Xeon-E5-2630_dell-t620-iommu";
    for configuration in [e3, snb, "nfp6000-1.2GHz_hsw-Xeon-E5-2637v3_supermicro"] {
        add(&mut all, configuration, "lat_cmd_sizes", whole("lat_cmd_sizes", |_| 500.0));
        add(&mut all, configuration, "lat_dma_sweep_rd_rnd_64", whole("lat_dma_sweep_rd_rnd_64", |_| 600.0));
    }
    let rows = |skip| score(&all, &all, skip).iter().map(|g| (g.group, g.rows)).collect::<Vec<_>>();
    // The 2637v3's memory is above 32 GB: of 14 + 48 rows, only those of 12 windows in two cache states count.
    assert_eq!(rows(None), [("E5", 24), ("SNB with IOMMU", 62), ("E3", 62)]);
    // Experiments that another set has of the same configuration are left out.
    let seen = set(e3, "lat_cmd_sizes", []);
    assert_eq!(rows(Some(&seen)), [("E5", 24), ("SNB with IOMMU", 62), ("E3", 48)]);
    assert_eq!(rows(Some(&all)), []);
}

#[test]
fn published_experiments_have_a_family() {
    let families: std::collections::BTreeSet<_> = EXPERIMENTS.iter().map(|e| family(e.name)).collect();
    assert_eq!(families.len(), 12);
    for (experiment, name) in [
        ("bw_dma_win_sweep_rd_rnd_512", "BW_WIN_RD"),
        ("bw_dma_off_wr_cold", "BW_OFF_WR"),
        ("lat_dma_sizes_byte_inc", "LAT_DMA_SZ"),
        ("lat_cmd_details", "LAT_DETAIL"),
        ("my_own", "OTHER"),
    ] {
        assert_eq!(family(experiment), name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A prediction equal to the measurement has no errors; no other prediction scores better.
    #[test]
    fn exact_prediction_scores_best(values in prop::collection::vec(1.0f64..100.0, 48), other in prop::collection::vec(1.0f64..100.0, 48)) {
        let of = |values: &[f64]| {
            let keys = whole("lat_dma_sweep_rd_rnd_64", |_| 0.0).into_iter().map(|r| r.key);
            set("mine", "lat_dma_sweep_rd_rnd_64", keys.zip(values).map(|(key, value)| row(key, *value)))
        };
        let best = only(score(&of(&values), &of(&values), None));
        prop_assert_eq!(best.mape_percent["LAT_DMA_WIN"], 0.0);
        prop_assert_eq!((best.knee_percent, best.rank_percent), (Some(100.0), Some(100.0)));
        let worse = only(score(&of(&values), &of(&other), None));
        prop_assert!(worse.mape_percent["LAT_DMA_WIN"] >= 0.0);
        for share in [worse.knee_percent, worse.rank_percent] {
            prop_assert!(share.is_some_and(|p| (0.0..=100.0).contains(&p)), "{:?}", share);
        }
    }
}

// Against the published scorer.

/// Returns a set with each value changed by up to a tenth, and some rows and files missing.
fn disturbed(set: &ResultSet) -> ResultSet {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut out = ResultSet::default();
    for (configuration, tables) in &set.configurations {
        for (experiment, rows) in &tables.experiments {
            if next() % 23 == 0 {
                continue;
            }
            let full = next() % 4 != 0;
            let kept: Vec<&ResultRow> = rows.iter().filter(|_| full || next() % 40 != 0).collect();
            let factor = |n: u64| 0.9 + (n % 2000) as f64 / 10_000.0;
            add(
                &mut out,
                configuration,
                experiment,
                kept.into_iter().map(|r| row(r.key, r.value() * factor(next()))),
            );
        }
    }
    out
}

fn write_set(folder: &Path, set: &ResultSet) {
    for (configuration, tables) in &set.configurations {
        let folder = folder.join(configuration);
        std::fs::create_dir_all(&folder).unwrap();
        for (experiment, rows) in tables.experiments.iter().filter(|(_, rows)| !rows.is_empty()) {
            std::fs::write(folder.join(format!("{experiment}.csv")), write::table(rows)).unwrap();
        }
    }
}

fn published_score(script: &Path, truth: &Path, predicted: &Path, skip: Option<&Path>) -> Value {
    let mut command = Command::new("python3");
    command.arg(script).args([truth, predicted]).arg("--json");
    if let Some(skip) = skip {
        command.arg("--skip").arg(skip);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns riser's score with the field names of the published scorer.
fn as_published(groups: &[GroupScore]) -> Value {
    let group = |g: &GroupScore| {
        let mut value = serde_json::to_value(g).unwrap();
        let fields = value.as_object_mut().unwrap();
        for own in ["group", "mape_percent_by_server", "p999_percent", "max_percent"] {
            fields.remove(own);
        }
        let by_host = fields.remove("mape_percent_by_configuration").unwrap();
        fields.insert("mape_percent_by_host".to_owned(), by_host);
        (g.group.to_owned(), value)
    };
    Value::Object(groups.iter().map(group).collect())
}

/// Returns the scorer if it and Python are available.
fn scorer(data: &Path) -> Option<PathBuf> {
    let script = data.join("../tools/fidelity.py");
    let runs = Command::new("python3").arg("--version").output().is_ok_and(|o| o.status.success());
    if !script.is_file() || !runs {
        println!("skipped: no {} or no python3", script.display());
        return None;
    }
    Some(script)
}

#[test]
#[ignore = "of .ci/long fidelity"]
fn agrees_with_the_published_scorer() {
    let Some(truth) = testkit::shared_data("pcie-bench") else { return };
    let Some(script) = scorer(truth.parent().unwrap()) else { return };
    let measured = ResultSet::read(&truth).unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("scored");
    let _ = std::fs::remove_dir_all(&folder);
    write_set(&folder.join("disturbed"), &disturbed(&measured));
    let predicted = ResultSet::read(&folder.join("disturbed")).unwrap();
    // Half of all experiments, as if the other half had been used for calibration.
    let mut half = measured.clone();
    for tables in half.configurations.values_mut() {
        tables.experiments.retain(|name, _| name.contains("rd"));
    }
    write_set(&folder.join("half"), &half);

    let same = published_score(&script, &truth, &truth, None);
    assert_eq!(as_published(&score(&measured, &measured, None)), same);
    let disturbed = published_score(&script, &truth, &folder.join("disturbed"), None);
    assert_eq!(as_published(&score(&measured, &predicted, None)), disturbed);
    assert_eq!(disturbed.as_object().unwrap().len(), 3, "{disturbed}");
    let skipped = published_score(&script, &truth, &folder.join("disturbed"), Some(&folder.join("half")));
    assert_eq!(as_published(&score(&measured, &predicted, Some(&half))), skipped);
    let turned = published_score(&script, &folder.join("disturbed"), &truth, None);
    assert_eq!(as_published(&score(&predicted, &measured, None)), turned);
}
