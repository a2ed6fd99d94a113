// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the endpoint costs: nanoseconds for each DMA write of 256 B, each DMA read of 256 B with one completion (32
//! outstanding), and each register read, with a device that costs next to nothing; alone, and as one of many virtual
//! functions.

// What the macros of criterion make has no documentation.
#![allow(missing_docs)]

#[path = "../tests/common/load.rs"]
mod load;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use load::Load;
use riser_endpoint::EndpointLimits;

fn endpoint(c: &mut Criterion) {
    let mut group = c.benchmark_group("endpoint");
    group.throughput(Throughput::Elements(load::ROUND));
    for carry in [false, true] {
        let name = if carry { "carried" } else { "counted" };
        let (mut writes, mut reads) = (Load::new(carry), Load::new(carry));
        group.bench_function(format!("write 256 B {name}"), |b| b.iter(|| writes.writes()));
        group.bench_function(format!("read 256 B {name}"), |b| b.iter(|| reads.reads()));
    }
    for count in [1, 8, 255] {
        let functions = || Load::virtual_functions(count, EndpointLimits::default());
        let (mut writes, mut reads) = (functions(), functions());
        let mut registers = functions();
        let name = |what: &str| format!("{what}, {count} virtual functions");
        group.bench_function(name("write 256 B"), |b| b.iter(|| writes.writes()));
        group.bench_function(name("read 256 B"), |b| b.iter(|| reads.reads()));
        group.bench_function(name("register read"), |b| {
            b.iter(|| registers.virtual_register_reads(u64::from(count) - 1));
        });
    }
    let mut registers = Load::new(true);
    group.bench_function("register read", |b| b.iter(|| registers.register_reads()));
    group.finish();
}

criterion_group!(benches, endpoint);
criterion_main!(benches);
