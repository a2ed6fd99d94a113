// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Process Address Space ID extended capability (`PCIe 5.0 §7.8.8`). Requests are tagged elsewhere.

use crate::register::{Register, put, structure, those, without};

const NO_PASID: &str = "devices attach PASID prefixes even if the bit is clear";

structure! {
    extended 0x001b, 1, "Process Address Space ID", "PCIe 5.0 §7.8.8";

    0x04 CONTROL "PASID Capability, PASID Control" {
        1    ro       EXECUTE_SUPPORTED "Execute Permission Supported";
        2    ro       PRIVILEGED_SUPPORTED "Privileged Mode Supported";
        12:8 ro       MAX_WIDTH "Max PASID Width";
        16   rw.inert ENABLE "PASID Enable", NO_PASID => TRANSLATION;
        17   rw.inert EXECUTE "Execute Permission Enable", NO_PASID => TRANSLATION;
        18   rw.inert PRIVILEGED "Privileged Mode Enable", NO_PASID => TRANSLATION;
    }
}

/// Declaration of a function's PASID capability.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PasidLayout {
    /// Max PASID Width in bits, 0 to 20.
    pub width: u8,
    /// Execute Permission Supported.
    pub execute: bool,
    /// Privileged Mode Supported.
    pub privileged: bool,
}

impl PasidLayout {
    /// The capability's registers.
    pub fn registers(&self) -> Vec<Register> {
        let modes = those([(self.execute, EXECUTE_SUPPORTED), (self.privileged, PRIVILEGED_SUPPORTED)]);
        let absent = those([(!self.execute, EXECUTE), (!self.privileged, PRIVILEGED)]);
        let all = TABLE.registers(&[(CONTROL, modes | put(MAX_WIDTH, self.width.into()))]);
        without(all, [(CONTROL, absent)])
    }
}
