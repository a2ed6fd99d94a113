// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Data Link Layer Packets (`PCIe 5.0 §3.5`): six bytes, two of them CRC-16.

use crate::Class;

/// A DLLP as a plain value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dllp {
    /// Ack: all TLPs up to `sequence` arrived.
    Ack {
        /// AckNak_Seq_Num, 0 to 4095.
        sequence: u16,
    },
    /// Nak: all TLPs up to `sequence` arrived, the next one did not.
    Nak {
        /// AckNak_Seq_Num, 0 to 4095.
        sequence: u16,
    },
    /// InitFC1, InitFC2 or UpdateFC.
    FlowControl(FlowControl),
}

/// A flow-control DLLP (`PCIe 5.0 §3.5.1`, Figure 3-8 and on).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowControl {
    /// InitFC1, InitFC2 or UpdateFC.
    pub kind: FlowControlKind,
    /// Which credits.
    pub class: Class,
    /// Virtual channel, 0 to 7.
    pub vc: u8,
    /// HdrFC, 8 bits: in InitFC the credits advertised (0: infinite), in UpdateFC the running total.
    pub header: u8,
    /// DataFC, 12 bits: as `header`, in units of 16 B.
    pub data: u16,
}

/// The three kinds of flow-control DLLP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowControlKind {
    /// First step of initialization.
    InitFc1,
    /// Second step of initialization.
    InitFc2,
    /// Credits returned.
    UpdateFc,
}
