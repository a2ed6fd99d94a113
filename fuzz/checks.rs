// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of the parsers of TLPs and DLLPs for any bytes. The fuzz targets and the tests of `riser-tlp` call them
//! on every seed. A failed check panics.

use riser_tlp::rules::{self, Limits};
use riser_tlp::{Dllp, Header, Mps, PayloadPool, Repr, TcSet, Tlp, crc};

/// Checks the parser with any bytes. An accepted TLP is the same when written and parsed again, including prefixes
/// and a wrong digest. Cutting the bytes after the header does not change whether the header is accepted. Rejected
/// bytes break a named rule.
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
    let header = header.expect("a parsed TLP has a header");
    assert_eq!(header.repr, tlp.repr);
    assert_eq!(header.tlp_len(), bytes.len());
    let cut = Repr::parse_header(&bytes[..header.data.start]);
    assert_eq!(cut.as_ref(), Ok(&header));
    assert!(format!("{tlp:#}").starts_with(&tlp.to_string()));
    assert_eq!(crc::check_ecrc(bytes), tlp.repr.td.then_some(!tlp.has_wrong_ecrc()));
    received(&tlp);
    let mut out = vec![0xee; tlp.wire_len()];
    assert_eq!(tlp.emit(&mut out), out.len());
    let again = Tlp::parse(&out, &pool).expect("an emitted TLP parses");
    assert_eq!(again, tlp);
    let mut twice = vec![0; again.wire_len()];
    again.emit(&mut twice);
    assert_eq!(twice, out);
}

// An accepted TLP can only break rules about the receiver's limits, and none if the receiver has the highest limits.
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
    // A message may have up to 1024 DW of data, as much as the maximum of Max_Payload_Size.
    let mps = Mps::new(4096).expect("a legal Max_Payload_Size");
    let most = Limits { mps, tc_mapped: TcSet::ALL, local_prefixes: true, end_to_end_prefixes: 4 };
    assert_eq!(rules::check_received(tlp, &most), Ok(()));
}

/// Checks that an accepted DLLP is the same when written and parsed again.
#[allow(dead_code, reason = "each fuzz target uses one of the functions")]
pub(crate) fn dllp(bytes: &[u8]) {
    let Ok(dllp) = Dllp::parse(bytes) else { return };
    assert!(!dllp.to_string().is_empty());
    let out = dllp.emit();
    assert_eq!(out[0], bytes[0]);
    assert_eq!(Dllp::parse(&out), Ok(dllp));
}
