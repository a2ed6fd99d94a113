// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random frames. Each is a TLP or breaks a named rule, and the counts add up. The parser never panics.

use riser_tlp::rules::RULES;
use riser_tlp::{FORMATS, PayloadPool, Tlp};
use std::collections::BTreeMap;

/// Number of frames of each kind.
const FRAMES: usize = 100_000;

/// xorshift64*.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        bytes
            .chunks_mut(8)
            .for_each(|chunk| chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]));
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 32) as usize % limit
    }
}

/// Parses the frames that `make` writes to a buffer. Counts the TLPs of each type, and the frames that break each
/// rule.
fn count(mut make: impl FnMut(&mut Dice, &mut [u8; 96]) -> usize) -> BTreeMap<String, usize> {
    let (mut dice, pool, mut counts) = (Dice(0x5eed), PayloadPool::new(), BTreeMap::new());
    let mut frame = [0; 96];
    for _ in 0..FRAMES {
        let len = make(&mut dice, &mut frame);
        let name = match Tlp::parse(&frame[..len], &pool) {
            Ok(tlp) => tlp.repr.name().to_owned(),
            Err(error) => format!("{:?}", error.on_a_link().rule),
        };
        *counts.entry(name).or_insert(0) += 1;
    }
    println!("{counts:?}");
    assert_eq!(counts.values().sum::<usize>(), FRAMES);
    counts
}

#[test]
fn parses_or_reports_random_bytes() {
    let counts = count(|dice, frame| {
        dice.fill(frame);
        dice.below(frame.len())
    });
    // Nearly half of all first bytes have a reserved Fmt, and few frames have the length that they give.
    assert!(counts["ReservedFmt"] > FRAMES / 4 && counts["Length"] > FRAMES / 100, "{counts:?}");
    assert!(counts["ReservedType"] > FRAMES / 10 && counts.contains_key("PrefixOrder"), "{counts:?}");
}

/// Frames of all formats, with the length in their header, few data and sometimes prefixes. Most pass the first
/// checks.
#[test]
fn parses_or_reports_random_fields() {
    let counts = count(|dice, frame| {
        dice.fill(frame);
        let start = if dice.below(4) == 0 { 4 * (1 + dice.below(3)) } else { 0 };
        (0..start).step_by(4).for_each(|at| frame[at] = [0x80, 0x8f, 0x91, 0x9e][dice.below(4)]);
        let format = FORMATS[dice.below(FORMATS.len())];
        frame[start] = format.fmt << 5 | format.type_bits | frame[start] & 0x1f & !format.type_mask;
        // In half of the frames, most fields of the first DW are zero, as is usual on a link.
        if dice.below(2) == 0 {
            frame[start + 1..start + 3].fill(0);
        }
        let length = 1 + dice.below(9);
        (frame[start + 2], frame[start + 3]) = (frame[start + 2] & 0xfc, length as u8);
        let data = if format.has_data { length * 4 } else { 0 };
        start + format.header_len() + data + usize::from(frame[start + 2] >> 7) * 4
    });
    for format in &FORMATS {
        assert!(counts.contains_key(format.name), "{} in {counts:?}", format.name);
    }
    // All rules that the bytes of one TLP can break.
    let of_fields =
        RULES.iter().filter(|rule| !rule.is_tolerated() && !rule.is_of_receiver() && !rule.is_of_several());
    let others = [
        "ReservedFmt",
        "ReservedType",
        "PrefixedHeader",
        "Length",
        "Digest",
        "LocalPrefix",
        "PrefixCount",
        "EndToEndCount",
        "DeferrableLength",
        "PciSigTc",
    ];
    for name in of_fields.map(|rule| format!("{:?}", rule.id)).filter(|name| !others.contains(&name.as_str()))
    {
        assert!(counts.contains_key(&name), "{name} in {counts:?}");
    }
}
