// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Data Link Feature extended capability (`PCIe 5.0 §7.7.4`). The link exchanges the features.

use crate::register::{Register, structure};

structure! {
    extended 0x0025, 1, "Data Link Feature", "PCIe 5.0 §7.7.4";

    0x04 CAPABILITIES "Data Link Feature Capabilities" {
        0  ro     SCALED_FLOW_CONTROL "Local Scaled Flow Control Supported";
        31 hwinit EXCHANGE_ENABLE "Data Link Feature Exchange Enable";
    }
    0x08 STATUS "Data Link Feature Status" {
        22:0 ro REMOTE_SUPPORTED "Remote Data Link Feature Supported";
        31   ro REMOTE_VALID "Remote Data Link Feature Supported Valid";
    }
}

/// The capability's registers. `remote` has the features that the port at the other end supports, if features were
/// exchanged.
pub fn registers(scaled_flow_control: bool, remote: Option<bool>) -> Vec<Register> {
    let local = u32::from(scaled_flow_control) | EXCHANGE_ENABLE;
    TABLE.registers(&[(CAPABILITIES, local), (STATUS, remote.map_or(0, |r| REMOTE_VALID | u32::from(r)))])
}
