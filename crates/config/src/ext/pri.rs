// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Page Request Interface extended capability (`PCIe 5.0 §10.5.2`). There are only the registers: riser never requests
//! a page.

use super::NO_TRANSLATION;
use crate::register::{Register, structure};

structure! {
    extended 0x0013, 1, "Page Request Interface", "PCIe 5.0 §10.5.2";

    0x04 CONTROL "Page Request Control, Page Request Status" {
        0  rw.inert      ENABLE "Enable", NO_TRANSLATION => TRANSLATION;
        1  trigger.inert RESET "Reset", "no effect: no page request is ever outstanding";
        16 rw1c.inert    RESPONSE_FAILURE "Response Failure", NO_TRANSLATION;
        17 rw1c.inert    UNEXPECTED_GROUP "Unexpected Page Request Group Index", NO_TRANSLATION;
        24 ro            STOPPED "Stopped";
        31 ro            PASID_REQUIRED "PRG Response PASID Required";
    }
    0x08 CAPACITY "Outstanding Page Request Capacity" {
        31:0 ro MOST_OUTSTANDING "Capacity";
    }
    0x0c ALLOCATION "Outstanding Page Request Allocation" {
        31:0 rw.inert ALLOCATED "Allocation", NO_TRANSLATION;
    }
}

/// The capability's registers; `capacity` is the number of page requests that could be outstanding.
pub fn registers(capacity: u32) -> Vec<Register> {
    TABLE.registers(&[(CONTROL, STOPPED), (CAPACITY, capacity)])
}
