// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Physical Layer 16.0 GT/s extended capability (`PCIe 5.0 §7.7.5`). Only registers: equalization is not
//! modelled.

use super::{beyond, lane_presets};
use crate::register::{Field, Register, structure};

const PARITY: &[Field] =
    &[Field::rw1cs(!0, "Data Parity Mismatch Status", "the parity of SKP ordered sets is not modelled")
        .inert()];

structure! {
    extended 0x0026, 1, "Physical Layer 16.0 GT/s", "PCIe 5.0 §7.7.5";

    0x0c STATUS "16.0 GT/s Status" {
        // A link in L0 at this rate has been equalized.
        3:0 ros         EQUALIZED "Equalization Complete, Phases 1 to 3 Successful";
        4   rw1cs.inert EQUALIZATION_REQUEST "Link Equalization Request", "equalization is not modelled";
    }
    0x10 LOCAL_PARITY "Local Data Parity Mismatch Status" (PARITY)
    0x14 _ "First Retimer Data Parity Mismatch Status" (PARITY)
    0x18 _ "Second Retimer Data Parity Mismatch Status" (PARITY)
    0x20 LANE_EQUALIZATION "16.0 GT/s Lane Equalization Control" (super::LANE_PRESETS)
}

/// The capability's registers for a link of this many lanes; `equalized` if it runs at 16 GT/s or more.
pub fn registers(lanes: u8, equalized: bool) -> Vec<Register> {
    let mut all = TABLE.registers(&[(STATUS, if equalized { EQUALIZED } else { 0 })]);
    for dw in LOCAL_PARITY..LOCAL_PARITY + 3 {
        all[usize::from(dw)] = Register::of(PARITY, 0).without(beyond(lanes));
    }
    all.truncate(usize::from(LANE_EQUALIZATION));
    all.extend(lane_presets(lanes));
    all
}
