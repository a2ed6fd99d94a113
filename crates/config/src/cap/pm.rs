// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Power Management capability (`PCIe 5.0 §7.5.2`), minimal: D0 and D3hot, no PME.
//!
//! ```text
//! +0  PMC (version 3)                   Next           ID 01h
//! +4  Data, -                           PMCSR: 8 No_Soft_Reset, 1:0 PowerState
//! ```

use super::{ro, rw};
use crate::register::Register;

/// Capability ID.
pub const ID: u8 = 0x01;

const VERSION_3: u32 = 3 << 16;
/// The function keeps its state from D3hot to D0.
const NO_SOFT_RESET: u32 = 1 << 3;
const POWER_STATE: u32 = 0b11;

pub(crate) fn registers() -> [Register; 2] {
    [ro(VERSION_3), rw(NO_SOFT_RESET, POWER_STATE)]
}
