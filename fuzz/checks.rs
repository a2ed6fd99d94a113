// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What must hold for any bytes, one function per parser: called by the fuzz targets, and by the tests of `riser-tlp` on
//! every seed. What is broken panics.

use riser_tlp::{Dllp, Header, PayloadPool, Repr, Tlp, rules};

/// Bytes that are a TLP give the same TLP when written and read again; whether they are does not depend on what cuts
/// them behind the header.
#[allow(dead_code, reason = "each fuzz target uses one of the functions")]
pub(crate) fn tlp(bytes: &[u8]) {
    if let Ok(header) = Header::new(bytes) {
        assert!(rules::tolerated(&header).count() <= rules::RULES.len());
        assert!(header.tlp_len() >= header.bytes().len());
    }
    let header = Repr::parse_header(bytes);
    let pool = PayloadPool::new();
    let Ok(tlp) = Tlp::parse(bytes, &pool) else { return };
    let header = header.expect("a whole TLP has a header");
    assert_eq!(header.repr, tlp.repr);
    assert_eq!(header.tlp_len(), bytes.len());
    let cut = Repr::parse_header(&bytes[..header.data.start]);
    assert_eq!(cut.as_ref(), Ok(&header));
    assert!(!format!("{:#}", tlp.repr).is_empty());
    let mut out = vec![0xee; tlp.wire_len()];
    assert_eq!(tlp.emit(&mut out), out.len());
    let again = Tlp::parse(&out, &pool).expect("what is written can be read");
    assert_eq!(again, tlp);
    let mut twice = vec![0; again.wire_len()];
    again.emit(&mut twice);
    assert_eq!(twice, out);
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
