// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hops per CPU-second of link and fabric alone, with a raw-TLP device. Layers above cannot be faster.

#[path = "../tests/it/common/mod.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use the rest")]
mod common;

use common::sources::{Source, Sources};
use common::system::System;
use common::{Stream, fabric, link};
use link::{PhaseTable, VcArbitration};
use riser_fabric::{Fabric, Limits};
use tlp::{Data, MemoryOp, PayloadPool, Rate, TcVcMap};

const REQUESTS: u64 = 2_000_000;

fn cpu_seconds() -> f64 {
    testkit::cpu_ns() / 1e9
}

/// Runs `fabric` if the command line selects `name` or has no selection.
fn run(name: &str, mut fabric: Fabric) {
    let asked = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    if asked.is_some_and(|asked| !name.contains(&asked)) {
        return;
    }
    let start = cpu_seconds();
    let stop = fabric.run(Limits::default());
    let seconds = cpu_seconds() - start;
    let totals = fabric.totals();
    println!(
        "{name:22} {stop} {} hops, {:.2} events/hop, {:.2} M hops/s, {:.1} Gb/s",
        totals.tlp_hops,
        totals.events as f64 / totals.tlp_hops as f64,
        totals.tlp_hops as f64 / seconds / 1e6,
        REQUESTS as f64 * 256.0 * 8.0 / fabric.now().as_ps() as f64 * 1e3,
    );
}

/// Eight channels that always have something to send.
fn channels(arbitration: &VcArbitration) -> Fabric {
    let mut link = link(Rate::Gt8, 16, 256);
    for port in [&mut link.root, &mut link.device] {
        port.tc_vc = TcVcMap::one_to_one();
        port.arbitration = arbitration.clone();
    }
    let sources = (0..8).map(|tc| Source { left: REQUESTS / 8, ..Source::flood(tc, 256) }).collect();
    let mut system = System::new();
    system.slots.push(riser_fabric::SlotConfig::on_root_port(link, Box::new(Sources::new(sources))));
    system.without_program()
}

fn main() {
    let pool = PayloadPool::new();
    let bytes = Data::Carried(pool.copy(&[0x5a; 256]));
    for (name, op, data) in [
        ("writes, counted", MemoryOp::Write, Data::Counted(256)),
        ("writes, carried", MemoryOp::Write, bytes.clone()),
        ("reads, counted", MemoryOp::Read, Data::Counted(256)),
        ("reads, carried", MemoryOp::Read, bytes),
    ] {
        run(name, fabric(link(Rate::Gt8, 16, 256), Stream::new(op, 256, REQUESTS, 32, data)));
    }
    if let Ok(table) = PhaseTable::spread([2, 2, 4, 8, 8, 16, 32, 56]) {
        run("writes, 8 VCs weighted", channels(&VcArbitration::weighted(table)));
    }
    run("writes, 8 VCs in turn", channels(&VcArbitration::round_robin()));
    run("writes, 8 VCs strict", channels(&VcArbitration::default()));
}
