// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Posted-data credits below the bandwidth-delay product limit the write bandwidth to credits x 16 B per round trip. The
//! snapshot is the table itself, for review.

use lab::schema::{Credits, Link};
use plug::values::{Gen, Lanes, MpsBytes};
use riser_bench::{Plan, Test};
use std::fmt::Write;

/// Time of flight, one way.
const FLIGHT_PS: u64 = 500_000;
/// Time of one byte on the wire: a symbol time of 1015.625 ps over eight lanes.
const BYTE_PS: f64 = 1_015.625 / 8.0;

fn gbps(posted_data: u16) -> f64 {
    let credits = Credits { posted_data: Some(posted_data), ..Credits::default() };
    let link = Link {
        generation: Gen::try_from(3).ok(),
        lanes: Lanes::try_from(8).ok(),
        mps_bytes: MpsBytes::try_from(256).ok(),
        propagation_ps: Some(FLIGHT_PS),
        root_credits: Some(credits),
        // Sent at once, so that the round trip is known: the default waits for up to 203 symbol times.
        update_fc_symbols: Some(1),
        ..Link::default()
    };
    let plan = Plan {
        link,
        bandwidth_transfers: 4_000,
        warm_up: Some(2_000),
        outstanding: Some(128),
        ..Plan::default()
    };
    plan.measure(Test::BwWr, 256).unwrap().bandwidth.unwrap().bandwidth_gbps
}

#[test]
fn credits_limit_the_bandwidth() {
    // The write with its framing, its flight, a symbol time, the UpdateFC, and its flight.
    let round_trip_ps = (280.0 + 8.0 + 8.0) * BYTE_PS + 2.0 * FLIGHT_PS as f64;
    let mut table = format!(
        "256 B writes on Gen3 x8, MPS 256, flight {FLIGHT_PS} ps each way: a round trip of {round_trip_ps:.0} ps\n\
         posted data credits  simulated Gb/s  credits x 16 B per round trip\n"
    );
    let full = gbps(1_024);
    let _ = writeln!(table, "{:>19}  {full:>14.3}  (the link is the bottleneck)", 1_024);
    for credits in [256, 128, 64, 32, 16] {
        let computed = f64::from(credits) * 16.0 * 8_000.0 / round_trip_ps;
        let simulated = gbps(credits);
        let _ = writeln!(table, "{credits:>19}  {simulated:>14.3}  {computed:>14.3}");
        assert!(
            computed < full && (simulated / computed - 1.0).abs() < 0.01,
            "{credits}: {simulated}, {computed}"
        );
    }
    insta::assert_snapshot!(table);
}
