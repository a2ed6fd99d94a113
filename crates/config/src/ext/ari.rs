// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Alternative Routing-ID Interpretation extended capability (`PCIe 5.0 §7.8.7`): the number of the next function.
//! Function groups are not supported.

use crate::register::{Register, put, structure};

structure! {
    extended 0x000e, 1, "Alternative Routing-ID Interpretation", "PCIe 5.0 §7.8.7";

    0x04 CAPABILITY "ARI Capability, ARI Control" {
        15:8 hwinit NEXT_FUNCTION "Next Function Number";
    }
}

/// The capability's registers.
pub fn registers(next_function: u8) -> Vec<Register> {
    TABLE.registers(&[(CAPABILITY, put(NEXT_FUNCTION, next_function.into()))])
}
