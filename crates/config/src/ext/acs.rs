// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Access Control Services extended capability (`PCIe 5.0 §7.7.8`). Routing decisions are made elsewhere.

use crate::register::{Register, put, structure};
use bitflags::bitflags;

structure! {
    extended 0x000d, 1, "Access Control Services", "PCIe 5.0 §7.7.8";

    0x04 CONTROL in control "ACS Capability, ACS Control" {
        6:0  ro CAPABLE "ACS Capability";
        15:8 ro VECTOR_SIZE "Egress Control Vector Size";
        16   rw SOURCE_VALIDATION "ACS Source Validation Enable",
            "rejects requests from below with the Requester ID of a bus outside the port's range" => ACS;
        17   rw TRANSLATION_BLOCKING "ACS Translation Blocking Enable",
            "rejects requests from below with another Address Type than untranslated" => ACS;
        18   rw REQUEST_REDIRECT "ACS P2P Request Redirect Enable", "redirects peer-to-peer requests upstream" => ACS;
        19   rw COMPLETION_REDIRECT "ACS P2P Completion Redirect Enable",
            "redirects peer-to-peer completions upstream" => ACS;
        20   rw UPSTREAM_FORWARDING "ACS Upstream Forwarding Enable",
            "sends TLPs from below upstream even if their target is below" => ACS;
        21   rw EGRESS_CONTROL "ACS P2P Egress Control Enable",
            "the vector selects which peers are reachable" => ACS;
        22   rw DIRECT_TRANSLATED "ACS Direct Translated P2P Enable",
            "sends translated requests to peers directly" => ACS;
    }
    0x08 EGRESS_VECTOR "Egress Control Vector" {
        31:0 rw BLOCKED "Egress Control Vector", "a set bit blocks or redirects requests to the port of its number" => ACS;
    }
}

bitflags! {
    /// The services, as the bits of ACS Capability and ACS Control (`PCIe 5.0 Table 7-98, 7-99`).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Acs: u16 {
        /// ACS Source Validation: requests from below must have a bus number of the port's range.
        const SOURCE_VALIDATION = 1 << 0;
        /// ACS Translation Blocking: requests whose AT field is not "untranslated" are rejected.
        const TRANSLATION_BLOCKING = 1 << 1;
        /// ACS P2P Request Redirect: peer-to-peer requests go up.
        const REQUEST_REDIRECT = 1 << 2;
        /// ACS P2P Completion Redirect: peer-to-peer completions without Relaxed Ordering go up.
        const COMPLETION_REDIRECT = 1 << 3;
        /// ACS Upstream Forwarding: requests from below may go down again through the same port.
        const UPSTREAM_FORWARDING = 1 << 4;
        /// ACS P2P Egress Control: the vector selects which peers are reachable.
        const EGRESS_CONTROL = 1 << 5;
        /// ACS Direct Translated P2P: translated requests go directly to peers, regardless of the other
        /// services.
        const DIRECT_TRANSLATED = 1 << 6;
    }
}

/// Declaration of a function's Access Control Services.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AcsLayout {
    /// Services that the function supports.
    pub capable: Acs,
    /// Bits of the Egress Control Vector, 1 to 256; used only with [`Acs::EGRESS_CONTROL`].
    pub egress_bits: u16,
}

impl AcsLayout {
    /// Returns a layout with all services, for a switch's downstream port or a root port with `ports`
    /// sibling ports.
    pub const fn port(ports: u16) -> AcsLayout {
        AcsLayout { capable: Acs::all(), egress_bits: ports }
    }

    /// True if the vector's size is legal.
    pub const fn is_legal(&self) -> bool {
        !self.has_vector() || self.egress_bits >= 1 && self.egress_bits <= 256
    }

    const fn has_vector(&self) -> bool {
        self.capable.contains(Acs::EGRESS_CONTROL)
    }

    /// The capability's registers.
    pub fn registers(&self) -> Vec<Register> {
        let capable = u32::from(self.capable.bits());
        let bits = if self.has_vector() { self.egress_bits } else { 0 };
        // The field holds eight bits: 256 is written as zero.
        let control = TABLE.register(CONTROL, capable | put(control::VECTOR_SIZE, bits.into()));
        let mut all = vec![TABLE.register(0, 0), control.without(!capable << 16 & 0xffff_0000)];
        for first in (0..bits).step_by(32) {
            let left = bits - first;
            let absent = if left >= 32 { 0 } else { !0 << left };
            all.push(TABLE.register(EGRESS_VECTOR, 0).without(absent));
        }
        all
    }
}
