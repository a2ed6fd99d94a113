// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Actions that a configuration write requests from the owner of a function, as bits. This module does not perform
//! them.

use bitflags::bitflags;

bitflags! {
    /// Changes or requests caused by one write.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Effects: u32 {
        /// The Command register.
        const COMMAND = 1 << 0;
        /// A Base Address Register (the Expansion ROM's included), or its size.
        const BAR = 1 << 1;
        /// Device Control or Device Control 2.
        const DEVICE_CONTROL = 1 << 2;
        /// Link Control or Link Control 2.
        const LINK_CONTROL = 1 << 3;
        /// The MSI capability: also masks.
        const MSI = 1 << 4;
        /// MSI-X Message Control.
        const MSIX = 1 << 5;
        /// Initiate Function Level Reset was written: the function is to be reset.
        const FUNCTION_LEVEL_RESET = 1 << 6;
        /// ECRC Generation Enable or ECRC Check Enable.
        const ECRC = 1 << 7;
        /// Bus numbers, windows or Bridge Control: [`ConfigSpace::bridge`](crate::ConfigSpace::bridge) returns new
        /// values.
        const BRIDGE = 1 << 8;
        /// Secondary Bus Reset changed: while it is set, everything below the bridge is in hot reset.
        const SECONDARY_BUS_RESET = 1 << 9;
        /// Link Disable changed: while it is set, the link below is down.
        const LINK_DISABLE = 1 << 10;
        /// Retrain Link was written: the link below is to go through Recovery.
        const RETRAIN_LINK = 1 << 11;
        /// Slot Control was written, even with the same value: each write is a command.
        const SLOT_CONTROL = 1 << 12;
        /// Root Control or Root Status.
        const ROOT_CONTROL = 1 << 13;
        /// A status, mask, severity or control register of Advanced Error Reporting.
        const AER = 1 << 14;
        /// Downstream Port Containment: control, software trigger, or release.
        const DPC = 1 << 15;
        /// Access Control Services.
        const ACS = 1 << 16;
        /// ARI Control of the function, or ARI Forwarding Enable of the port above.
        const ARI = 1 << 17;
        /// Single Root I/O Virtualization: VF Enable, NumVFs, VF BARs, page size, ARI Capable Hierarchy.
        const SRIOV = 1 << 18;
        /// PowerState changed.
        const POWER = 1 << 19;
        /// The Virtual Channel capability.
        const VIRTUAL_CHANNEL = 1 << 20;
        /// Address Translation Services, Page Request or PASID.
        const TRANSLATION = 1 << 21;
        /// Precision Time Measurement.
        const PTM = 1 << 22;
        /// Latency Tolerance Reporting, or its enable bit.
        const LTR = 1 << 23;
        /// Resizable BAR Control. The space resizes the BAR itself and also sets `BAR`.
        const RESIZE_BAR = 1 << 24;
        /// A PME was acknowledged, or PME_En changed.
        const PME = 1 << 25;
        /// Perform Equalization, or another request to the physical layer.
        const PHYSICAL_LAYER = 1 << 26;
        /// Data Link Feature exchange enable.
        const DATA_LINK_FEATURE = 1 << 27;
        /// An event of Slot Status was cleared. This is not a command.
        const SLOT_STATUS = 1 << 28;
    }
}
