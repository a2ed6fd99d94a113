// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hops per CPU-second of trees of switches, with raw-TLP devices that send writes and reads of 256 B at full speed.

#[path = "../tests/it/common/mod.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use the rest")]
mod common;

use common::link;
use common::trees::tree;
use riser_fabric::{Fabric, Limits};
use std::fs;
use tlp::Rate;

/// Total requests of all devices.
const REQUESTS: u64 = 1_000_000;

fn cpu_seconds() -> f64 {
    testkit::cpu_ns() / 1e9
}

/// Peak memory of this process in MB.
fn peak_mb() -> f64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e3
}

fn run(name: &str, mut fabric: Fabric) {
    let start = cpu_seconds();
    let stop = fabric.run(Limits::default());
    let seconds = cpu_seconds() - start;
    let totals = fabric.totals();
    println!(
        "{name:30} {stop} {} hops, {:.2} events/hop, {:.2} M hops/s, {:.1} Gb/s, {:.0} MB",
        totals.tlp_hops,
        totals.events as f64 / totals.tlp_hops as f64,
        totals.tlp_hops as f64 / seconds / 1e6,
        REQUESTS as f64 * 256.0 * 8.0 / fabric.now().as_ps() as f64 * 1e3,
        peak_mb(),
    );
}

fn main() {
    let asked = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    for (name, switches, fan_out, lanes) in [
        ("8 devices x4, 1 switch", 1, 8, 4),
        ("8 devices x16, 1 switch", 1, 8, 16),
        ("64 devices x4, 9 switches", 8, 8, 4),
        ("64 devices x16, 9 switches", 8, 8, 16),
    ] {
        if asked.as_ref().is_some_and(|asked| !name.contains(asked.as_str())) {
            continue;
        }
        let each = REQUESTS / u64::from(switches) / u64::from(fan_out);
        let (up, down) = (link(Rate::Gt8, 16, 256), link(Rate::Gt8, lanes, 256));
        run(name, tree(&up, &down, switches, fan_out, each));
    }
}
