// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What must hold for any bytes, one function per parser: called by the fuzz targets, and by the tests of `riser-tlp` on
//! every seed. What is broken panics.

use riser_tlp::rules::{self, Limits};
use riser_tlp::{Dllp, Header, Mps, PayloadPool, Repr, TcSet, Tlp, crc};

/// Bytes that are a TLP give the same TLP when written and read again, prefixes and a wrong digest included; whether they are
/// does not depend on what cuts them behind the header. Bytes that are none break a rule that has a name.
#[allow(dead_code, reason = "each fuzz target uses one of the functions")]
pub(crate) fn tlp(bytes: &[u8]) {
    if let Ok(header) = Header::new(bytes) {
        assert!(rules::tolerated(&header).count() <= rules::RULES.len());
        assert!(header.tlp_len() >= header.bytes().len());
    }
    let header = Repr::parse_header(bytes);
    let pool = PayloadPool::new();
    let tlp = match Tlp::parse(bytes, &pool) {
        Ok(tlp) => tlp,
        Err(error) => {
            let malformed = error.on_a_link();
            assert!(!malformed.rule().is_tolerated() && !malformed.rule().is_of_receiver());
            assert!(
                malformed.to_string().contains(malformed.rule().section) && !error.to_string().is_empty()
            );
            assert_eq!(crc::check_ecrc(bytes), None);
            return;
        }
    };
    let header = header.expect("a whole TLP has a header");
    assert_eq!(header.repr, tlp.repr);
    assert_eq!(header.tlp_len(), bytes.len());
    let cut = Repr::parse_header(&bytes[..header.data.start]);
    assert_eq!(cut.as_ref(), Ok(&header));
    assert!(format!("{tlp:#}").starts_with(&tlp.to_string()));
    assert_eq!(crc::check_ecrc(bytes), tlp.repr.td.then_some(!tlp.has_wrong_ecrc()));
    received(&tlp);
    let mut out = vec![0xee; tlp.wire_len()];
    assert_eq!(tlp.emit(&mut out), out.len());
    let again = Tlp::parse(&out, &pool).expect("what is written can be read");
    assert_eq!(again, tlp);
    let mut twice = vec![0; again.wire_len()];
    again.emit(&mut twice);
    assert_eq!(twice, out);
}

// What the parser takes breaks only rules about the receiver, and none where the receiver takes all.
fn received(tlp: &Tlp) {
    let least = Limits {
        mps: Mps::default(),
        tc_mapped: TcSet::from_bits(1),
        local_prefixes: false,
        end_to_end_prefixes: 0,
    };
    if let Err(malformed) = rules::check_received(tlp, &least) {
        assert!(malformed.rule().is_of_receiver(), "{malformed}");
    }
    // A message may have up to 1024 DW of data, as long as the longest Max_Payload_Size.
    let mps = Mps::new(4096).expect("the longest");
    let most = Limits { mps, tc_mapped: TcSet::ALL, local_prefixes: true, end_to_end_prefixes: 4 };
    assert_eq!(rules::check_received(tlp, &most), Ok(()));
}

/// Bytes that are a DLLP give the same DLLP when written and read again.
#[allow(dead_code, reason = "each fuzz target uses one of the functions")]
pub(crate) fn dllp(bytes: &[u8]) {
    let Ok(dllp) = Dllp::parse(bytes) else { return };
    assert!(!dllp.to_string().is_empty());
    let out = dllp.emit();
    assert_eq!(out[0], bytes[0]);
    assert_eq!(Dllp::parse(&out), Ok(dllp));
}
