// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sessions between two riser processes: tells control records from TLPs, and names them. Keeps no state.
//!
//! A datagram has a 48-bit number in place of the NetTLP header, low half first. If bit 47 is clear, a TLP follows.
//! If it is set, a control record follows: the byte ffh in the place of Fmt and Type (Fmt 111b is reserved, `PCIe
//! 5.0 §2.2.1`), then the kind of the record. A datagram that is sealed with a key hides both. `nettlp::stream`
//! sends these datagrams.

use crate::encap::NettlpHeader;

/// First byte of a control record.
pub const CONTROL: u8 = 0xff;
/// Bit of the timestamp field that marks a control record: bit 47 of the number.
pub const CONTROL_BIT: u32 = 1 << 31;

/// Name of an unreadable datagram of a session, which is sealed with a key or has no TLP.
pub const SEALED: &str = "session, sealed or no TLP";

/// Returns the name of a control record; `None` for a TLP.
pub fn control_name(header: NettlpHeader, rest: &[u8]) -> Option<&'static str> {
    let is_control = header.timestamp & CONTROL_BIT != 0;
    match rest {
        [CONTROL, kind, ..] => Some(kind_name(*kind)),
        _ if is_control => Some("session control, sealed"),
        _ => None,
    }
}

const fn kind_name(kind: u8) -> &'static str {
    match kind {
        1 => "session Hello",
        2 => "session HelloAck",
        3 => "session Confirm",
        4 => "session Ack",
        5 => "session Probe",
        6 => "session Reset",
        7 => "session Refused",
        8 => "session Bye",
        _ => "session control, unknown",
    }
}
