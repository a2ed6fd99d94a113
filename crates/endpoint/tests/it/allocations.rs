// SPDX-License-Identifier: Apache-2.0 OR MIT
//! In steady state the endpoint allocates nothing.

use crate::load::Load;
use riser_endpoint::{EndpointLimits, TagsPer};

#[test]
fn warm_endpoint_allocates_nothing() {
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

/// Many functions that wait for the tags of one pool.
#[test]
fn tag_pool_allocates_nothing() {
    let limits = EndpointLimits {
        max_outstanding_reads: 32,
        tags_per: TagsPer::Endpoint,
        ..EndpointLimits::default()
    };
    let mut load = Load::virtual_functions(48, limits);
    load.reads();
    let allocations = allocation_counter::measure(|| (0..4).for_each(|_| load.reads())).count_total;
    assert_eq!(allocations, 0);
}
