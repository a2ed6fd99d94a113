// SPDX-License-Identifier: Apache-2.0 OR MIT
//! L1 PM Substates extended capability (`PCIe 5.0 §7.8.3`). Only registers: links never enter a
//! substate.

use crate::register::{Register, put, structure};

const NO_L1: &str = "links stay in L0: L1 and its substates are not modelled";

structure! {
    extended 0x001e, 1, "L1 PM Substates", "PCIe 5.0 §7.8.3";

    0x04 CAPABILITIES in capabilities "L1 PM Substates Capabilities" {
        4:0   hwinit SUPPORTED "L1 PM Substates Supported";
        15:8  hwinit COMMON_MODE_RESTORE_TIME "Port Common_Mode_Restore_Time";
        17:16 hwinit T_POWER_ON_SCALE "Port T_POWER_ON Scale";
        23:19 hwinit T_POWER_ON_VALUE "Port T_POWER_ON Value";
    }
    0x08 CONTROL_1 in control_1 "L1 PM Substates Control 1" {
        3:0   rw.inert ENABLES "PCI-PM and ASPM L1.1, L1.2 Enable", NO_L1;
        15:8  rw.inert COMMON_MODE_RESTORE_TIME "Common_Mode_Restore_Time", NO_L1;
        25:16 rw.inert LTR_THRESHOLD_VALUE "LTR_L1.2_THRESHOLD_Value", NO_L1;
        31:29 rw.inert LTR_THRESHOLD_SCALE "LTR_L1.2_THRESHOLD_Scale", NO_L1;
    }
    0x0c CONTROL_2 in control_2 "L1 PM Substates Control 2" {
        1:0 rw.inert T_POWER_ON_SCALE "T_POWER_ON Scale", NO_L1;
        7:3 rw.inert T_POWER_ON_VALUE "T_POWER_ON Value", NO_L1;
    }
}

/// T_POWER_ON after reset: 5 times 2 us (`PCIe 5.0 Table 7-42`).
const T_POWER_ON: u32 = 5;

/// The capability's registers, with all substates supported. `common_mode_restore_us` is
/// Common_Mode_Restore_Time in us.
pub fn registers(common_mode_restore_us: u8) -> Vec<Register> {
    use capabilities::{COMMON_MODE_RESTORE_TIME, SUPPORTED, T_POWER_ON_VALUE};
    let restore = put(COMMON_MODE_RESTORE_TIME, common_mode_restore_us.into());
    let capabilities = SUPPORTED | restore | put(T_POWER_ON_VALUE, T_POWER_ON);
    TABLE
        .registers(&[(CAPABILITIES, capabilities), (CONTROL_2, put(control_2::T_POWER_ON_VALUE, T_POWER_ON))])
}
