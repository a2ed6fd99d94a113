// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sessions between riser's peers: distinguishes TLPs from control records, and names the latter.
//!
//! A datagram has a 48-bit number in place of the NetTLP header, low half first. With bit 47 clear a TLP follows; with
//! bit 47 set a control record, which begins with ffh, where a TLP has Fmt and Type (Fmt 111b is no TLP's, `PCIe 5.0
//! §2.2.1`), and its kind. Both are hidden if the datagram is sealed with a key. `nettlp::stream` sends them. Never keeps state.

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
