// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Power Management capability (`PCIe 5.0 §7.5.2`): D0 and D3hot, PME.

use crate::register::{Register, put, structure, those, without};

structure! {
    capability 0x01, "Power Management", "PCIe 5.0 §7.5.2";

    0x00 CAPABILITIES "Power Management Capabilities" {
        18:16 hwinit VERSION "Version";
        19    ro     PME_CLOCK "PME Clock";
        20    ro     IMMEDIATE_READINESS "Immediate_Readiness_on_Return_to_D0";
        21    ro     DEVICE_SPECIFIC_INITIALIZATION "Device Specific Initialization";
        24:22 ro     AUX_CURRENT "Aux_Current";
        25    ro     D1_SUPPORT "D1_Support";
        26    ro     D2_SUPPORT "D2_Support";
        31:27 hwinit PME_SUPPORT "PME_Support";
    }
    0x04 CONTROL "Power Management Control/Status" {
        1:0   rw     POWER_STATE "PowerState",
            "D3hot: only configuration requests and messages are accepted" => POWER;
        3     hwinit NO_SOFT_RESET "No_Soft_Reset";
        8     rws    PME_ENABLE "PME_En", "PME messages are sent" => PME;
        12:9  ro     DATA_SELECT "Data_Select";
        14:13 ro     DATA_SCALE "Data_Scale";
        15    rw1cs  PME_STATUS "PME_Status", "event" => PME;
    }
}

/// Power states of functions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum PowerState {
    /// D0: fully operational.
    #[default]
    D0,
    /// D3hot: accepts only configuration requests and messages.
    D3Hot,
}

/// Declaration of a function's Power Management capability.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PmLayout {
    /// No_Soft_Reset: the function keeps its state from D3hot to D0; otherwise this transition resets the function.
    pub no_soft_reset: bool,
    /// The function can send PME from D0 and D3hot.
    pub pme: bool,
}

impl Default for PmLayout {
    /// Default: the function keeps its state and sends no PME.
    fn default() -> PmLayout {
        PmLayout { no_soft_reset: true, pme: false }
    }
}

impl PmLayout {
    pub(crate) fn registers(self) -> Vec<Register> {
        let pme_from_d0_and_d3hot = put(PME_SUPPORT, 0b0_1001);
        let capabilities = put(VERSION, 3) | those([(self.pme, pme_from_d0_and_d3hot)]);
        let soft = those([(self.no_soft_reset, NO_SOFT_RESET)]);
        let all = TABLE.registers(&[(CAPABILITIES, capabilities), (CONTROL, soft)]);
        without(all, [(CONTROL, those([(!self.pme, PME_ENABLE | PME_STATUS)]))])
    }
}

/// Power state in PMCSR. Unsupported states cannot be written.
pub(crate) const fn state(control: u32) -> PowerState {
    if control & POWER_STATE == 0b11 { PowerState::D3Hot } else { PowerState::D0 }
}

/// True if software has written an unsupported power state, which is discarded (`§7.5.2.2`).
pub(crate) const fn unsupported(control: u32) -> bool {
    matches!(control & POWER_STATE, 0b01 | 0b10)
}
