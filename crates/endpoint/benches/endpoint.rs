// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cost of the endpoint: nanoseconds for each DMA write of 256 B, each DMA read of 256 B with one completion (32
//! outstanding), and each register read, with a device that costs next to nothing; alone, and as one of many virtual
//! functions.

#[path = "../tests/it/load.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use the rest")]
mod load;

use load::Load;
use riser_endpoint::EndpointLimits;
use testkit::print_cost;

fn main() {
    for carry in [false, true] {
        let name = if carry { "carried" } else { "counted" };
        let (mut writes, mut reads) = (Load::new(carry), Load::new(carry));
        print_cost(&format!("write 256 B, {name}"), load::ROUND, || writes.writes());
        print_cost(&format!("read 256 B, {name}"), load::ROUND, || reads.reads());
    }
    for count in [1, 8, 255] {
        let functions = || Load::virtual_functions(count, EndpointLimits::default());
        let (mut writes, mut reads) = (functions(), functions());
        let mut registers = functions();
        let name = |what: &str| format!("{what}, {count} virtual functions");
        print_cost(&name("write 256 B"), load::ROUND, || writes.writes());
        print_cost(&name("read 256 B"), load::ROUND, || reads.reads());
        let last = u64::from(count) - 1;
        print_cost(&name("register read"), load::ROUND, || registers.virtual_register_reads(last));
    }
    let mut registers = Load::new(true);
    print_cost("register read", load::ROUND, || registers.register_reads());
}
