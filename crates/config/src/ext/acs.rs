// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Access Control Services extended capability (`PCIe 5.0 §7.7.8`). Never decides where a TLP goes.
//!
//! ```text
//! +0   31:20 Next, 19:16 version 1, ID 000Dh
//! +4   31:16 ACS Control                       15:0 ACS Capability
//! +8   .. Egress Control Vector, a bit for each port or function
//! ```

use super::HEADER;
use crate::Effects;
use crate::register::{Field, Register, Structure, Word};
use bitflags::bitflags;

/// Extended capability ID.
pub const ID: u16 = 0x000d;
/// Capability version.
pub const VERSION: u8 = 1;
/// DW of ACS Capability (15:0) and ACS Control (31:16).
pub const CONTROL: u16 = 1;
/// DW of the first 32 bits of the Egress Control Vector.
pub const EGRESS_VECTOR: u16 = 2;

bitflags! {
    /// The services, as the bits of ACS Capability and ACS Control (`PCIe 5.0 Table 7-98, 7-99`).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Acs: u16 {
        /// ACS Source Validation: requests from below bear a bus number of the port's range.
        const SOURCE_VALIDATION = 1 << 0;
        /// ACS Translation Blocking: requests with an AT field other than untranslated are refused.
        const TRANSLATION_BLOCKING = 1 << 1;
        /// ACS P2P Request Redirect: peer-to-peer requests go up.
        const REQUEST_REDIRECT = 1 << 2;
        /// ACS P2P Completion Redirect: peer-to-peer completions without Relaxed Ordering go up.
        const COMPLETION_REDIRECT = 1 << 3;
        /// ACS Upstream Forwarding: requests that came up may go down again through the same port.
        const UPSTREAM_FORWARDING = 1 << 4;
        /// ACS P2P Egress Control: the vector says which peers may be reached.
        const EGRESS_CONTROL = 1 << 5;
        /// ACS Direct Translated P2P: translated requests go to peers whatever else is set.
        const DIRECT_TRANSLATED = 1 << 6;
    }
}

/// Access Control Services as a function wants them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AcsLayout {
    /// What the function is capable of.
    pub capable: Acs,
    /// Bits of the Egress Control Vector, 1 to 256; counts only with [`Acs::EGRESS_CONTROL`].
    pub egress_bits: u16,
}

const CONTROL_FIELDS: &[Field] = &[
    Field::ro(0x7f, "ACS Capability"),
    Field::ro(0xff00, "Egress Control Vector Size"),
    Field::rw(
        1 << 16,
        "ACS Source Validation Enable",
        "refuses requests from below with foreign bus numbers",
    )
    .tells(Effects::ACS),
    Field::rw(
        1 << 17,
        "ACS Translation Blocking Enable",
        "refuses requests from below that are not untranslated",
    )
    .tells(Effects::ACS),
    Field::rw(1 << 18, "ACS P2P Request Redirect Enable", "sends peer-to-peer requests up")
        .tells(Effects::ACS),
    Field::rw(1 << 19, "ACS P2P Completion Redirect Enable", "sends peer-to-peer completions up")
        .tells(Effects::ACS),
    Field::rw(1 << 20, "ACS Upstream Forwarding Enable", "lets redirected requests back down")
        .tells(Effects::ACS),
    Field::rw(1 << 21, "ACS P2P Egress Control Enable", "lets the vector say which peers are reached")
        .tells(Effects::ACS),
    Field::rw(1 << 22, "ACS Direct Translated P2P Enable", "sends translated requests to peers directly")
        .tells(Effects::ACS),
];
const VECTOR_FIELDS: &[Field] =
    &[Field::rw(!0, "Egress Control Vector", "a set bit keeps requests from the port of its number")
        .tells(Effects::ACS)];

/// The registers.
pub const TABLE: Structure = Structure {
    name: "Access Control Services",
    source: "PCIe 5.0 §7.7.8",
    words: &[
        HEADER,
        Word { dw: CONTROL, name: "ACS Capability, ACS Control", fields: CONTROL_FIELDS },
        Word { dw: EGRESS_VECTOR, name: "Egress Control Vector", fields: VECTOR_FIELDS },
    ],
};

impl AcsLayout {
    /// All services that a switch's downstream port or a root port with this many ports beside it can offer.
    #[must_use]
    pub const fn port(ports: u16) -> AcsLayout {
        AcsLayout { capable: Acs::all(), egress_bits: ports }
    }

    /// True where the vector's size is legal.
    #[must_use]
    pub const fn is_legal(&self) -> bool {
        !self.has_vector() || self.egress_bits >= 1 && self.egress_bits <= 256
    }

    const fn has_vector(&self) -> bool {
        self.capable.contains(Acs::EGRESS_CONTROL)
    }

    /// The capability's registers.
    #[must_use]
    pub fn registers(&self) -> Vec<Register> {
        let capable = u32::from(self.capable.bits());
        let bits = if self.has_vector() { self.egress_bits } else { 0 };
        // The field holds eight bits: 256 is written as zero.
        let control = Register::of(CONTROL_FIELDS, capable | u32::from(bits & 0xff) << 8);
        let mut all = vec![HEADER.register(0), control.without(!capable << 16 & 0xffff_0000)];
        for first in (0..bits).step_by(32) {
            let left = bits - first;
            let absent = if left >= 32 { 0 } else { !0 << left };
            all.push(Register::of(VECTOR_FIELDS, 0).without(absent));
        }
        all
    }
}
