// SPDX-License-Identifier: Apache-2.0 OR MIT
//! In steady state the endpoint allocates nothing.

#[path = "common/load.rs"]
mod load;

use load::Load;

#[test]
fn a_warm_endpoint_allocates_nothing() {
    for carry in [false, true] {
        let mut load = Load::new(carry);
        let mut round = || {
            load.writes();
            load.reads();
            load.register_reads();
        };
        round();
        let allocations = allocation_counter::measure(|| (0..4).for_each(|_| round())).count_total;
        assert_eq!(allocations, 0, "carry: {carry}");
    }
}
