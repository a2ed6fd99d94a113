// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every seed of the fuzz target passes its checks, and is valid or invalid according to its name.

use crate::checks_record;
use testkit::seeds;

#[test]
fn seeds_of_records_are_read_or_rejected() {
    let seeds = seeds("lab_record").into_iter();
    let good: Vec<_> =
        seeds.filter_map(|(name, bytes)| Some((name, checks_record::record(&bytes)?))).collect();
    // A seed that is cut off is invalid.
    let names: Vec<(&str, u64)> = good.iter().map(|(name, inputs)| (name.as_str(), *inputs)).collect();
    let expected = [("4_full.rec", 1), ("4_good.rec", 3), ("4_least.rec", 0)];
    let earlier = [("files.rec", 0), ("good.rec", 6), ("set.rec", 0)];
    assert_eq!(names, [expected, earlier].concat());
}
