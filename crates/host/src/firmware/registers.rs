// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DW numbers and bits of the registers that enumeration accesses, in addition to those of `config`. They are
//! written from the specification, separately from the tables that devices are built from, so that an error in
//! either is detected.

/// Device Control bits that enumeration writes in addition to those of `config` (`PCIe 5.0 Table 7-14`).
pub(crate) mod device {
    /// Extended Tag Field Supported, of Device Capabilities (`Table 7-13`).
    pub(crate) const EXTENDED_TAG_SUPPORTED: u32 = 1 << 5;
    /// Correctable, Non-Fatal, Fatal and Unsupported Request Reporting Enable.
    pub(crate) const ERROR_REPORTING: u32 = 0b1111;
    /// ARI Forwarding Supported, of Device Capabilities 2 (`Table 7-26`).
    pub(crate) const ARI_FORWARDING_SUPPORTED: u32 = 1 << 5;
    /// 10-Bit Tag Completer Supported, of Device Capabilities 2.
    pub(crate) const TEN_BIT_COMPLETER: u32 = 1 << 16;
    /// 10-Bit Tag Requester Supported, of Device Capabilities 2.
    pub(crate) const TEN_BIT_REQUESTER: u32 = 1 << 17;
    /// ARI Forwarding Enable, of Device Control 2 (`Table 7-27`).
    pub(crate) const ARI_FORWARDING: u32 = 1 << 5;
}

/// The PCI Express capability beyond its device registers (`PCIe 5.0 §7.5.3`), in DWs from its start.
pub(crate) mod port {
    /// Slot Implemented, in the first DW.
    pub(crate) const SLOT_IMPLEMENTED: u32 = 1 << 24;
    /// Slot Capabilities.
    pub(crate) const SLOT_CAPABILITIES: u16 = 5;
    /// Hot-Plug Capable (`Table 7-20`).
    pub(crate) const HOT_PLUG_CAPABLE: u32 = 1 << 6;
    /// Root Control (15:0) and Root Capabilities (31:16).
    pub(crate) const ROOT_CONTROL: u16 = 7;
    /// CRS Software Visibility Enable, of Root Control.
    pub(crate) const CRS_VISIBILITY_ENABLE: u32 = 1 << 4;
    /// CRS Software Visibility, of Root Capabilities.
    pub(crate) const CRS_VISIBILITY: u32 = 1 << 16;
}

/// The type 1 header (`PCIe 5.0 §7.5.1.3`).
pub(crate) mod type1 {
    /// Number of Base Address Registers, from DW 4.
    pub(crate) const BARS: u8 = 2;
    /// Subordinate (23:16), Secondary (15:8) and Primary Bus Number (7:0).
    pub(crate) const BUS_NUMBERS: u16 = 0x18 / 4;
    /// Secondary Status (31:16), I/O Limit (15:8), I/O Base (7:0).
    pub(crate) const IO: u16 = 0x1c / 4;
    /// Memory Limit (31:16) and Memory Base (15:0).
    pub(crate) const MEMORY: u16 = 0x20 / 4;
    /// Prefetchable Memory Limit (31:16) and Base (15:0).
    pub(crate) const PREFETCHABLE: u16 = 0x24 / 4;
    /// Prefetchable Base Upper 32 Bits; the limit's follow.
    pub(crate) const PREFETCHABLE_UPPER: u16 = 0x28 / 4;
    /// I/O Limit Upper 16 Bits (31:16) and I/O Base Upper 16 Bits (15:0).
    pub(crate) const IO_UPPER: u16 = 0x30 / 4;
    /// Expansion ROM Base Address.
    pub(crate) const ROM: u16 = 0x38 / 4;
    /// SERR# Enable of Bridge Control, in place in the DW that it shares with the interrupt registers.
    pub(crate) const SERR_ENABLE: u32 = 1 << 17;
}

/// Expansion ROM Base Address of a type 0 header (`PCIe 5.0 §7.5.1.2.4`).
pub(crate) const TYPE0_ROM: u16 = 0x30 / 4;
/// Address bits of an Expansion ROM Base Address register.
pub(crate) const ROM_ADDRESS: u32 = 0xffff_f800;

/// Extended capabilities by ID, with their registers as DWs from the start.
pub(crate) mod extended {
    /// Advanced Error Reporting (`PCIe 5.0 §7.8.4`).
    pub(crate) const AER: u16 = 0x0001;
    /// Root Error Command of Advanced Error Reporting.
    pub(crate) const ROOT_ERROR_COMMAND: u16 = 0x2c / 4;
    /// Correctable, Non-Fatal and Fatal Error Reporting Enable of Root Error Command.
    pub(crate) const ROOT_ERROR_ENABLES: u32 = 0b111;
    /// Access Control Services (`PCIe 5.0 §7.7.8`): its second DW is Control (31:16) and Capability (15:0).
    pub(crate) const ACS: u16 = 0x000d;
    /// Source Validation, P2P Request Redirect, P2P Completion Redirect, Upstream Forwarding: the same bits in both.
    pub(crate) const ACS_REDIRECT: u32 = 1 | 1 << 2 | 1 << 3 | 1 << 4;
    /// Alternative Routing-ID Interpretation (`PCIe 5.0 §7.8.7`): Next Function Number in 15:8 of its second DW.
    pub(crate) const ARI: u16 = 0x000e;
    /// Single Root I/O Virtualization (`PCIe 5.0 §9.3.3`).
    pub(crate) const SRIOV: u16 = 0x0010;
}

/// The SR-IOV capability (`PCIe 5.0 §9.3.3`), in DWs from its start.
pub(crate) mod sriov {
    /// Status (31:16) and Control (15:0).
    pub(crate) const CONTROL: u16 = 2;
    /// TotalVFs (31:16) and InitialVFs (15:0).
    pub(crate) const TOTAL_VFS: u16 = 3;
    /// Function Dependency Link (23:16) and NumVFs (15:0).
    pub(crate) const NUM_VFS: u16 = 4;
    /// VF Stride (31:16) and First VF Offset (15:0).
    pub(crate) const OFFSET_STRIDE: u16 = 5;
    /// VF Device ID (31:16).
    pub(crate) const VF_DEVICE_ID: u16 = 6;
    /// System Page Size: bit n is pages of 2^(n + 12) bytes.
    pub(crate) const SYSTEM_PAGE_SIZE: u16 = 8;
    /// The first of six VF BARs.
    pub(crate) const BAR0: u16 = 9;
    /// SR-IOV Capabilities.
    pub(crate) const CAPABILITIES: u16 = 1;
    /// VF 10-Bit Tag Requester Supported, of SR-IOV Capabilities.
    pub(crate) const TEN_BIT_SUPPORTED: u32 = 1 << 2;
    /// VF 10-Bit Tag Requester Enable.
    pub(crate) const TEN_BIT_TAG: u32 = 1 << 5;
    /// VF Enable.
    pub(crate) const VF_ENABLE: u32 = 1 << 0;
    /// VF MSE: Memory Space Enable of all VFs.
    pub(crate) const VF_MEMORY_SPACE: u32 = 1 << 3;
    /// ARI Capable Hierarchy.
    pub(crate) const ARI_HIERARCHY: u32 = 1 << 4;
}
