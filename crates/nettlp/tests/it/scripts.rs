// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the fuzz targets of pseudo memory and of runs on their seeds and on random scripts. Opens no socket.

use crate::checks_psmem;
use crate::checks_runs;
use proptest::collection::vec;
use proptest::prelude::*;
use testkit::seeds;

/// Rows: seed, and number of reads that pseudo memory answers with data.
#[test]
fn seeds_of_pseudo_memory_give_expected_answers() {
    let expected = [
        ("both_issuers", 2),
        ("empty", 0),
        ("garbage", 0),
        ("mrd", 1),
        ("mrd64_1024dw", 1),
        ("mrd_across_4k", 0),
        ("mrd_bytes", 10),
        ("mrd_id_based_ordering", 1),
        ("mrd_outside", 0),
        ("mrd_translation", 0),
        ("mrd_zero_length", 1),
        ("mwr_3_bytes", 1),
        ("mwr_across_4k", 2),
        ("mwr_holes", 1),
        ("mwr_poisoned", 1),
        ("mwr_then_mrd", 1),
        ("mwr_zero_length", 1),
        ("no_room", 3),
        ("others", 0),
    ];
    let found: Vec<_> =
        seeds("nettlp_psmem").into_iter().map(|(name, bytes)| (name, checks_psmem::psmem(&bytes))).collect();
    assert_eq!(found, expected.map(|(name, count): (&str, u64)| (name.to_owned(), count)));
}

/// Rows: seed, and number of TLPs that arrive.
#[test]
fn seeds_of_runs_deliver_expected_tlps() {
    let expected = [
        ("empty", 0),
        ("empty_datagram", 1),
        ("equal", 20),
        ("lengths", 13),
        ("lost_and_sent_again", 10),
        ("made_up", 4),
        ("one_by_one", 10),
        ("without_credits", 100),
    ];
    let found: Vec<_> =
        seeds("nettlp_runs").into_iter().map(|(name, bytes)| (name, checks_runs::runs(&bytes))).collect();
    assert_eq!(found, expected.map(|(name, count): (&str, u32)| (name.to_owned(), count)));
}

/// Generates a memory request near the window. It has as much data as its Length, or one byte more or less.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let types =
        prop::sample::select(vec![0x00_u8, 0x00, 0x20, 0x40, 0x40, 0x60, 0x01, 0x02, 0x4c, 0x74, 0x4a]);
    let place = prop_oneof![0x0010_0ef0_u32..0x0010_1100, 0x0010_2200_u32..0x0010_22a0, any::<u32>()];
    let fields = (types, 0..40_u8, any::<[u8; 2]>(), place, prop_oneof![Just(0xff_u8), any::<u8>()]);
    (fields, any::<u8>(), prop_oneof![9 => Just(0_i8), 1 => -4..4_i8]).prop_map(
        |((kind, dw, [tag, fill], place, be), room, slack)| {
            let be = if dw == 1 { be & 0x0f } else { be };
            let mut tlp = vec![kind, 0, 0, dw, 0, 0x10, tag, be];
            tlp.extend(
                (u64::from(place) & !3).to_be_bytes().split_at(if kind & 0x20 == 0 { 4 } else { 0 }).1,
            );
            let data = if kind & 0x40 == 0 { 0 } else { i16::from(dw) * 4 };
            tlp.extend((0..(data + i16::from(slack)).max(0)).map(|n| fill.wrapping_add(n as u8)));
            tlp.resize(tlp.len().next_multiple_of(2), 0);
            [vec![room, (tlp.len() / 2) as u8], tlp].concat()
        },
    )
}

/// Generates a step of a script of runs. Most steps have an effect.
fn step() -> impl Strategy<Value = Vec<u8>> {
    let pair = |step| any::<u8>().prop_map(move |operand| vec![step, operand]);
    prop_oneof![
        8 => pair(0),
        3 => pair(1),
        3 => pair(2),
        1 => pair(3),
        1 => (any::<u8>(), vec(any::<u8>(), 0..60))
            .prop_map(|(segment, bytes)| [&[segment % 42 * 6 + 4, bytes.len() as u8][..], &bytes].concat()),
        1 => (0..20_u8).prop_map(|operand| vec![5, operand]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn pseudo_memory_handles_any_requests(requests in vec(request(), 1..40)) {
        checks_psmem::psmem(&requests.concat());
    }

    #[test]
    fn runs_handle_any_steps(steps in vec(step(), 0..80)) {
        checks_runs::runs(&steps.concat());
    }

    #[test]
    fn handles_any_bytes(bytes in vec(any::<u8>(), 0..400)) {
        checks_psmem::psmem(&bytes);
        checks_runs::runs(&bytes);
    }
}
