// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulation agrees with its own wire and with the closed form whenever the link is the bottleneck. The snapshot is
//! the table itself, for review.

use lab::schema::Link;
use plug::values::{Gen, Lanes, MpsBytes, MrrsBytes};
use riser_bench::{Plan, Test};
use std::fmt::Write;

/// Tolerance of a thousandth.
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

/// Checks the rows of one link, and returns them as text.
fn rows(generation: i64, lanes: i64) -> String {
    let mut table = String::new();
    for mps in [128, 256, 512] {
        for test in [Test::BwRd, Test::BwWr, Test::BwRdWr] {
            // With alternating transfers, one kind advances further until the other's queue is full. A short queue
            // fills sooner.
            let in_turn = test == Test::BwRdWr;
            let plan = Plan {
                link: link(generation, lanes, mps),
                bandwidth_transfers: if in_turn { 8_000 } else { 3_000 },
                warm_up: Some(if in_turn { 8_000 } else { 1_000 }),
                outstanding: Some(if in_turn { 32 } else { 128 }),
                ..Plan::default()
            };
            let sizes: &[u32] =
                if in_turn { &[64, 256, 1024, 4096] } else { &[64, 128, 256, 512, 1024, 2048, 4096] };
            for &size in sizes {
                let b = plan.measure(test, size).unwrap().bandwidth.unwrap();
                let head = format!("Gen{generation} x{lanes:<2} {mps:>4}  {:8} {size:>5}", test.name());
                let off = |reference: f64| b.bandwidth_gbps / reference - 1.0;
                let _ = writeln!(
                    table,
                    "{head} {:>10.3} {:>10.3} {:>10.3}  {:>11.2}  {:>13.3}",
                    b.bandwidth_gbps,
                    b.wire_gbps,
                    b.model_exact_gbps,
                    off(b.model_exact_gbps).abs() * 100.0,
                    b.bandwidth_gbps / b.model_published_gbps.unwrap(),
                );
                let agrees = off(b.wire_gbps).abs() < TOLERANCE && off(b.model_exact_gbps).abs() < TOLERANCE;
                assert!(agrees, "{head}: {b:?}");
            }
        }
    }
    table
}

/// The rows of these links, each given by its generation and lanes. A thread measures each link.
fn tables<const N: usize>(links: [(i64, i64); N]) -> String {
    std::thread::scope(|scope| {
        let threads = links.map(|(generation, lanes)| scope.spawn(move || rows(generation, lanes)));
        threads.map(|thread| thread.join().unwrap()).concat()
    })
}

#[test]
fn simulation_wire_and_closed_form_agree_on_two_links() {
    tables([(3, 8), (5, 16)]);
}

#[test]
#[ignore = "of .ci/long fidelity"]
fn simulation_wire_and_closed_form_agree() {
    let table = format!(
        "Payload of one direction in Gb/s, ideal host, MRRS 512, 64-bit addresses\n\
         link     MPS  test      size  simulated       wire      exact  off exact %  sim/published\n{}",
        tables([(1, 1), (2, 4), (3, 8), (4, 8), (5, 16)])
    );
    insta::assert_snapshot!(table);
}
