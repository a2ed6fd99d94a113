// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Precision Time Measurement extended capability (`PCIe 5.0 §7.9.16`). Only registers: no PTM
//! dialog takes place.

use crate::register::{Register, put, structure, those, without};

const ONE_CLOCK: &str = "the whole fabric has one clock, so no PTM dialog takes place";

structure! {
    extended 0x001f, 1, "Precision Time Measurement", "PCIe 5.0 §7.9.16";

    0x04 CAPABILITY "PTM Capability" {
        0    hwinit REQUESTER "PTM Requester Capable";
        1    hwinit RESPONDER "PTM Responder Capable";
        2    hwinit ROOT "PTM Root Capable";
        15:8 hwinit LOCAL_GRANULARITY "Local Clock Granularity";
    }
    0x08 CONTROL "PTM Control" {
        0    rw.inert ENABLE "PTM Enable", ONE_CLOCK => PTM;
        1    rw.inert ROOT_SELECT "Root Select", ONE_CLOCK => PTM;
        15:8 rw.inert EFFECTIVE_GRANULARITY "Effective Granularity", ONE_CLOCK => PTM;
    }
}

/// Declaration of a function's PTM capability.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PtmLayout {
    /// PTM Requester Capable.
    pub requester: bool,
    /// PTM Responder Capable.
    pub responder: bool,
    /// PTM Root Capable.
    pub root: bool,
    /// Local Clock Granularity in ns; 255 means more than 254.
    pub granularity_ns: u8,
}

impl PtmLayout {
    /// Returns the capability's registers. Root Select is implemented only if the function is PTM
    /// Root capable.
    pub fn registers(&self) -> Vec<Register> {
        let roles = those([(self.requester, REQUESTER), (self.responder, RESPONDER), (self.root, ROOT)]);
        let granularity = put(LOCAL_GRANULARITY, self.granularity_ns.into());
        let all = TABLE.registers(&[(CAPABILITY, roles | granularity)]);
        without(all, [(CONTROL, those([(!self.root, ROOT_SELECT)]))])
    }
}
