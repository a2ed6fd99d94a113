// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PCI Express capability (`PCIe 5.0 §7.5.3`), version 2, of every port type.
//!
//! ```text
//! +0   PCI Express Capabilities          Next           ID 10h
//! +4   Device Capabilities
//! +8   Device Status                     Device Control
//! +c   Link Capabilities
//! +10  Link Status                       Link Control
//! +14  Slot Capabilities
//! +18  Slot Status                       Slot Control
//! +1c  Root Capabilities                 Root Control
//! +20  Root Status
//! +24  Device Capabilities 2
//! +28  Device Status 2                   Device Control 2
//! +2c  Link Capabilities 2
//! +30  Link Status 2                     Link Control 2
//! +34  Slot Capabilities 2
//! +38  Slot Status 2                     Slot Control 2
//! ```

mod slot;
mod table;

pub use slot::{SlotEvent, SlotLayout, SlotState, slot_control};
pub use table::TABLE;

use crate::register::Register;
use bitflags::bitflags;
use tlp::{Attributes, Duration, Mps, Mrrs, OperandSize, Rate, Rcb, Width};

/// Capability ID.
pub const ID: u8 = 0x10;

/// DW of Device Capabilities.
pub const DEVICE_CAPABILITIES: u16 = 1;
/// DW of Device Control and Status.
pub const DEVICE_CONTROL: u16 = 2;
/// DW of Link Capabilities.
pub const LINK_CAPABILITIES: u16 = 3;
/// DW of Link Control and Status.
pub const LINK_CONTROL: u16 = 4;
/// DW of Slot Capabilities.
pub const SLOT_CAPABILITIES: u16 = 5;
/// DW of Slot Control and Status.
pub const SLOT_CONTROL: u16 = 6;
/// DW of Root Control and Capabilities.
pub const ROOT_CONTROL: u16 = 7;
/// DW of Root Status.
pub const ROOT_STATUS: u16 = 8;
/// DW of Device Capabilities 2.
pub const DEVICE_CAPABILITIES_2: u16 = 9;
/// DW of Device Control 2.
pub const DEVICE_CONTROL_2: u16 = 10;
/// DW of Link Capabilities 2.
pub const LINK_CAPABILITIES_2: u16 = 11;
/// DW of Link Control and Status 2.
pub const LINK_CONTROL_2: u16 = 12;

/// Captured Slot Power Limit Value and Scale of Device Capabilities.
pub(crate) const SLOT_POWER: u32 = 0x3ff << 18;
/// Surprise Down Error Reporting Capable of Link Capabilities.
pub const SURPRISE_DOWN_CAPABLE: u32 = 1 << 19;
/// Data Link Layer Link Active Reporting Capable of Link Capabilities.
pub const LINK_ACTIVE_CAPABLE: u32 = 1 << 20;
/// ARI Forwarding Supported of Device Capabilities 2.
pub const ARI_FORWARDING_SUPPORTED: u32 = 1 << 5;
/// AtomicOp Routing Supported of Device Capabilities 2.
pub const ATOMIC_ROUTING: u32 = 1 << 6;
/// LTR Mechanism Supported of Device Capabilities 2.
pub const LTR_SUPPORTED: u32 = 1 << 11;

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
    /// ARI Forwarding Enable.
    pub const ARI_FORWARDING: u32 = 1 << 5;
    /// AtomicOp Requester Enable.
    pub const ATOMIC_REQUESTER: u32 = 1 << 6;
    /// AtomicOp Egress Blocking.
    pub const ATOMIC_EGRESS_BLOCKING: u32 = 1 << 7;
    /// LTR Mechanism Enable.
    pub const LTR_ENABLE: u32 = 1 << 10;
    /// End-End TLP Prefix Blocking.
    pub const PREFIX_BLOCKING: u32 = 1 << 15;
    /// 10-Bit Tag Requester Enable.
    pub const TEN_BIT_TAG: u32 = 1 << 12;
}

/// Bits of Link Control and Link Status, as they stand in their DW (`PCIe 5.0 Table 7-20, 7-21`).
pub mod link_control {
    /// ASPM Control.
    pub const ASPM: u32 = 0b11;
    /// Link Disable.
    pub const LINK_DISABLE: u32 = 1 << 4;
    /// Retrain Link; always reads zero.
    pub const RETRAIN_LINK: u32 = 1 << 5;
    /// Common Clock Configuration.
    pub const COMMON_CLOCK: u32 = 1 << 6;
    /// Extended Synch.
    pub const EXTENDED_SYNCH: u32 = 1 << 7;
    /// Current Link Speed: the generation.
    pub const SPEED: u32 = 0xf << 16;
    /// Negotiated Link Width: lanes.
    pub const WIDTH: u32 = 0x3f << 20;
    /// Link Training.
    pub const TRAINING: u32 = 1 << 27;
    /// Data Link Layer Link Active.
    pub const LINK_ACTIVE: u32 = 1 << 29;
}

/// Bits of Root Control and Root Capabilities, as they stand in their DW, and of Root Status (`PCIe 5.0 Table 7-24` to
/// `7-26`).
pub mod root_control {
    /// PME Interrupt Enable.
    pub const PME_INTERRUPT_ENABLE: u32 = 1 << 3;
    /// CRS Software Visibility Enable.
    pub const CRS_VISIBILITY_ENABLE: u32 = 1 << 4;
    /// CRS Software Visibility: root ports here have it.
    pub const CRS_VISIBILITY: u32 = 1 << 16;
    /// PME Status, of Root Status.
    pub const PME_STATUS: u32 = 1 << 16;
    /// PME Pending, of Root Status: a PME waits for PME Status to be cleared.
    pub const PME_PENDING: u32 = 1 << 17;
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

/// Device/Port Type (`PCIe 5.0 Table 7-17`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum PortType {
    /// PCI Express Endpoint; a legacy one where [`PcieLayout::legacy`] says so.
    #[default]
    Endpoint,
    /// Root Port of a PCI Express Root Complex.
    RootPort,
    /// Upstream Port of a PCI Express Switch.
    Upstream,
    /// Downstream Port of a PCI Express Switch.
    Downstream,
    /// Root Complex Integrated Endpoint: it has no link.
    RootComplexIntegrated,
}

impl PortType {
    /// True for those with a type 1 header.
    #[must_use]
    pub const fn is_bridge(self) -> bool {
        matches!(self, PortType::RootPort | PortType::Upstream | PortType::Downstream)
    }

    /// True for those at the upper end of a link: root ports and downstream ports.
    #[must_use]
    pub const fn is_above_link(self) -> bool {
        matches!(self, PortType::RootPort | PortType::Downstream)
    }

    const fn encoding(self, legacy: bool) -> u32 {
        match self {
            PortType::Endpoint => legacy as u32,
            PortType::RootPort => 0b0100,
            PortType::Upstream => 0b0101,
            PortType::Downstream => 0b0110,
            PortType::RootComplexIntegrated => 0b1001,
        }
    }

    /// What the head of a PCI Express capability says; `None` for those that nothing here depends on.
    #[must_use]
    pub const fn decode(word: u32) -> Option<PortType> {
        Some(match word >> 20 & 0xf {
            0b0000 | 0b0001 => PortType::Endpoint,
            0b0100 => PortType::RootPort,
            0b0101 => PortType::Upstream,
            0b0110 => PortType::Downstream,
            0b1001 => PortType::RootComplexIntegrated,
            _ => return None,
        })
    }
}

/// The PCI Express capability as a function wants it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PcieLayout {
    /// Device/Port Type.
    pub port: PortType,
    /// Max_Payload_Size Supported.
    pub mps_supported: Mps,
    /// Extended Tag Field Supported: 8-bit tags. Where it is, they are enabled after reset, as the specification
    /// lets the implementation choose (`Table 7-14`).
    pub extended_tag: bool,
    /// 10-Bit Tag Requester Supported.
    pub ten_bit_tag: bool,
    /// Function Level Reset Capability; of endpoints only.
    pub function_level_reset: bool,
    /// An endpoint is a Legacy PCI Express Endpoint: it may take locked reads (`PCIe 5.0 §6.5.7`).
    pub legacy: bool,
    /// AtomicOps that it completes; a bridge: its root complex completes, or nothing.
    pub atomics: AtomicSupport,
    /// AtomicOp Routing Supported; of bridges only.
    pub atomic_routing: bool,
    /// Deferrable writes that it completes; `None`: none.
    pub deferrable_write: Option<DeferrableLength>,
    /// End-End TLP Prefixes that it takes, 0 to 4 (`PCIe 5.0 §2.2.10.2`).
    pub end_end_prefixes: u8,
    /// ARI Forwarding Supported; of root and downstream ports only.
    pub ari_forwarding: bool,
    /// LTR Mechanism Supported.
    pub ltr: bool,
    /// Max Link Speed, and the speed that Link Status shows at first.
    pub rate: Rate,
    /// Maximum Link Width, and the width that Link Status shows at first.
    pub width: Width,
    /// Port Number of Link Capabilities.
    pub port_number: u8,
    /// Read Completion Boundary of a root port.
    pub rcb: Rcb,
    /// The slot below a root or downstream port.
    pub slot: Option<SlotLayout>,
    /// Interrupt Message Number: the vector of events of slot and root.
    pub message_number: u8,
}

impl Default for PcieLayout {
    /// What an endpoint of the third generation has: MPS 512 B, 8-bit tags, FLR, 8 GT/s x16.
    fn default() -> PcieLayout {
        PcieLayout {
            port: PortType::Endpoint,
            mps_supported: Mps::from_encoding(2).unwrap_or_default(),
            extended_tag: true,
            ten_bit_tag: false,
            function_level_reset: true,
            legacy: false,
            atomics: AtomicSupport::empty(),
            atomic_routing: false,
            deferrable_write: None,
            end_end_prefixes: 0,
            ari_forwarding: false,
            ltr: false,
            rate: Rate::Gt8,
            width: Width::ALL[5],
            port_number: 0,
            rcb: Rcb::default(),
            slot: None,
            message_number: 0,
        }
    }
}

impl PcieLayout {
    /// What a port of this type has, else as [`PcieLayout::default`]: bridges route AtomicOps, and ports above a link
    /// forward to 256 functions.
    #[must_use]
    pub fn port(port: PortType) -> PcieLayout {
        PcieLayout {
            port,
            function_level_reset: !port.is_bridge(),
            atomic_routing: port.is_bridge(),
            ari_forwarding: port.is_above_link(),
            ..PcieLayout::default()
        }
    }

    /// Why this layout is not legal, in the words of an error; `None`: it is.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let port = self.port;
        let rows = [
            (self.slot.is_some() && !port.is_above_link(), "a slot; only root and downstream ports have one"),
            (self.slot.is_some_and(|s| s.number > 0x1fff), "a physical slot number above 8191"),
            (self.slot.is_some_and(|s| s.power_limit_value == 0xff), "a slot power limit value of 255"),
            (self.slot.is_some_and(|s| s.power_limit_scale > 3), "a slot power limit scale above 3"),
            (self.function_level_reset && port.is_bridge(), "function level reset; only endpoints have it"),
            (self.ari_forwarding && !port.is_above_link(), "ARI forwarding; only ports above a link have it"),
            (self.atomic_routing && !port.is_bridge(), "AtomicOp routing; only bridges have it"),
            (self.legacy && port != PortType::Endpoint, "the legacy mark; only endpoints have it"),
            (self.end_end_prefixes > 4, "more than 4 End-End TLP Prefixes"),
            (self.message_number > 31, "an interrupt message number above 31"),
        ];
        rows.into_iter().find(|row| row.0).map(|row| row.1)
    }

    pub(crate) fn registers(self) -> Vec<Register> {
        let mut all = TABLE.registers(&[
            (0, self.capabilities()),
            (DEVICE_CAPABILITIES, self.device_capabilities()),
            (DEVICE_CAPABILITIES_2, self.device_capabilities_2()),
            (SLOT_CAPABILITIES, self.slot.map_or(0, SlotLayout::capabilities)),
        ]);
        let mut at = |dw: u16, change: fn(&PcieLayout, Register) -> Register| {
            let register = &mut all[usize::from(dw)];
            *register = change(&self, *register);
        };
        at(DEVICE_CONTROL, PcieLayout::device_control);
        at(DEVICE_CONTROL_2, PcieLayout::device_control_2);
        at(LINK_CAPABILITIES, PcieLayout::link_capabilities);
        at(LINK_CONTROL, PcieLayout::link_control);
        at(LINK_CAPABILITIES_2, PcieLayout::link_capabilities_2);
        at(LINK_CONTROL_2, PcieLayout::link_control_2);
        at(SLOT_CONTROL, |layout, r| layout.slot.map_or(Register::default(), |s| s.control(r)));
        at(ROOT_CONTROL, PcieLayout::root_control);
        at(ROOT_STATUS, PcieLayout::only_in_root);
        all
    }

    /// Version 2, type, slot, message number.
    fn capabilities(self) -> u32 {
        2 << 16
            | self.port.encoding(self.legacy) << 20
            | u32::from(self.slot.is_some()) << 24
            | u32::from(self.message_number) << 25
    }

    const fn speed(self) -> u32 {
        self.rate.generation() as u32
    }

    const fn link(self) -> u32 {
        self.speed() | (self.width.lanes() as u32) << 4
    }

    const fn has_link(self) -> bool {
        !matches!(self.port, PortType::RootComplexIntegrated)
    }

    fn device_capabilities(self) -> u32 {
        const ROLE_BASED_ERROR_REPORTING: u32 = 1 << 15;
        u32::from(self.mps_supported.encoding())
            | u32::from(self.extended_tag) << 5
            | ROLE_BASED_ERROR_REPORTING
            | u32::from(self.function_level_reset) << 28
    }

    /// Software may write Max_Payload_Size as it likes; what is more than supported is read as supported.
    fn device_control(&self, mut register: Register) -> Register {
        use device_control as bit;
        let tag = if self.extended_tag { bit::EXTENDED_TAG } else { 0 };
        register.preset(bit::RELAXED_ORDERING | tag | bit::NO_SNOOP | 0b010 << bit::MRRS_SHIFT);
        let flr = if self.function_level_reset { 0 } else { bit::INITIATE_FLR };
        register.without(bit::EXTENDED_TAG & !tag | flr)
    }

    fn link_capabilities(&self, mut register: Register) -> Register {
        const ASPM_OPTIONALITY: u32 = 1 << 22;
        let above = if self.port.is_above_link() { SURPRISE_DOWN_CAPABLE | LINK_ACTIVE_CAPABLE } else { 0 };
        register.preset(self.link() | ASPM_OPTIONALITY | above | u32::from(self.port_number) << 24);
        if self.has_link() { register } else { Register::default() }
    }

    /// The Read Completion Boundary is a root port's own, a setting of endpoints, and zero in switches (`Table 7-20`).
    fn link_control(&self, mut register: Register) -> Register {
        if !self.has_link() {
            return Register::default();
        }
        register.preset(self.link() << 16);
        let of_downstream = link_control::LINK_DISABLE | link_control::RETRAIN_LINK;
        let register = if self.port.is_above_link() { register } else { register.without(of_downstream) };
        match self.port {
            PortType::RootPort => {
                let mut own = register.without(RCB_128);
                own.preset(if self.rcb.bytes() == 128 { RCB_128 } else { 0 });
                own
            }
            PortType::Upstream | PortType::Downstream => register.without(RCB_128),
            PortType::Endpoint | PortType::RootComplexIntegrated => register,
        }
    }

    fn link_capabilities_2(&self, mut register: Register) -> Register {
        register.preset(((1 << self.speed()) - 1) << 1); // Supported Link Speeds Vector
        if self.has_link() { register } else { Register::default() }
    }

    fn link_control_2(&self, mut register: Register) -> Register {
        register.preset(self.speed());
        if self.has_link() { register } else { Register::default() }
    }

    /// Switch ports issue no requests that wait (`Table 7-27`: completion timeouts do not apply to them).
    fn device_capabilities_2(self) -> u32 {
        const TIMEOUT_RANGES_ABCD: u32 = 0b1111;
        const TIMEOUT_DISABLE_SUPPORTED: u32 = 1 << 4;
        const TEN_BIT_COMPLETER: u32 = 1 << 16;
        let waits = if self.is_switch_port() { 0 } else { TIMEOUT_RANGES_ABCD | TIMEOUT_DISABLE_SUPPORTED };
        waits
            | TEN_BIT_COMPLETER
            | u32::from(self.ari_forwarding) << 5
            | u32::from(self.atomic_routing) << 6
            | u32::from(self.ltr) << 11
            | u32::from(self.ten_bit_tag) << 17
            | self.prefixes()
            | self.atomics.bits()
            | self.deferrable_write.map_or(0, DeferrableLength::capability)
    }

    const fn is_switch_port(self) -> bool {
        matches!(self.port, PortType::Upstream | PortType::Downstream)
    }

    /// Extended Fmt Field, End-End TLP Prefix Supported, and how many; 00b says four.
    fn prefixes(self) -> u32 {
        match self.end_end_prefixes {
            0 => 0,
            n => 1 << 20 | 1 << 21 | u32::from(n & 0b11) << 22,
        }
    }

    fn device_control_2(&self, register: Register) -> Register {
        use device_control_2 as bit;
        let rows = [
            (self.is_switch_port(), bit::TIMEOUT_VALUE | bit::TIMEOUT_DISABLE),
            (!self.ari_forwarding, bit::ARI_FORWARDING),
            (self.is_switch_port(), bit::ATOMIC_REQUESTER | bit::IDO_REQUEST | bit::IDO_COMPLETION),
            (!self.atomic_routing, bit::ATOMIC_EGRESS_BLOCKING),
            (!self.ltr, bit::LTR_ENABLE),
            (!self.ten_bit_tag, bit::TEN_BIT_TAG),
            (self.end_end_prefixes == 0 || !self.port.is_bridge(), bit::PREFIX_BLOCKING),
        ];
        let absent = rows.into_iter().filter(|row| row.0).fold(0, |all, row| all | row.1);
        register.without(absent)
    }

    fn root_control(&self, mut register: Register) -> Register {
        register.preset(root_control::CRS_VISIBILITY);
        self.only_in_root(register)
    }

    fn only_in_root(&self, register: Register) -> Register {
        if self.port == PortType::RootPort { register } else { Register::default() }
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

/// The end-to-end prefixes that Device Capabilities 2 allows; 00b says four.
pub(crate) const fn end_end_prefixes(capabilities_2: u32) -> u8 {
    let supported = capabilities_2 >> 21 & 1 == 1;
    match (supported, capabilities_2 >> 22 & 0b11) {
        (false, _) => 0,
        (true, 0) => 4,
        (true, n) => n as u8,
    }
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
