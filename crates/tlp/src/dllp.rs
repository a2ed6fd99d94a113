// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Data Link Layer Packets (`PCIe 5.0 §3.5`): six bytes, two of them CRC-16. Never panics on foreign bytes.
//!
//! ```text
//!       31         24 23 22 21         14 13 12 11              0
//!      +-------------+-----+-------------+-----+-----------------+
//! Ack  |    Type     |            R            | AckNak_Seq_Num  |
//!      +---------+---+-----+-------------+-----+-----------------+
//! FC   |  Type   |VC |Scale|   HdrFC     |Scale|     DataFC      |
//!      +---------+---+-----+-------------+-----+-----------------+
//!      then the CRC, two bytes
//! ```

use crate::{Class, crc};
use core::fmt;

/// Bytes of a DLLP, its CRC included.
pub const DLLP_LEN: usize = 6;

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

/// A flow-control DLLP (`PCIe 5.0 §3.5.1`).
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

/// Why bytes are not a DLLP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DllpError {
    /// Not six bytes, but this many.
    Length(usize),
    /// The CRC is not that of the first four bytes.
    Crc {
        /// What the DLLP says.
        found: u16,
        /// What its bytes make.
        computed: u16,
    },
    /// A DLLP Type that riser does not know: reserved, or power management, vendor-specific, feature exchange.
    UnknownType(u8),
    /// HdrScale or DataScale is not zero, though scaled flow control was not agreed on (`PCIe 5.0 §3.4.2`).
    Scaled {
        /// HdrScale.
        header: u8,
        /// DataScale.
        data: u8,
    },
}

// DLLP Types (`PCIe 5.0 §3.5.1`). Those of flow control have the virtual channel in bits 2:0.
const ACK: u8 = 0b0000_0000;
const NAK: u8 = 0b0001_0000;
const INIT_FC1: u8 = 0b0100_0000;
const INIT_FC2: u8 = 0b1100_0000;
const UPDATE_FC: u8 = 0b1000_0000;
const CLASS_SHIFT: u32 = 4;

const SEQUENCE_MASK: u16 = 0xfff;
const DATA_FC_MASK: u16 = 0xfff;

impl Dllp {
    /// The six bytes of the DLLP, in their order on the wire. What is too large for a field is cut off.
    #[must_use]
    pub fn emit(&self) -> [u8; DLLP_LEN] {
        let [a, b, c, d] = match self {
            Dllp::Ack { sequence } => ack_bytes(ACK, *sequence),
            Dllp::Nak { sequence } => ack_bytes(NAK, *sequence),
            Dllp::FlowControl(fc) => fc.bytes(),
        };
        let [e, f] = crc::dllp([a, b, c, d]).to_be_bytes();
        [a, b, c, d, e, f]
    }

    /// Reads a DLLP of exactly six bytes. Reserved bits are not looked at.
    ///
    /// # Errors
    /// Where the length, the CRC or the type is not right, or credits are scaled.
    pub fn parse(bytes: &[u8]) -> Result<Dllp, DllpError> {
        let &[a, b, c, d, e, f] = bytes else { return Err(DllpError::Length(bytes.len())) };
        let (found, computed) = (u16::from_be_bytes([e, f]), crc::dllp([a, b, c, d]));
        if found != computed {
            return Err(DllpError::Crc { found, computed });
        }
        let sequence = u16::from_be_bytes([c, d]) & SEQUENCE_MASK;
        match a {
            ACK => Ok(Dllp::Ack { sequence }),
            NAK => Ok(Dllp::Nak { sequence }),
            _ => FlowControl::parse(a, u32::from_be_bytes([a, b, c, d])).map(Dllp::FlowControl),
        }
    }
}

fn ack_bytes(ty: u8, sequence: u16) -> [u8; 4] {
    let [high, low] = (sequence & SEQUENCE_MASK).to_be_bytes();
    [ty, 0, high, low]
}

impl FlowControl {
    fn bytes(&self) -> [u8; 4] {
        let kind = match self.kind {
            FlowControlKind::InitFc1 => INIT_FC1,
            FlowControlKind::InitFc2 => INIT_FC2,
            FlowControlKind::UpdateFc => UPDATE_FC,
        };
        let ty = kind | (self.class.index() as u8) << CLASS_SHIFT | self.vc & 7;
        let credits = u32::from(self.header) << 14 | u32::from(self.data & DATA_FC_MASK);
        (u32::from(ty) << 24 | credits).to_be_bytes()
    }

    fn parse(ty: u8, dw: u32) -> Result<FlowControl, DllpError> {
        let unknown = DllpError::UnknownType(ty);
        let kind = match ty & 0b1100_0000 {
            INIT_FC1 => FlowControlKind::InitFc1,
            INIT_FC2 => FlowControlKind::InitFc2,
            UPDATE_FC => FlowControlKind::UpdateFc,
            _ => return Err(unknown),
        };
        let class = *Class::ALL.get((ty >> CLASS_SHIFT & 0b11) as usize).ok_or(unknown)?;
        if ty & 0b1000 != 0 {
            // Types with this bit are other DLLPs: MRInit, MRUpdateFC.
            return Err(unknown);
        }
        let (header_scale, data_scale) = ((dw >> 22 & 3) as u8, (dw >> 12 & 3) as u8);
        if header_scale != 0 || data_scale != 0 {
            return Err(DllpError::Scaled { header: header_scale, data: data_scale });
        }
        let data = dw as u16 & DATA_FC_MASK;
        Ok(FlowControl { kind, class, vc: ty & 7, header: (dw >> 14) as u8, data })
    }
}

impl fmt::Display for Dllp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dllp::Ack { sequence } => write!(f, "Ack, seq {sequence}"),
            Dllp::Nak { sequence } => write!(f, "Nak, seq {sequence}"),
            Dllp::FlowControl(fc) => fc.fmt(f),
        }
    }
}

impl fmt::Display for FlowControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            FlowControlKind::InitFc1 => "InitFC1",
            FlowControlKind::InitFc2 => "InitFC2",
            FlowControlKind::UpdateFc => "UpdateFC",
        };
        let class = match self.class {
            Class::Posted => "P",
            Class::NonPosted => "NP",
            Class::Completion => "Cpl",
        };
        write!(f, "{kind}-{class}, vc {}, hdr {}, data {}", self.vc, self.header, self.data)
    }
}

impl fmt::Display for DllpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DllpError::Length(n) => write!(f, "a DLLP of {n} bytes: it has {DLLP_LEN}"),
            DllpError::Crc { found, computed } => {
                write!(f, "DLLP CRC {found:#06x}: its bytes make {computed:#06x}")
            }
            DllpError::UnknownType(ty) => {
                write!(f, "DLLP type {ty:#04x}: known are Ack, Nak, InitFC1, InitFC2 and UpdateFC")
            }
            DllpError::Scaled { header, data } => {
                write!(f, "HdrScale {header}, DataScale {data}: without scaled flow control both are 0")
            }
        }
    }
}

impl core::error::Error for DllpError {}
