// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the checks of the fuzz targets on all their seeds.

use crate::checks;
use riser_tlp::rules::{RULES, check_received, tolerated};
use riser_tlp::{FORMATS, Header, Limits, Mps, PayloadPool, RuleId, TcSet, Tlp};
use std::cell::Cell;
use testkit::seeds;

/// Runs `check` on every seed of a target. Returns the number of seeds.
fn each_seed(target: &str, check: impl Fn(&[u8])) -> usize {
    seeds(target).iter().map(|(_, seed)| check(seed)).count()
}

#[test]
fn tlp_seeds_pass_checks() {
    assert!(each_seed("tlp_parse", checks::tlp) >= 110);
}

/// The seeds, where fuzzing starts, contain all formats and break all rules of one TLP.
#[test]
fn tlp_seeds_cover_all_formats_and_rules() {
    let formats = Cell::new(0u64);
    let rules = Cell::new(0u64);
    let note = |seed: &[u8]| {
        if let Ok(header) = Header::new(seed) {
            formats.set(formats.get() | 1 << header.format().id as u32);
            tolerated(&header).for_each(|broken| rules.set(rules.get() | 1 << broken.rule as u32));
        }
        let least = Limits {
            mps: Mps::default(),
            tc_mapped: TcSet::from_bits(1),
            local_prefixes: false,
            end_to_end_prefixes: 0,
        };
        let broken = match Tlp::parse(seed, &PayloadPool::new()) {
            Ok(tlp) => check_received(&tlp, &least).err(),
            Err(error) => Some(error.on_a_link()),
        };
        broken.into_iter().for_each(|broken| rules.set(rules.get() | 1 << broken.rule as u32));
    };
    each_seed("tlp_parse", note);
    let of_one_tlp = RULES.iter().filter(|rule| !rule.is_of_several());
    let missing: Vec<RuleId> =
        of_one_tlp.map(|rule| rule.id).filter(|&id| rules.get() >> id as u32 & 1 == 0).collect();
    assert_eq!(missing, []);
    assert_eq!(formats.get(), (1 << FORMATS.len()) - 1, "{:#b}", formats.get());
}

#[test]
fn dllp_seeds_pass_checks() {
    assert!(each_seed("dllp_parse", checks::dllp) >= 24);
}
