// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PCI Express capability of an endpoint (`PCIe 5.0 §7.5.3`), version 2.
//!
//! ```text
//! +0   PCI Express Capabilities          Next           ID 10h
//! +4   Device Capabilities
//! +8   Device Status                     Device Control
//! +c   Link Capabilities
//! +10  Link Status                       Link Control
//! +14  .. +20 slots and root ports: zero here
//! +24  Device Capabilities 2
//! +28  Device Status 2                   Device Control 2
//! +2c  Link Capabilities 2
//! +30  Link Status 2                     Link Control 2
//! +34, +38 slots: zero here
//! ```

use super::ro;
use crate::register::{Access, Register};
use bitflags::bitflags;
use tlp::{Attributes, Duration, Mps, Mrrs, OperandSize, Rate, Rcb, Width};

/// Capability ID.
pub const ID: u8 = 0x10;

/// DWs of the capability.
pub(crate) const LEN_DW: usize = 15;
/// DW of Device Capabilities.
pub const DEVICE_CAPABILITIES: u16 = 1;
/// DW of Device Control and Status.
pub const DEVICE_CONTROL: u16 = 2;
/// DW of Link Control and Status.
pub const LINK_CONTROL: u16 = 4;
/// DW of Device Capabilities 2.
pub const DEVICE_CAPABILITIES_2: u16 = 9;
/// DW of Device Control 2.
pub const DEVICE_CONTROL_2: u16 = 10;

/// Bits of Device Control and Device Status, as they stand in their DW (`PCIe 5.0 Table 7-14, 7-15`).
pub mod device_control {
    /// Correctable Error Reporting Enable.
    pub const CORRECTABLE_REPORTING: u32 = 1 << 0;
    /// Non-Fatal Error Reporting Enable.
    pub const NON_FATAL_REPORTING: u32 = 1 << 1;
    /// Fatal Error Reporting Enable.
    pub const FATAL_REPORTING: u32 = 1 << 2;
    /// Unsupported Request Reporting Enable.
    pub const UNSUPPORTED_REPORTING: u32 = 1 << 3;
    /// Enable Relaxed Ordering.
    pub const RELAXED_ORDERING: u32 = 1 << 4;
    /// Max_Payload_Size, a shift.
    pub const MPS_SHIFT: u32 = 5;
    /// Extended Tag Field Enable.
    pub const EXTENDED_TAG: u32 = 1 << 8;
    /// Enable No Snoop.
    pub const NO_SNOOP: u32 = 1 << 11;
    /// Max_Read_Request_Size, a shift.
    pub const MRRS_SHIFT: u32 = 12;
    /// Initiate Function Level Reset; always reads zero.
    pub const INITIATE_FLR: u32 = 1 << 15;
    /// Correctable Error Detected.
    pub const CORRECTABLE_DETECTED: u32 = 1 << 16;
    /// Non-Fatal Error Detected.
    pub const NON_FATAL_DETECTED: u32 = 1 << 17;
    /// Fatal Error Detected.
    pub const FATAL_DETECTED: u32 = 1 << 18;
    /// Unsupported Request Detected.
    pub const UNSUPPORTED_DETECTED: u32 = 1 << 19;
    /// Transactions Pending: requests of the function wait for completions.
    pub const TRANSACTIONS_PENDING: u32 = 1 << 21;
}

/// Bits of Device Control 2 (`PCIe 5.0 Table 7-27`).
pub mod device_control_2 {
    /// Completion Timeout Value.
    pub const TIMEOUT_VALUE: u32 = 0xf;
    /// Completion Timeout Disable.
    pub const TIMEOUT_DISABLE: u32 = 1 << 4;
    /// IDO Request Enable.
    pub const IDO_REQUEST: u32 = 1 << 8;
    /// IDO Completion Enable.
    pub const IDO_COMPLETION: u32 = 1 << 9;
    /// AtomicOp Requester Enable.
    pub const ATOMIC_REQUESTER: u32 = 1 << 6;
    /// 10-Bit Tag Requester Enable.
    pub const TEN_BIT_TAG: u32 = 1 << 12;
}

bitflags! {
    /// AtomicOps that a function completes, as the bits of Device Capabilities 2 say (`PCIe 5.0 Table 7-26`).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct AtomicSupport: u32 {
        /// 32-bit AtomicOp Completer Supported: FetchAdd, Swap and CAS of 32 bits.
        const BITS_32 = 1 << 7;
        /// 64-bit AtomicOp Completer Supported: the same of 64 bits.
        const BITS_64 = 1 << 8;
        /// 128-bit CAS Completer Supported.
        const CAS_128 = 1 << 9;
    }
}

impl AtomicSupport {
    /// Whether a completer with these bits takes an operand of this size (`PCIe 5.0 §6.15.3`).
    #[must_use]
    pub const fn takes(self, operand: OperandSize) -> bool {
        self.contains(match operand {
            OperandSize::Bits32 => AtomicSupport::BITS_32,
            OperandSize::Bits64 => AtomicSupport::BITS_64,
            OperandSize::Bits128 => AtomicSupport::CAS_128,
        })
    }
}

/// Bytes of the longest deferrable write that a function takes (ECN "Deferrable Memory Write"; DMWr Completer Supported,
/// bit 28, and DMWr Lengths Supported, bits 30:29, of Device Capabilities 2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DeferrableLength {
    /// Up to 64 B.
    Bytes64,
    /// Up to 128 B.
    Bytes128,
}

impl DeferrableLength {
    /// 64 or 128.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            DeferrableLength::Bytes64 => 64,
            DeferrableLength::Bytes128 => 128,
        }
    }

    const fn capability(self) -> u32 {
        const COMPLETER: u32 = 1 << 28;
        COMPLETER | (self as u32) << 29
    }
}

/// Read Completion Boundary of Link Control: set is 128 B.
pub const RCB_128: u32 = 1 << 3;
const COMMON_CLOCK: u32 = 1 << 6;
const EXTENDED_SYNCH: u32 = 1 << 7;
const ASPM_CONTROL: u32 = 0b11;

/// The PCI Express capability as a function wants it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PcieLayout {
    /// Max_Payload_Size Supported.
    pub mps_supported: Mps,
    /// Extended Tag Field Supported: 8-bit tags. Where it is, they are enabled after reset, as the specification
    /// lets the implementation choose (`Table 7-14`).
    pub extended_tag: bool,
    /// 10-Bit Tag Requester Supported.
    pub ten_bit_tag: bool,
    /// Function Level Reset Capability.
    pub function_level_reset: bool,
    /// Device/Port Type is Legacy PCI Express Endpoint: it may take locked reads (`PCIe 5.0 §6.5.7`).
    pub legacy: bool,
    /// AtomicOps that it completes.
    pub atomics: AtomicSupport,
    /// Deferrable writes that it completes; `None`: none.
    pub deferrable_write: Option<DeferrableLength>,
    /// Max Link Speed, and the speed that Link Status shows.
    pub rate: Rate,
    /// Maximum Link Width, and the width that Link Status shows.
    pub width: Width,
}

impl Default for PcieLayout {
    /// What an endpoint of the third generation has: MPS 512 B, 8-bit tags, FLR, 8 GT/s x16.
    fn default() -> PcieLayout {
        PcieLayout {
            mps_supported: Mps::from_encoding(2).unwrap_or_default(),
            extended_tag: true,
            ten_bit_tag: false,
            function_level_reset: true,
            legacy: false,
            atomics: AtomicSupport::empty(),
            deferrable_write: None,
            rate: Rate::Gt8,
            width: Width::ALL[5],
        }
    }
}

impl PcieLayout {
    pub(crate) fn registers(self) -> [Register; LEN_DW] {
        let mut all = [ro(0); LEN_DW];
        // Version 2; Device/Port Type 0000b is PCI Express Endpoint, 0001b Legacy PCI Express Endpoint.
        all[0] = ro(2 << 16 | u32::from(self.legacy) << 20);
        all[1] = ro(self.device_capabilities());
        all[usize::from(DEVICE_CONTROL)] = self.device_control();
        all[3] = ro(self.link());
        all[usize::from(LINK_CONTROL)] = self.link_control();
        all[9] = ro(self.device_capabilities_2());
        all[usize::from(DEVICE_CONTROL_2)] = self.device_control_2();
        all[11] = ro(((1 << self.speed()) - 1) << 1); // Supported Link Speeds Vector
        all[12] = Register::new(self.speed(), Access { rw: 0xf, sticky: 0xf, ..Access::default() });
        all
    }

    const fn speed(self) -> u32 {
        self.rate.generation() as u32
    }

    const fn link(self) -> u32 {
        self.speed() | (self.width.lanes() as u32) << 4
    }

    fn device_capabilities(self) -> u32 {
        const ROLE_BASED_ERROR_REPORTING: u32 = 1 << 15;
        u32::from(self.mps_supported.encoding())
            | u32::from(self.extended_tag) << 5
            | ROLE_BASED_ERROR_REPORTING
            | u32::from(self.function_level_reset) << 28
    }

    /// Software may write Max_Payload_Size as it likes; what is more than supported is read as supported.
    fn device_control(self) -> Register {
        use device_control as bit;
        let mps = 0b111 << bit::MPS_SHIFT;
        let tag = if self.extended_tag { bit::EXTENDED_TAG } else { 0 };
        let reset = bit::RELAXED_ORDERING | tag | bit::NO_SNOOP | 0b010 << bit::MRRS_SHIFT;
        let rw = 0b1_1111 | mps | tag | bit::NO_SNOOP | 0b111 << bit::MRRS_SHIFT;
        Register::new(reset, Access { rw, rw1c: 0xf << 16, sticky: 0, kept_by_flr: mps })
    }

    fn link_control(self) -> Register {
        let rw = RCB_128 | ASPM_CONTROL | COMMON_CLOCK | EXTENDED_SYNCH;
        Register::new(self.link() << 16, Access { rw, kept_by_flr: rw, ..Access::default() })
    }

    fn device_capabilities_2(self) -> u32 {
        const TIMEOUT_RANGES_ABCD: u32 = 0b1111;
        const TIMEOUT_DISABLE_SUPPORTED: u32 = 1 << 4;
        const TEN_BIT_COMPLETER: u32 = 1 << 16;
        TIMEOUT_RANGES_ABCD
            | TIMEOUT_DISABLE_SUPPORTED
            | TEN_BIT_COMPLETER
            | u32::from(self.ten_bit_tag) << 17
            | self.atomics.bits()
            | self.deferrable_write.map_or(0, DeferrableLength::capability)
    }

    fn device_control_2(self) -> Register {
        use device_control_2 as bit;
        let tag = if self.ten_bit_tag { bit::TEN_BIT_TAG } else { 0 };
        let rw = bit::TIMEOUT_VALUE | bit::TIMEOUT_DISABLE | bit::IDO_REQUEST | bit::IDO_COMPLETION;
        let rw = rw | bit::ATOMIC_REQUESTER | tag;
        Register::new(0, Access { rw, ..Access::default() })
    }
}

/// Max_Payload_Size in force: as set, but no more than Device Capabilities supports; reserved encodings give 128 B.
pub(crate) fn mps(control: u32, capabilities: u32) -> Mps {
    let supported = Mps::from_encoding((capabilities & 0b111) as u8).unwrap_or_default();
    let set = Mps::from_encoding((control >> device_control::MPS_SHIFT & 0b111) as u8).unwrap_or_default();
    set.min(supported)
}

/// Max_Read_Request_Size in force; reserved encodings give 512 B.
pub(crate) fn mrrs(control: u32) -> Mrrs {
    Mrrs::from_encoding((control >> device_control::MRRS_SHIFT & 0b111) as u8).unwrap_or_default()
}

/// The Read Completion Boundary that Link Control names: of the root port above.
pub(crate) fn rcb(link_control: u32) -> Rcb {
    let bytes = if link_control & RCB_128 == 0 { 64 } else { 128 };
    Rcb::new(bytes).unwrap_or_default()
}

/// Attributes that the function may set in its requests.
pub(crate) fn request_attributes(control: u32, control_2: u32) -> Attributes {
    let mut attr = Attributes::empty();
    attr.set(Attributes::RELAXED_ORDERING, control & device_control::RELAXED_ORDERING != 0);
    attr.set(Attributes::NO_SNOOP, control & device_control::NO_SNOOP != 0);
    attr.set(Attributes::ID_BASED_ORDERING, control_2 & device_control_2::IDO_REQUEST != 0);
    attr
}

/// The longest completion timeout of the range that Device Control 2 names (`PCIe 5.0 Table 7-27`); `None` is the
/// default range, 50 us to 50 ms, and every reserved value.
pub(crate) const fn timeout(control_2: u32) -> Option<Duration> {
    Some(match control_2 & device_control_2::TIMEOUT_VALUE {
        0b0001 => Duration::from_us(100),
        0b0010 => Duration::from_ms(10),
        0b0101 => Duration::from_ms(55),
        0b0110 => Duration::from_ms(210),
        0b1001 => Duration::from_ms(900),
        0b1010 => Duration::from_ms(3_500),
        0b1101 => Duration::from_ms(13_000),
        0b1110 => Duration::from_ms(64_000),
        _ => return None,
    })
}

/// The AtomicOps that Device Capabilities 2 names.
pub(crate) const fn atomics(capabilities_2: u32) -> AtomicSupport {
    AtomicSupport::from_bits_truncate(capabilities_2)
}

/// The deferrable writes that Device Capabilities 2 names.
pub(crate) fn deferrable_write(capabilities_2: u32) -> Option<DeferrableLength> {
    let all = [DeferrableLength::Bytes128, DeferrableLength::Bytes64];
    all.into_iter().find(|l| capabilities_2 & l.capability() == l.capability())
}
