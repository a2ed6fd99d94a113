// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU time per event with 10,000 pending timers, compared with the same run without them. One tree is busy; the other
//! mostly refreshes credits and skips idle time.

#[path = "../tests/it/common/mod.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use the rest")]
mod common;

use common::link;
use common::system::{HIGH, System};
use common::trees::tree;
use riser_fabric::{Fabric, Limits, LinkChange, LinkEvent, LinkId};
use tlp::{Duration, Rate, Time};

const TIMERS: u64 = 10_000;
/// Total requests of all devices of the busy tree.
const REQUESTS: u64 = 300_000;
/// Reads of the idle devices, one every 200 us.
const READS: u64 = 2_000;

fn busy() -> Fabric {
    let link = link(Rate::Gt8, 16, 256);
    tree(&link, &link, 8, 8, REQUESTS / 64)
}

fn idle() -> Fabric {
    let device = |system: System, _| {
        system.device(link(Rate::Gt8, 8, 256), |io| async move {
            for _ in 0..READS {
                io.sleep(Duration::from_us(200)).await;
                let _ = io.dma_read_counted(HIGH, 64).await;
            }
        })
    };
    (0..8).fold(System::new(), device).with_program(|cpu, _| async move {
        cpu.sleep(Duration::from_us(210 * READS)).await;
        Ok(())
    })
}

/// Returns the CPU time of a run in nanoseconds per event, with `timers` pending.
fn ns_per_event(mut fabric: Fabric, timers: u64) -> f64 {
    for n in 0..timers {
        let at = Time::ZERO + Duration::from_ms(1_000_000 + n);
        fabric.schedule(LinkEvent { at, link: LinkId(0), change: LinkChange::Restore });
    }
    let start = testkit::cpu_ns();
    fabric.run(Limits { until: Time::ZERO + Duration::from_ms(10_000), ..Limits::default() });
    let totals = fabric.totals();
    (testkit::cpu_ns() - start) / (totals.events - totals.passed_over) as f64
}

fn main() {
    type Case = (&'static str, fn() -> Fabric);
    let cases: [Case; 2] = [("busy, 64 devices", busy), ("idle, 8 devices", idle)];
    for (name, make) in cases {
        // The two runs alternate, so that a change of the machine's speed affects both.
        let rounds: Vec<[f64; 2]> = (0..5).map(|_| [0, TIMERS].map(|n| ns_per_event(make(), n))).collect();
        let median = |values: &mut Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let [without, with] = [0, 1].map(|n| median(&mut rounds.iter().map(|round| round[n]).collect()));
        let ratio = median(&mut rounds.iter().map(|[without, with]| with / without).collect());
        println!("{name:18} {without:.0} ns per event, with {TIMERS} timers {with:.0} ns: {ratio:.2}");
    }
}
