// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the properties of the fuzz targets on their seeds and on random datagrams. Opens no socket.

use crate::checks_nettlp as checks;
use proptest::collection::vec;
use proptest::prelude::*;
use testkit::seeds;

fn hold(target: &str, least: usize, check: fn(&[u8])) {
    let seeds = seeds(target);
    assert!(seeds.len() >= least, "{target}: {} seeds", seeds.len());
    seeds.iter().for_each(|(_, bytes)| check(bytes));
}

#[test]
fn seeds_pass_fuzz_checks() {
    hold("nettlp_messaging", 7, checks::messaging);
    hold("nettlp_registers", 8, checks::registers);
    hold("nettlp_incoming", 19, checks::incoming);
    hold("nettlp_adapter", 25, checks::adapter_run);
}

/// First bytes of headers: most types, and a reserved one.
const TYPES: &[u8] =
    &[0x00, 0x20, 0x40, 0x60, 0x0a, 0x4a, 0x01, 0x02, 0x42, 0x04, 0x44, 0x34, 0x74, 0x4c, 0x6c, 0x1b];
const PORTS: &[u16] = &[0x2ffd, 0x2fff, 0x3000, 0x3007, 0x30ff, 0x4001, 0x4003, 0x5001, 0x5002];

/// Generates a header of any type with plausible fields, and data of about the declared length. More of these TLPs
/// pass the first checks than random bytes would.
fn tlp() -> impl Strategy<Value = Vec<u8>> {
    let address = prop_oneof![0xff0_u32..0x1010, 0x1ff0_u32..0x2010, any::<u32>()];
    let fields = (prop::sample::select(TYPES), 0..70_u16, any::<[u8; 4]>(), address, any::<u8>());
    (fields, vec(any::<u8>(), 0..300), -4..5_i32).prop_map(|((fmt, dw, id, address, other), data, slack)| {
        let mut bytes =
            vec![fmt, if other > 250 { other } else { 0 }, if other > 240 { 4 } else { 0 }, dw as u8];
        bytes.extend([id[0], id[1], id[2], if other & 1 == 0 { 0xff } else { id[3] }]);
        if fmt & 0x20 != 0 {
            bytes.extend([0; 4]);
        }
        bytes.extend((address & !3).to_be_bytes());
        let wanted = if fmt & 0x40 == 0 { 0 } else { i32::from(dw) * 4 };
        let slack = if other & 2 == 0 { 0 } else { slack };
        bytes.extend(data.iter().cycle().take((wanted + slack).max(0) as usize));
        bytes
    })
}

/// Generates a datagram in the format of [`checks::adapter_run`].
fn datagram() -> impl Strategy<Value = Vec<u8>> {
    let port = prop_oneof![8 => prop::sample::select(PORTS), 1 => any::<u16>()];
    let tlp = tlp().prop_map(|tlp| [&[0; 6][..], &tlp].concat());
    let bytes = prop_oneof![6 => tlp, 1 => vec(any::<u8>(), 0..24), 1 => vec(any::<u8>(), 6)];
    (0..4_u8, port, prop_oneof![Just(0_u8), Just(2), Just(255)], bytes).prop_map(
        |(peer, port, room, bytes)| {
            let mut all = vec![peer];
            all.extend(port.to_le_bytes());
            all.push(room);
            all.extend((bytes.len() as u16).to_le_bytes());
            all.extend(bytes);
            all
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn parsers_handle_any_bytes(bytes in vec(any::<u8>(), 0..200)) {
        checks::messaging(&bytes);
        checks::registers(&bytes);
        checks::incoming(&bytes);
    }

    #[test]
    fn tlp_is_accepted_or_refused(tlp in tlp()) {
        checks::incoming(&[&[0; 6][..], &tlp].concat());
    }

    #[test]
    fn adapter_handles_any_datagrams(datagrams in vec(datagram(), 1..40)) {
        checks::adapter_run(&datagrams.concat());
    }
}
