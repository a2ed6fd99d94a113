// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Latency Tolerance Reporting extended capability (`PCIe 5.0 §7.8.2`). The messages are sent
//! elsewhere.

use crate::register::{Register, structure};

const NO_POWER_STATES: &str = "no part of the platform has power states that affect latency";

structure! {
    extended 0x0018, 1, "Latency Tolerance Reporting", "PCIe 5.0 §7.8.2";

    0x04 LATENCY "Max Snoop Latency, Max No-Snoop Latency" {
        9:0   rw.inert SNOOP_VALUE "Max Snoop LatencyValue", NO_POWER_STATES => LTR;
        12:10 rw.inert SNOOP_SCALE "Max Snoop LatencyScale", NO_POWER_STATES => LTR;
        25:16 rw.inert NO_SNOOP_VALUE "Max No-Snoop LatencyValue", NO_POWER_STATES => LTR;
        28:26 rw.inert NO_SNOOP_SCALE "Max No-Snoop LatencyScale", NO_POWER_STATES => LTR;
    }
}

/// The capability's registers.
pub fn registers() -> Vec<Register> {
    TABLE.registers(&[])
}
