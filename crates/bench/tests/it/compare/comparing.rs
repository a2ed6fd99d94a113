// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Comparison of two sets: pairs, worst rows and missing rows.

use crate::compare::made::{add, key, row, set, whole};
use proptest::prelude::*;
use riser_bench::compare::{Comparison, Quantity, compare};
use riser_bench::experiments::{Cache, Test};
use riser_bench::results::{ResultRow, ResultSet};

fn latencies(values: &[(u32, f64)]) -> Vec<ResultRow> {
    values.iter().map(|(size, ns)| row(key(Test::LatDmaRd, Cache::HostWarm, 8192, *size), *ns)).collect()
}

fn bandwidths(values: &[(u32, f64)]) -> Vec<ResultRow> {
    values.iter().map(|(size, gbps)| row(key(Test::BwDmaWr, Cache::Cold, 8192, *size), *gbps)).collect()
}

/// Two configurations, each with latencies and bandwidths.
fn pair() -> (ResultSet, ResultSet) {
    let (mut a, mut b) = (ResultSet::default(), ResultSet::default());
    add(&mut a, "nfp6000-1.2GHz_one", "lat_dma_sizes", latencies(&[(8, 500.0), (64, 600.0), (128, 640.0)]));
    add(&mut b, "one", "lat_dma_sizes", latencies(&[(8, 510.0), (64, 540.0), (256, 700.0)]));
    add(&mut a, "nfp6000-1.2GHz_one", "bw_dma_sz_sweep", bandwidths(&[(64, 20.0)]));
    add(&mut a, "two", "bw_dma_sz_sweep", bandwidths(&[(64, 20.0), (64, 90.0), (128, 40.0)]));
    add(&mut b, "two", "bw_dma_sz_sweep", bandwidths(&[(64, 21.0), (64, 90.0), (128, 40.0)]));
    add(&mut a, "three", "bw_dma_sz_sweep", bandwidths(&[(64, 20.0)]));
    add(&mut b, "four", "bw_dma_sz_sweep", bandwidths(&[(64, 20.0)]));
    (a, b)
}

#[test]
fn pairs_rows_by_key() {
    let (a, b) = pair();
    let Comparison { experiments, families, .. } = compare(&a, &b, None);
    let [latency, bandwidth] = &experiments[..] else { panic!("{experiments:?}") };
    assert_eq!(
        (latency.configuration.as_str(), latency.experiment.as_str()),
        ("nfp6000-1.2GHz_one", "lat_dma_sizes")
    );
    assert_eq!((latency.quantity, latency.rows, latency.missing), (Quantity::LatencyNsMedian, 2, 1));
    // 2 % above and 10 % below.
    assert_eq!((latency.mean_absolute_error_percent, latency.mean_error_percent), (6.0, -4.0));
    let worst = latency.worst.as_ref().unwrap();
    assert_eq!((worst.reference, worst.other, worst.error_percent), (600.0, 540.0, -10.0));
    assert_eq!(worst.key.to_string(), "LAT_DMA_RD Rand HWarm HO 0 DO 0 window 8192 size 64");
    // The first row of a repeated key counts.
    assert_eq!((bandwidth.quantity, bandwidth.rows), (Quantity::BandwidthGbps, 2));
    assert_eq!((bandwidth.mean_absolute_error_percent, bandwidth.mean_error_percent), (2.5, 2.5));

    let of = |f: &riser_bench::compare::FamilyComparison| {
        (f.family, f.experiments, f.rows, f.mean_absolute_error_percent, f.worst_at.clone().unwrap())
    };
    let found: Vec<_> = families.iter().map(of).collect();
    assert_eq!(
        found,
        [
            ("BW_SZ", 1, 2, 2.5, "two/bw_dma_sz_sweep".to_owned()),
            ("LAT_DMA_SZ", 1, 2, 6.0, "nfp6000-1.2GHz_one/lat_dma_sizes".to_owned())
        ]
    );
}

#[test]
fn lists_missing_configurations_experiments_and_rows() {
    let (a, b) = pair();
    let found = compare(&a, &b, None);
    assert_eq!(found.missing.configurations, ["three"]);
    assert_eq!(found.missing.experiments, ["nfp6000-1.2GHz_one/bw_dma_sz_sweep"]);
    let rows = |missing: &riser_bench::compare::Missing| {
        missing
            .rows
            .iter()
            .map(|r| format!("{}/{} {}", r.configuration, r.experiment, r.key.size_bytes))
            .collect::<Vec<_>>()
    };
    assert_eq!(rows(&found.missing), ["nfp6000-1.2GHz_one/lat_dma_sizes 128"]);
    assert_eq!(found.additional.configurations, ["four"]);
    assert_eq!(rows(&found.additional), ["one/lat_dma_sizes 256"]);
    assert!(!found.missing.is_empty() && compare(&a, &a, None).missing.is_empty());
}

#[test]
fn pairs_single_configurations_of_any_name() {
    let a = set("before", "lat_dma_sizes", latencies(&[(8, 500.0)]));
    let b = set("after", "lat_dma_sizes", latencies(&[(8, 525.0)]));
    let found = compare(&a, &b, None);
    assert_eq!(
        (found.experiments[0].configuration.as_str(), found.experiments[0].mean_error_percent),
        ("before", 5.0)
    );
    assert!(found.missing.is_empty() && found.additional.is_empty());
    assert_eq!(found.score[0].mape_percent["LAT_DMA_SZ"], 5.0);
}

#[test]
fn json_names_contain_units() {
    let (a, b) = pair();
    let json = serde_json::to_value(compare(&a, &b, None)).unwrap();
    let first = &json["experiments"][0];
    assert_eq!((&first["quantity"], &first["rows"]), (&"latency_ns_median".into(), &2.into()));
    assert_eq!((&first["worst"]["size_bytes"], &first["worst"]["cache"]), (&64.into(), &"HWarm".into()));
    assert_eq!(json["missing"]["rows"][0]["window_bytes"], 8192);
    assert_eq!(json["score"][0]["group"], "other");
    // Rows of B: two of three latencies and no bandwidths of the first configuration; one of one, and two of two, of
    // the others.
    assert_eq!(
        json["scored"],
        serde_json::json!({"rows": 4, "reference_rows": 7, "missing_rows_count": false})
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// With two complete sets, every error is found and the worst is the largest.
    #[test]
    fn finds_every_error_and_the_worst(factors in prop::collection::vec(0.5f64..2.0, 14)) {
        let a = set("a", "lat_cmd_sizes", whole("lat_cmd_sizes", |_| 400.0));
        let rows = whole("lat_cmd_sizes", |_| 400.0).into_iter().zip(&factors);
        let b = set("b", "lat_cmd_sizes", rows.map(|(r, factor)| row(r.key, 400.0 * factor)));
        let found = &compare(&a, &b, None).experiments[0];
        let mean = factors.iter().map(|f| (f - 1.0).abs()).sum::<f64>() / 14.0;
        let most = factors.iter().map(|f| (f - 1.0).abs()).fold(0.0, f64::max);
        prop_assert!((found.mean_absolute_error_percent - 100.0 * mean).abs() < 0.006);
        prop_assert!((found.worst.as_ref().unwrap().error_percent.abs() - 100.0 * most).abs() < 0.006);
    }
}
