// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rows are measured in a steady state, never above what the wire can carry, and report the reason if they are below.

use lab::schema::Link;
use plug::MemoryKind;
use plug::values::{Gen, Lanes, MpsBytes};
use riser_bench::{BandwidthRow, DEFAULT_WARM_UP, Plan, Test};

fn link(generation: i64, lanes: i64, mps: i64) -> Link {
    Link {
        generation: Gen::try_from(generation).ok(),
        lanes: Lanes::try_from(lanes).ok(),
        mps_bytes: MpsBytes::try_from(mps).ok(),
        ..Link::default()
    }
}

fn off_percent(row: &BandwidthRow) -> f64 {
    (row.bandwidth_gbps / row.model_exact_gbps - 1.0) * 100.0
}

/// Reads get ahead while writes fill 512 places. In the first 16,384 transfers and in the next 20,000, reads outnumber writes by one
/// in a hundred, and half of the sum would be 0.5 % above the wire.
#[test]
fn alternating_transfers_stay_below_the_exact_form() {
    let plan = Plan { link: link(2, 8, 256), outstanding: Some(512), ..Plan::default() };
    let row = plan.measure(Test::BwRdWr, 500).unwrap();
    let b = row.bandwidth.unwrap();
    assert!(row.warm_up > DEFAULT_WARM_UP, "{}", row.warm_up);
    assert!(off_percent(&b).abs() < 0.02 && (b.read_gbps / b.write_gbps - 1.0).abs() < 1e-3, "{b:?}");

    // A given warm-up is kept. Then the lower of both directions counts.
    let short = Plan { warm_up: Some(DEFAULT_WARM_UP), ..plan };
    let row = short.measure(Test::BwRdWr, 500).unwrap();
    let b = row.bandwidth.unwrap();
    assert_eq!(row.warm_up, DEFAULT_WARM_UP);
    assert!(b.read_gbps > b.write_gbps * 1.005, "{b:?}");
    assert_eq!(b.bandwidth_gbps, b.write_gbps);
    assert!(off_percent(&b) < 0.0, "{b:?}");
}

/// Writes of 8 B over Gen5 x16 exhaust the 127 posted headers that unscaled flow control can advertise. The mean wait of a TLP is
/// 0.03 ns, but for 7 % of the time no TLP could be sent. Busy time, stalls and SKP ordered sets (1 in 375) add up to the whole.
#[test]
fn stalls_explain_the_missing_bandwidth() {
    let plan = Plan {
        link: link(5, 16, 2048),
        memory: Some(MemoryKind::Low),
        host_offset_bytes: Some(32),
        outstanding: Some(512),
        ..Plan::default()
    };
    let row = plan.measure(Test::BwWr, 8).unwrap();
    let (stalls, stalled) = row.upstream.stalls(row.link_ns);
    assert!(stalls > 100 && off_percent(&row.bandwidth.unwrap()) < -6.0, "{row:?}");
    let sum = row.upstream.utilization + stalled;
    assert!((sum + 1.0 / 375.0 - 1.0).abs() < 2e-3, "{} busy, {stalled} stalled", row.upstream.utilization);
    assert_eq!(row.downstream.stalls(row.link_ns).0, 0);
}
