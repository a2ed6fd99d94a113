// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hops per CPU-second of link and fabric alone, with a raw-TLP device: what the layers above have to spend.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Stream, fabric, link};
use riser_fabric::Limits;
use std::time::Instant;
use tlp::{Data, MemoryOp, PayloadPool, Rate};

fn main() {
    let pool = PayloadPool::new();
    let bytes = Data::Carried(pool.copy(&[0x5a; 256]));
    for (name, op, data) in [
        ("writes, counted", MemoryOp::Write, Data::Counted(256)),
        ("writes, carried", MemoryOp::Write, bytes.clone()),
        ("reads, counted", MemoryOp::Read, Data::Counted(256)),
        ("reads, carried", MemoryOp::Read, bytes),
    ] {
        let device = Stream::new(op, 256, 2_000_000, 32, data);
        let mut fabric = fabric(link(Rate::Gt8, 16, 256), device);
        let start = Instant::now();
        let stop = fabric.run(Limits::default());
        let seconds = start.elapsed().as_secs_f64();
        let totals = fabric.totals();
        println!(
            "{name:16} {stop} {} hops, {:.2} events/hop, {:.2} M hops/s, {:.1} Gb/s",
            totals.tlp_hops,
            totals.events as f64 / totals.tlp_hops as f64,
            totals.tlp_hops as f64 / seconds / 1e6,
            2e6 * 256.0 * 8.0 / fabric.now().as_ps() as f64 * 1e3,
        );
    }
}
