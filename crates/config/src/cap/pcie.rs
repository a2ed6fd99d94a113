// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PCI Express capability (`PCIe 5.0 §7.5.3`), version 2, of every port type.

mod slot;
mod table;

pub use slot::{SlotEvent, SlotLayout, SlotState};
pub use table::*;

use crate::register::{Register, get, put, those, without};
use bitflags::bitflags;
use tlp::{Attributes, Duration, Mps, OperandSize, Rate, Rcb, Width};

bitflags! {
    /// AtomicOps that a function completes, as bits of Device Capabilities 2 (`PCIe 5.0 Table 7-26`).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct AtomicSupport: u32 {
        /// 32-bit AtomicOp Completer Supported: FetchAdd, Swap and CAS of 32 bits.
        const BITS_32 = 1 << 7;
        /// 64-bit AtomicOp Completer Supported: FetchAdd, Swap and CAS of 64 bits.
        const BITS_64 = 1 << 8;
        /// 128-bit CAS Completer Supported.
        const CAS_128 = 1 << 9;
    }
}

impl AtomicSupport {
    /// True if a completer with these bits accepts an operand of this size (`PCIe 5.0 §6.15.3`).
    #[must_use]
    pub const fn takes(self, operand: OperandSize) -> bool {
        self.contains(match operand {
            OperandSize::Bits32 => AtomicSupport::BITS_32,
            OperandSize::Bits64 => AtomicSupport::BITS_64,
            OperandSize::Bits128 => AtomicSupport::CAS_128,
        })
    }
}

/// Longest deferrable write that a function completes (ECN "Deferrable Memory Write"; DMWr Completer Supported, bit 28,
/// and DMWr Lengths Supported, bits 30:29, of Device Capabilities 2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DeferrableLength {
    /// Up to 64 B.
    Bytes64,
    /// Up to 128 B.
    Bytes128,
}

impl DeferrableLength {
    /// The length in bytes, 64 or 128.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            DeferrableLength::Bytes64 => 64,
            DeferrableLength::Bytes128 => 128,
        }
    }

    const fn capability(self) -> u32 {
        put(device_capabilities_2::DEFERRABLE_WRITE, 1 | (self as u32) << 1)
    }
}

/// Device/Port Type (`PCIe 5.0 Table 7-17`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum PortType {
    /// PCI Express Endpoint, or a legacy one if [`PcieLayout::legacy`] is set.
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
    /// True for port types with a type 1 header.
    #[must_use]
    pub const fn is_bridge(self) -> bool {
        matches!(self, PortType::RootPort | PortType::Upstream | PortType::Downstream)
    }

    /// True for ports at the upper end of a link: root ports and downstream ports.
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

    /// Decodes the port type from the first DW of a PCI Express capability. `None` for types that riser does not
    /// distinguish.
    pub const fn decode(word: u32) -> Option<PortType> {
        Some(match get(word, capabilities::PORT_TYPE) {
            0b0000 | 0b0001 => PortType::Endpoint,
            0b0100 => PortType::RootPort,
            0b0101 => PortType::Upstream,
            0b0110 => PortType::Downstream,
            0b1001 => PortType::RootComplexIntegrated,
            _ => return None,
        })
    }
}

/// Declaration of a function's PCI Express capability.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PcieLayout {
    /// Device/Port Type.
    pub port: PortType,
    /// Max_Payload_Size Supported.
    pub mps_supported: Mps,
    /// Extended Tag Field Supported: 8-bit tags. If set, they are enabled after reset, which the specification leaves to
    /// the implementation (`Table 7-14`).
    pub extended_tag: bool,
    /// 10-Bit Tag Requester Supported.
    pub ten_bit_tag: bool,
    /// Function Level Reset Capability; endpoints only.
    pub function_level_reset: bool,
    /// Legacy PCI Express Endpoint, which may receive locked reads (`PCIe 5.0 §6.5.7`).
    pub legacy: bool,
    /// AtomicOps that the function completes. For a root port, the AtomicOps of its root complex. Empty for other
    /// bridges.
    pub atomics: AtomicSupport,
    /// AtomicOp Routing Supported; bridges only.
    pub atomic_routing: bool,
    /// Longest deferrable write that the function completes; `None` if it completes none.
    pub deferrable_write: Option<DeferrableLength>,
    /// Largest number of End-End TLP Prefixes that the function accepts, 0 to 4 (`PCIe 5.0 §2.2.10.2`).
    pub end_end_prefixes: u8,
    /// ARI Forwarding Supported; root and downstream ports only.
    pub ari_forwarding: bool,
    /// LTR Mechanism Supported.
    pub ltr: bool,
    /// Max Link Speed, and the initial speed in Link Status.
    pub rate: Rate,
    /// Maximum Link Width, and the initial width in Link Status.
    pub width: Width,
    /// Port Number of Link Capabilities.
    pub port_number: u8,
    /// Read Completion Boundary of a root port.
    pub rcb: Rcb,
    /// The slot below a root or downstream port.
    pub slot: Option<SlotLayout>,
    /// Interrupt Message Number: the vector for events of the slot and the root port.
    pub message_number: u8,
}

impl Default for PcieLayout {
    /// A third-generation endpoint: MPS 512 B, 8-bit tags, FLR, 8 GT/s x16.
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
    /// Returns the layout of a port of this type, otherwise like [`PcieLayout::default`]. Bridges route AtomicOps, and
    /// ports above a link forward to 256 functions.
    pub fn port(port: PortType) -> PcieLayout {
        PcieLayout {
            port,
            function_level_reset: !port.is_bridge(),
            atomic_routing: port.is_bridge(),
            ari_forwarding: port.is_above_link(),
            ..PcieLayout::default()
        }
    }

    /// Returns what is illegal in this layout, worded for an error message; `None` if it is legal.
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
        let speed = self.rate.generation().into();
        let all = TABLE.registers(&[
            (CAPABILITIES, self.capabilities()),
            (DEVICE_CAPABILITIES, self.device_capabilities()),
            (DEVICE_CONTROL, self.device_control()),
            (LINK_CAPABILITIES, self.link_capabilities(speed)),
            (LINK_CONTROL, self.link_control(speed)),
            (SLOT_CAPABILITIES, self.slot.map_or(0, SlotLayout::capabilities)),
            (SLOT_CONTROL, self.slot.map_or(0, SlotLayout::control)),
            (ROOT_CONTROL, root_control::CRS_VISIBILITY),
            (DEVICE_CAPABILITIES_2, self.device_capabilities_2()),
            (LINK_CAPABILITIES_2, put(link_capabilities_2::SPEEDS, (1 << speed) - 1)),
            (LINK_CONTROL_2, put(link_control_2::TARGET_SPEED, speed)),
        ]);
        let mut all = without(all, self.absent());
        let is_root = self.port == PortType::RootPort;
        if is_root {
            let link = &mut all[usize::from(LINK_CONTROL)];
            *link = link.fix(link_control::RCB_128);
        }
        let has_link = self.port != PortType::RootComplexIntegrated;
        let rows: [(bool, &[u16]); 3] = [
            (has_link, &[LINK_CAPABILITIES, LINK_CONTROL, LINK_CAPABILITIES_2, LINK_CONTROL_2]),
            (self.slot.is_some(), &[SLOT_CONTROL]),
            (is_root, &[ROOT_CONTROL, ROOT_STATUS]),
        ];
        for dw in rows.into_iter().filter(|row| !row.0).flat_map(|row| row.1) {
            all[usize::from(*dw)] = Register::default();
        }
        all
    }

    /// Registers, as (DW, bits), that a port of this type with this layout does not implement. The Read Completion
    /// Boundary is fixed in a root port, a setting in endpoints, and zero in switches (`Table 7-20`).
    fn absent(&self) -> [(u16, u32); 4] {
        let is_bridge = self.port.is_bridge();
        let device = {
            use device_control::*;
            those([(!self.extended_tag, EXTENDED_TAG), (!self.function_level_reset, INITIATE_FLR)])
        };
        let link = {
            use link_control::*;
            let is_below = !self.port.is_above_link();
            let notification = BANDWIDTH_MANAGEMENT_ENABLE
                | AUTONOMOUS_BANDWIDTH_ENABLE
                | BANDWIDTH_MANAGEMENT
                | AUTONOMOUS_BANDWIDTH;
            those([(is_below, LINK_DISABLE | RETRAIN_LINK | notification), (self.is_switch_port(), RCB_128)])
        };
        let device_2 = {
            use device_control_2::*;
            those([
                (self.is_switch_port(), TIMEOUT_VALUE | TIMEOUT_DISABLE),
                (!self.ari_forwarding, ARI_FORWARDING),
                (self.is_switch_port(), ATOMIC_REQUESTER | IDO_REQUEST | IDO_COMPLETION),
                (!self.atomic_routing, ATOMIC_EGRESS_BLOCKING),
                (!self.ltr, LTR_ENABLE),
                (!self.ten_bit_tag, TEN_BIT_TAG),
                (self.end_end_prefixes == 0 || !is_bridge, PREFIX_BLOCKING),
            ])
        };
        let slot = self.slot.map_or(0, SlotLayout::absent);
        [(DEVICE_CONTROL, device), (LINK_CONTROL, link), (DEVICE_CONTROL_2, device_2), (SLOT_CONTROL, slot)]
    }

    /// PCI Express Capabilities: version 2, type, slot, message number.
    fn capabilities(self) -> u32 {
        use capabilities::*;
        put(VERSION, 2)
            | put(PORT_TYPE, self.port.encoding(self.legacy))
            | put(SLOT_IMPLEMENTED, self.slot.is_some().into())
            | put(MESSAGE_NUMBER, self.message_number.into())
    }

    fn device_capabilities(self) -> u32 {
        use device_capabilities::*;
        put(MPS_SUPPORTED, self.mps_supported.encoding().into())
            | ROLE_BASED_ERROR_REPORTING
            | those([
                (self.extended_tag, EXTENDED_TAG_SUPPORTED),
                (self.function_level_reset, FUNCTION_LEVEL_RESET),
            ])
    }

    /// Device Control after reset. Software may write any Max_Payload_Size. Values above the supported one act like the
    /// supported one.
    fn device_control(self) -> u32 {
        use device_control::*;
        RELAXED_ORDERING | NO_SNOOP | put(MRRS, 0b010) | those([(self.extended_tag, EXTENDED_TAG)])
    }

    fn link_capabilities(self, speed: u32) -> u32 {
        use link_capabilities::*;
        let reports = SURPRISE_DOWN_CAPABLE | LINK_ACTIVE_CAPABLE | BANDWIDTH_NOTIFICATION;
        let above = those([(self.port.is_above_link(), reports)]);
        let link = put(MAX_SPEED, speed) | put(MAX_WIDTH, self.width.lanes().into());
        link | ASPM_OPTIONALITY | above | put(PORT_NUMBER, self.port_number.into())
    }

    fn link_control(self, speed: u32) -> u32 {
        use link_control::*;
        let cuts_at_128 = self.port == PortType::RootPort && self.rcb.bytes() == 128;
        put(SPEED, speed) | put(WIDTH, self.width.lanes().into()) | those([(cuts_at_128, RCB_128)])
    }

    /// Device Capabilities 2. Switch ports issue no requests that expect completions, so completion timeouts do not
    /// apply to them (`Table 7-27`). For End-End TLP Prefixes, 00b means four.
    fn device_capabilities_2(self) -> u32 {
        use device_capabilities_2::*;
        let prefixes = u32::from(self.end_end_prefixes);
        TEN_BIT_TAG_COMPLETER
            | those([
                (!self.is_switch_port(), TIMEOUT_RANGES | TIMEOUT_DISABLE_SUPPORTED),
                (self.ari_forwarding, ARI_FORWARDING_SUPPORTED),
                (self.atomic_routing, ATOMIC_ROUTING),
                (self.ltr, LTR_SUPPORTED),
                (self.ten_bit_tag, TEN_BIT_TAG_REQUESTER),
                (prefixes > 0, EXTENDED_FMT | END_END_PREFIX | put(MAX_END_END_PREFIXES, prefixes)),
            ])
            | self.atomics.bits()
            | self.deferrable_write.map_or(0, DeferrableLength::capability)
    }

    const fn is_switch_port(self) -> bool {
        matches!(self.port, PortType::Upstream | PortType::Downstream)
    }
}

/// Effective Max_Payload_Size: the value in Device Control, limited to the value in Device Capabilities. Reserved
/// encodings give 128 B.
pub(crate) fn mps(control: u32, capabilities: u32) -> Mps {
    let supported = get(capabilities, device_capabilities::MPS_SUPPORTED);
    let [set, supported] = [get(control, device_control::MPS), supported]
        .map(|encoding| Mps::from_encoding(encoding as u8).unwrap_or_default());
    set.min(supported)
}

/// Attributes that the function may set in its requests.
pub(crate) fn request_attributes(control: u32, control_2: u32) -> Attributes {
    let mut attr = Attributes::empty();
    attr.set(Attributes::RELAXED_ORDERING, control & device_control::RELAXED_ORDERING != 0);
    attr.set(Attributes::NO_SNOOP, control & device_control::NO_SNOOP != 0);
    attr.set(Attributes::ID_BASED_ORDERING, control_2 & device_control_2::IDO_REQUEST != 0);
    attr
}

/// Longest completion timeout of the range that Device Control 2 selects (`PCIe 5.0 Table 7-27`). `None` is the default
/// range, 50 us to 50 ms, and every reserved value.
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

/// Number of End-End TLP Prefixes that Device Capabilities 2 allows; 00b means four.
pub(crate) const fn end_end_prefixes(capabilities_2: u32) -> u8 {
    use device_capabilities_2::{END_END_PREFIX, MAX_END_END_PREFIXES};
    match get(capabilities_2, MAX_END_END_PREFIXES) {
        _ if capabilities_2 & END_END_PREFIX == 0 => 0,
        0 => 4,
        n => n as u8,
    }
}

/// Longest deferrable write according to Device Capabilities 2.
pub(crate) fn deferrable_write(capabilities_2: u32) -> Option<DeferrableLength> {
    let all = [DeferrableLength::Bytes128, DeferrableLength::Bytes64];
    all.into_iter().find(|l| capabilities_2 & l.capability() == l.capability())
}
