// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulation agrees with its own wire and with the closed form wherever the link is the bottleneck. The snapshot is
//! the table itself, for review.

use riser_bench::{Plan, Test};
use lab::schema::Link;
use lab::values::{Gen, Lanes, MpsBytes, MrrsBytes};
use std::fmt::Write;

/// A thousandth.
const TOLERANCE: f64 = 1e-3;

fn link(generation: i64, lanes: i64, mps: i64) -> Link {
    Link {
        generation: Gen::try_from(generation).ok(),
        lanes: Lanes::try_from(lanes).ok(),
        mps_bytes: MpsBytes::try_from(mps).ok(),
        mrrs_bytes: MrrsBytes::try_from(512).ok(),
        ..Link::default()
    }
}

#[test]
fn simulation_wire_and_closed_form_agree() {
    let mut table = String::from(
        "Payload of one direction in Gb/s, ideal host, MRRS 512, 64-bit addresses\n\
         link     MPS  test      size  simulated       wire      exact  sim/exact %  sim/published\n",
    );
    for (generation, lanes) in [(1, 1), (2, 4), (3, 8), (4, 8), (5, 16)] {
        for mps in [128, 256, 512] {
            for test in [Test::BwRd, Test::BwWr, Test::BwRdWr] {
                // In turn, one kind gets ahead until the other's queue is full: a short queue fills sooner.
                let in_turn = test == Test::BwRdWr;
                let plan = Plan {
                    link: link(generation, lanes, mps),
                    bandwidth_transfers: 4_000,
                    warm_up: if in_turn { 12_000 } else { 2_000 },
                    outstanding: Some(if in_turn { 32 } else { 128 }),
                    ..Plan::default()
                };
                for size in [64, 128, 256, 512, 1024, 2048, 4096] {
                    let row = plan.measure(test, size).unwrap();
                    let b = row.bandwidth.unwrap();
                    let off_wire = (b.bandwidth_gbps / b.wire_gbps - 1.0).abs();
                    let off_exact = (b.bandwidth_gbps / b.model_exact_gbps - 1.0).abs();
                    let _ = writeln!(
                        table,
                        "Gen{generation} x{lanes:<2} {mps:>4}  {:8} {size:>5} {:>10.3} {:>10.3} {:>10.3}  {:>+11.2}  {:>13.3}",
                        test.name(),
                        b.bandwidth_gbps,
                        b.wire_gbps,
                        b.model_exact_gbps,
                        (b.bandwidth_gbps / b.model_exact_gbps - 1.0) * 100.0,
                        b.bandwidth_gbps / b.model_published_gbps,
                    );
                    assert!(
                        off_wire < TOLERANCE && off_exact < TOLERANCE,
                        "Gen{generation} x{lanes} MPS {mps}, {} of {size} B: {b:?}",
                        test.name()
                    );
                }
            }
        }
    }
    insta::assert_snapshot!(table);
}
