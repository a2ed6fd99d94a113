// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Data Link Layer Packets (`PCIe 5.0 §3.5`): six bytes, of which two are the CRC-16. Never panics on bytes from
//! outside.
//!
//! ```text
//!          31         24 23 22 21         14 13 12 11              0
//!         +-------------+-----+-------------+-----+-----------------+
//! Ack     |    Type     |            R            | AckNak_Seq_Num  |
//!         +---------+---+-----+-------------+-----+-----------------+
//! FC      |  Type   |VC |Scale|   HdrFC     |Scale|     DataFC      |
//!         +---------+---+--+--+-------------+-----+-----------------+
//! Feature |    Type     |A |           Feature Support              |
//!         +-------------+--+----------------------------------------+
//! PM, NOP |    Type     |                    R                      |
//!         +-------------+-------------------------------------------+
//! Vendor  |    Type     |              Vendor-defined               |
//!         +-------------+-------------------------------------------+
//!         then the CRC, two bytes
//! ```

use crate::{Class, Vc, crc};
use core::fmt;

/// Length of a DLLP in bytes, including its CRC.
pub const DLLP_LEN: usize = 6;

/// A DLLP as a plain value: all types of `PCIe 5.0 Table 3-1` except those of multi-root I/O virtualization.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dllp {
    /// Ack: all TLPs up to `sequence` arrived.
    Ack {
        /// AckNak_Seq_Num, 0 to 4095.
        sequence: u16,
    },
    /// Nak: all TLPs up to `sequence` arrived, and the next one did not.
    Nak {
        /// AckNak_Seq_Num, 0 to 4095.
        sequence: u16,
    },
    /// InitFC1, InitFC2 or UpdateFC.
    FlowControl(FlowControl),
    /// Data_Link_Feature.
    Feature(DataLinkFeature),
    /// Power management.
    Pm(PmDllp),
    /// Vendor-specific.
    Vendor {
        /// Bits 23:0.
        bits: u32,
    },
    /// NOP: the receiver drops it.
    Nop,
}

/// A flow-control DLLP (`PCIe 5.0 §3.5.1`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowControl {
    /// InitFC1, InitFC2 or UpdateFC.
    pub kind: FlowControlKind,
    /// The class of the credits.
    pub class: Class,
    /// Virtual channel.
    pub vc: Vc,
    /// HdrScale.
    pub header_scale: Scale,
    /// HdrFC, 8 bits: the advertised credits in an InitFC (0 is infinite), the running total in an UpdateFC. The
    /// low bits that the scale drops are not included.
    pub header: u8,
    /// DataScale.
    pub data_scale: Scale,
    /// DataFC, 12 bits: like `header`, in units of 16 B.
    pub data: u16,
}

/// The three kinds of flow-control DLLP, each with its bits of the DLLP Type (`PCIe 5.0 Table 3-1`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FlowControlKind {
    /// First step of initialization.
    InitFc1 = 0b0100_0000,
    /// Second step of initialization.
    InitFc2 = 0b1100_0000,
    /// Credits returned.
    UpdateFc = 0b1000_0000,
}

impl FlowControlKind {
    const ALL: [FlowControlKind; 3] =
        [FlowControlKind::InitFc1, FlowControlKind::InitFc2, FlowControlKind::UpdateFc];
}

/// HdrScale and DataScale: the number of credits per unit of a credit field (`PCIe 5.0 §3.4.2`, Table 3-2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Scale {
    /// 00b: 1 credit; scaled flow control is not supported.
    #[default]
    Unscaled,
    /// 01b: 1 credit.
    X1,
    /// 10b: 4 credits.
    X4,
    /// 11b: 16 credits.
    X16,
}

impl Scale {
    /// The scale with this encoding, in the low two bits of `bits`.
    pub const fn from_bits(bits: u8) -> Scale {
        match bits & 3 {
            0 => Scale::Unscaled,
            1 => Scale::X1,
            2 => Scale::X4,
            _ => Scale::X16,
        }
    }

    /// The encoding, two bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Number of low bits of the credit counter that the field drops: 0, 2 or 4.
    #[must_use]
    pub const fn shift(self) -> u32 {
        match self {
            Scale::Unscaled | Scale::X1 => 0,
            Scale::X4 => 2,
            Scale::X16 => 4,
        }
    }

    /// Credits per unit of the field: 1, 4 or 16.
    #[must_use]
    pub const fn factor(self) -> u16 {
        1 << self.shift()
    }
}

/// A Data Link Feature DLLP (`PCIe 5.0 §3.3`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataLinkFeature {
    /// Feature Ack: the sender has received the other end's features.
    pub ack: bool,
    /// Feature Support, 23 bits: [`SCALED_FLOW_CONTROL`](Self::SCALED_FLOW_CONTROL) and reserved bits.
    pub supported: u32,
}

impl DataLinkFeature {
    /// Bit 0: Local Scaled Flow Control Supported.
    pub const SCALED_FLOW_CONTROL: u32 = 1;

    /// Returns true if the sender supports scaled flow control.
    #[must_use]
    pub const fn scaled_flow_control(self) -> bool {
        self.supported & DataLinkFeature::SCALED_FLOW_CONTROL != 0
    }
}

/// Power management DLLPs (`PCIe 5.0 §5.3.2`, §5.4.1), each with its DLLP Type (Table 3-1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PmDllp {
    /// PM_Enter_L1.
    EnterL1 = 0b0010_0000,
    /// PM_Enter_L23.
    EnterL23 = 0b0010_0001,
    /// PM_Active_State_Request_L1.
    ActiveStateRequestL1 = 0b0010_0011,
    /// PM_Request_Ack.
    RequestAck = 0b0010_0100,
}

/// Reason why bytes are not a DLLP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DllpError {
    /// The number of bytes is not six, but this.
    Length(usize),
    /// The CRC does not match the first four bytes.
    Crc {
        /// The CRC field of the DLLP.
        found: u16,
        /// The CRC computed from the first four bytes.
        computed: u16,
    },
    /// The DLLP Type is reserved, or belongs to multi-root I/O virtualization.
    UnknownType(u8),
}

// DLLP Types (`PCIe 5.0 §3.5.1`, Table 3-1). Types of flow control have the virtual channel in bits 2:0.
const ACK: u8 = 0b0000_0000;
const DATA_LINK_FEATURE: u8 = 0b0000_0010;
const NAK: u8 = 0b0001_0000;
const VENDOR_SPECIFIC: u8 = 0b0011_0000;
const NOP: u8 = 0b0011_0001;
const CLASS_SHIFT: u32 = 4;

const SEQUENCE_MASK: u16 = 0xfff;
const DATA_FC_MASK: u16 = 0xfff;
const FEATURE_ACK: u32 = 1 << 23;
const FEATURE_MASK: u32 = FEATURE_ACK - 1;
/// The bits after the type.
const BODY_MASK: u32 = 0x00ff_ffff;

impl Dllp {
    /// The six bytes of the DLLP, in their order on the wire. A value that is too large for its field loses its
    /// high bits.
    pub fn emit(&self) -> [u8; DLLP_LEN] {
        let (ty, body) = match self {
            Dllp::Ack { sequence } => (ACK, u32::from(sequence & SEQUENCE_MASK)),
            Dllp::Nak { sequence } => (NAK, u32::from(sequence & SEQUENCE_MASK)),
            Dllp::FlowControl(fc) => (fc.ty(), fc.credits()),
            Dllp::Feature(feature) => (DATA_LINK_FEATURE, feature.bits()),
            Dllp::Pm(pm) => (*pm as u8, 0),
            Dllp::Vendor { bits } => (VENDOR_SPECIFIC, bits & BODY_MASK),
            Dllp::Nop => (NOP, 0),
        };
        let [a, b, c, d] = (u32::from(ty) << 24 | body).to_be_bytes();
        let [e, f] = crc::dllp([a, b, c, d]).to_be_bytes();
        [a, b, c, d, e, f]
    }

    /// Reads a DLLP of exactly six bytes. Ignores reserved bits.
    ///
    /// # Errors
    /// If the length or the CRC is wrong, or the type is unknown.
    pub fn parse(bytes: &[u8]) -> Result<Dllp, DllpError> {
        let &[a, b, c, d, e, f] = bytes else { return Err(DllpError::Length(bytes.len())) };
        let (found, computed) = (u16::from_be_bytes([e, f]), crc::dllp([a, b, c, d]));
        if found != computed {
            return Err(DllpError::Crc { found, computed });
        }
        let sequence = u16::from_be_bytes([c, d]) & SEQUENCE_MASK;
        let body = u32::from_be_bytes([0, b, c, d]);
        match a {
            ACK => Ok(Dllp::Ack { sequence }),
            NAK => Ok(Dllp::Nak { sequence }),
            DATA_LINK_FEATURE => Ok(Dllp::Feature(DataLinkFeature::from_bits(body))),
            VENDOR_SPECIFIC => Ok(Dllp::Vendor { bits: body }),
            NOP => Ok(Dllp::Nop),
            0b0010_0000..=0b0010_0111 => {
                let pm = PmDllp::ALL.into_iter().find(|pm| *pm as u8 == a);
                pm.map(Dllp::Pm).ok_or(DllpError::UnknownType(a))
            }
            _ => FlowControl::parse(a, body).map(Dllp::FlowControl),
        }
    }
}

impl DataLinkFeature {
    const fn bits(self) -> u32 {
        self.supported & FEATURE_MASK | if self.ack { FEATURE_ACK } else { 0 }
    }

    const fn from_bits(body: u32) -> DataLinkFeature {
        DataLinkFeature { ack: body & FEATURE_ACK != 0, supported: body & FEATURE_MASK }
    }
}

impl PmDllp {
    const ALL: [PmDllp; 4] =
        [PmDllp::EnterL1, PmDllp::EnterL23, PmDllp::ActiveStateRequestL1, PmDllp::RequestAck];

    /// The specification's name, such as `PM_Enter_L1`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            PmDllp::EnterL1 => "PM_Enter_L1",
            PmDllp::EnterL23 => "PM_Enter_L23",
            PmDllp::ActiveStateRequestL1 => "PM_Active_State_Request_L1",
            PmDllp::RequestAck => "PM_Request_Ack",
        }
    }
}

impl FlowControl {
    /// A flow-control DLLP without scaled flow control.
    pub const fn new(kind: FlowControlKind, class: Class, vc: Vc, header: u8, data: u16) -> FlowControl {
        let (header_scale, data_scale) = (Scale::Unscaled, Scale::Unscaled);
        FlowControl { kind, class, vc, header_scale, header, data_scale, data }
    }

    /// HdrFC in credits, at most 12 bits. The low bits that the scale drops are zero.
    pub const fn header_credits(&self) -> u16 {
        (self.header as u16) << self.header_scale.shift()
    }

    /// DataFC in credits of 16 B, at most 16 bits. Scaled like [`header_credits`](Self::header_credits).
    pub const fn data_credits(&self) -> u16 {
        (self.data & DATA_FC_MASK) << self.data_scale.shift()
    }

    fn ty(&self) -> u8 {
        self.kind as u8 | (self.class.index() as u8) << CLASS_SHIFT | self.vc.id()
    }

    fn credits(&self) -> u32 {
        u32::from(self.header_scale.bits()) << 22
            | u32::from(self.header) << 14
            | u32::from(self.data_scale.bits()) << 12
            | u32::from(self.data & DATA_FC_MASK)
    }

    fn parse(ty: u8, body: u32) -> Result<FlowControl, DllpError> {
        let unknown = DllpError::UnknownType(ty);
        let kind =
            FlowControlKind::ALL.into_iter().find(|kind| *kind as u8 == ty & 0b1100_0000).ok_or(unknown)?;
        let class = *Class::ALL.get((ty >> CLASS_SHIFT & 0b11) as usize).ok_or(unknown)?;
        if ty & 0b1000 != 0 {
            return Err(unknown);
        }
        Ok(FlowControl {
            kind,
            class,
            vc: Vc::from_bits(ty),
            header_scale: Scale::from_bits((body >> 22) as u8),
            header: (body >> 14) as u8,
            data_scale: Scale::from_bits((body >> 12) as u8),
            data: body as u16 & DATA_FC_MASK,
        })
    }
}

impl fmt::Display for Dllp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dllp::Ack { sequence } => write!(f, "Ack, seq {sequence}"),
            Dllp::Nak { sequence } => write!(f, "Nak, seq {sequence}"),
            Dllp::FlowControl(fc) => fc.fmt(f),
            Dllp::Feature(feature) => feature.fmt(f),
            Dllp::Pm(pm) => f.write_str(pm.name()),
            Dllp::Vendor { bits } => write!(f, "Vendor, {bits:#08x}"),
            Dllp::Nop => f.write_str("NOP"),
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
        let (header, data) = (self.header_scale, self.data_scale);
        write!(
            f,
            "{kind}-{class}, vc {}, hdr {}{header}, data {}{data}",
            self.vc.id(),
            self.header,
            self.data
        )
    }
}

/// The suffix of a credit field: empty if unscaled, otherwise ` x1`, ` x4` or ` x16`.
impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scale::Unscaled => Ok(()),
            Scale::X1 | Scale::X4 | Scale::X16 => write!(f, " x{}", self.factor()),
        }
    }
}

impl fmt::Display for DataLinkFeature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Feature")?;
        if self.scaled_flow_control() {
            f.write_str(", scaled FC")?;
        }
        let others = self.supported & !DataLinkFeature::SCALED_FLOW_CONTROL;
        if others != 0 {
            write!(f, ", reserved bits {others:#x}")?;
        }
        f.write_str(if self.ack { ", ack" } else { "" })
    }
}

impl fmt::Display for DllpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DllpError::Length(n) => write!(f, "DLLP of {n} bytes: expected {DLLP_LEN}"),
            DllpError::Crc { found, computed } => {
                write!(f, "DLLP CRC {found:#06x}: expected {computed:#06x} for its bytes")
            }
            DllpError::UnknownType(ty) => write!(
                f,
                "unknown DLLP type {ty:#04x}; known types: Ack, Nak, InitFC1, InitFC2, UpdateFC, feature exchange, power \
                 management, vendor-specific and NOP"
            ),
        }
    }
}

impl core::error::Error for DllpError {}
