// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Power Management capability (`PCIe 5.0 §7.5.2`): D0 and D3hot, PME.
//!
//! ```text
//! +0  PMC                               Next           ID 01h
//!     31:27 PME_Support, 26 D2, 25 D1, 24:22 Aux_Current, 21 DSI, 20 Immediate Readiness, 19 PME Clock, 18:16 version 3
//! +4  Data, -                           PMCSR: 15 PME_Status, 8 PME_En, 3 No_Soft_Reset, 1:0 PowerState
//! ```

use crate::Effects;
use crate::register::{Field, Register, Structure, Word};

/// Capability ID.
pub const ID: u8 = 0x01;
/// DW of Power Management Control/Status.
pub const CONTROL: u16 = 1;

const VERSION_3: u32 = 3 << 16;
/// PowerState.
pub const POWER_STATE: u32 = 0b11;
/// No_Soft_Reset: the function keeps its state from D3hot to D0.
pub const NO_SOFT_RESET: u32 = 1 << 3;
/// PME_En.
pub const PME_ENABLE: u32 = 1 << 8;
/// PME_Status.
pub const PME_STATUS: u32 = 1 << 15;

/// The registers.
pub const TABLE: Structure = Structure {
    name: "Power Management",
    source: "PCIe 5.0 §7.5.2",
    words: &[
        Word {
            dw: 0,
            name: "Power Management Capabilities",
            fields: &[
                Field::hwinit(0b111 << 16, "Version"),
                Field::ro(1 << 19, "PME Clock"),
                Field::ro(1 << 20, "Immediate_Readiness_on_Return_to_D0"),
                Field::ro(1 << 21, "Device Specific Initialization"),
                Field::ro(0b111 << 22, "Aux_Current"),
                Field::ro(1 << 25, "D1_Support"),
                Field::ro(1 << 26, "D2_Support"),
                Field::hwinit(0x1f << 27, "PME_Support"),
            ],
        },
        Word {
            dw: CONTROL,
            name: "Power Management Control/Status",
            fields: &[
                Field::rw(
                    POWER_STATE,
                    "PowerState",
                    "D3hot: only configuration requests and messages are taken",
                )
                .tells(Effects::POWER),
                Field::hwinit(NO_SOFT_RESET, "No_Soft_Reset"),
                Field::rws(PME_ENABLE, "PME_En", "PME messages are sent").tells(Effects::PME),
                Field::ro(0xf << 9, "Data_Select"),
                Field::ro(0b11 << 13, "Data_Scale"),
                Field::rw1cs(PME_STATUS, "PME_Status", "event").tells(Effects::PME),
            ],
        },
    ],
};

/// The power states that functions have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum PowerState {
    /// D0: works.
    #[default]
    D0,
    /// D3hot: takes configuration requests and messages only.
    D3Hot,
}

/// Power Management as a function wants it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PmLayout {
    /// No_Soft_Reset: from D3hot to D0 it keeps its state; otherwise that resets it.
    pub no_soft_reset: bool,
    /// It can send PME from D0 and D3hot.
    pub pme: bool,
}

impl Default for PmLayout {
    /// Keeps its state, sends no PME.
    fn default() -> PmLayout {
        PmLayout { no_soft_reset: true, pme: false }
    }
}

impl PmLayout {
    pub(crate) fn registers(self) -> Vec<Register> {
        const PME_FROM_D0_AND_D3HOT: u32 = 0b0_1001 << 27;
        let support = if self.pme { PME_FROM_D0_AND_D3HOT } else { 0 };
        let soft = if self.no_soft_reset { NO_SOFT_RESET } else { 0 };
        let mut all = TABLE.registers(&[(0, VERSION_3 | support), (CONTROL, soft)]);
        if !self.pme {
            all[usize::from(CONTROL)] = all[usize::from(CONTROL)].without(PME_ENABLE | PME_STATUS);
        }
        all
    }
}

/// What PMCSR says; of the states that are not supported, none can be written.
pub(crate) const fn state(control: u32) -> PowerState {
    if control & POWER_STATE == 0b11 { PowerState::D3Hot } else { PowerState::D0 }
}

/// True where software has written a state that the function does not have: the write is discarded (`§7.5.2.2`).
pub(crate) const fn unsupported(control: u32) -> bool {
    matches!(control & POWER_STATE, 0b01 | 0b10)
}
