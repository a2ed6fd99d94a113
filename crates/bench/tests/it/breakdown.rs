// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fabric's latency breakdown of a request agrees with the device's own measurement.

use riser_bench::{Plan, Row, Test};
use session::TransactionReport;

fn measure(test: Test, size: u32) -> Row {
    let plan = Plan {
        host: "xeon-e5-2637v3".into(),
        latency_transfers: 300,
        bandwidth_transfers: 1_000,
        warm_up: Some(500),
        ..Plan::default()
    };
    plan.measure(test, size).unwrap()
}

fn of<'a>(row: &'a Row, kind: &str) -> &'a TransactionReport {
    row.transactions.iter().find(|t| t.kind == kind).unwrap_or_else(|| panic!("no {kind}"))
}

/// The card of the ideal profile takes no time, so it measures the fabric's latency of a read.
#[test]
fn card_and_fabric_measure_the_same_read_latency() {
    for size in [4, 64, 256, 512] {
        let row = measure(Test::LatRd, size);
        let (card, fabric) = (row.latency.unwrap(), of(&row, "dma_read"));
        assert_eq!(card.latency_ns_min, fabric.latency_ns_min, "{size} B");
        assert_eq!(card.latency_ns_median, fabric.latency_ns_median, "{size} B");
    }
}

/// A row has exactly the requests that complete while transfers are counted: as many as TLPs went up, except those in
/// flight at the start and the end.
#[test]
fn row_counts_only_requests_of_its_transfers() {
    let row = measure(Test::BwWr, 256);
    let writes = of(&row, "dma_write").requests;
    assert!(writes.abs_diff(row.upstream.tlps) <= 64, "{writes} of {}", row.upstream.tlps);
    assert!(writes >= 900, "{writes}");
}
