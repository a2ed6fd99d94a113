// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sessions between riser's peers, as far as a capture tells: which datagrams are TLPs, and what the others are called.
//!
//! A datagram has a number of 48 bits where NetTLP has its header, low half first. With bit 47 clear a TLP follows; with
//! bit 47 set a control record, which begins with ffh, where a TLP has Fmt and Type (Fmt 111b is no TLP's, `PCIe 5.0
//! §2.2.1`), and its kind. What is sealed with a key shows neither. `nettlp::stream` sends them. Never keeps state.

use crate::encap::NettlpHeader;

/// First byte of a control record.
pub const CONTROL: u8 = 0xff;
/// Bit of the timestamp field that control records have: bit 47 of the number.
pub const CONTROL_BIT: u32 = 1 << 31;

/// Name of a datagram of a session that cannot be read: it is sealed with a key, or holds no TLP.
pub const SEALED: &str = "session, sealed or no TLP";

/// Name of a control record; `None` for a TLP.
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
