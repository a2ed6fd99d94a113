// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Access to Command, power management, interrupts and PCI Express: values for the function's owner, and bits that hardware
//! sets.

use crate::cap::pcie::{
    self, PortType, SlotEvent, SlotState, capabilities, device_capabilities::SLOT_POWER_LIMIT,
    device_capabilities_2, device_control, device_control_2, link_capabilities, link_control, root_control,
    root_status, slot_capabilities,
};
use crate::cap::pm::{self, PowerState};
use crate::cap::{msi, msix};
use crate::ext::aer;
use crate::header::{self, command};
use crate::register::{get, put, those};
use crate::{AtomicSupport, ConfigSpace, DeferrableLength, MsiConfig, MsixControl, MsixLayout};
use tlp::{Attributes, Duration, Mps, Mrrs, Rate, Rcb, Width};

/// Methods for single bits: `true` if set; `false` if the register does not exist.
macro_rules! flags {
    ($($(#[$doc:meta])* fn $name:ident = $word:ident($dw:expr) & $bit:expr;)*) => {
        impl ConfigSpace {$(
            $(#[$doc])*
            #[must_use]
            pub fn $name(&self) -> bool {
                self.$word($dw) & $bit != 0
            }
        )*}
    };
}

flags! {
    /// Extended Tag Field Enable: 8-bit tags.
    fn extended_tag_enable = pcie_word(pcie::DEVICE_CONTROL) & device_control::EXTENDED_TAG;
    /// 10-Bit Tag Requester Enable.
    fn ten_bit_tag_enable = pcie_word(pcie::DEVICE_CONTROL_2) & device_control_2::TEN_BIT_TAG;
    /// AtomicOp Requester Enable.
    fn atomic_requester_enable = pcie_word(pcie::DEVICE_CONTROL_2) & device_control_2::ATOMIC_REQUESTER;
    /// Link Disable: the link below must be down.
    fn link_disable = pcie_word(pcie::LINK_CONTROL) & link_control::LINK_DISABLE;
    /// Link Training of Link Status.
    fn link_training = pcie_word(pcie::LINK_CONTROL) & link_control::TRAINING;
    /// Data Link Layer Link Active of Link Status.
    fn link_active = pcie_word(pcie::LINK_CONTROL) & link_control::LINK_ACTIVE;
    /// Slot Implemented.
    fn has_slot = pcie_word(pcie::CAPABILITIES) & capabilities::SLOT_IMPLEMENTED;
    /// CRS Software Visibility Enable of a root port.
    fn crs_software_visibility = pcie_word(pcie::ROOT_CONTROL) & root_control::CRS_VISIBILITY_ENABLE;
    /// ARI Forwarding Enable of a port above a link.
    fn ari_forwarding_enable = pcie_word(pcie::DEVICE_CONTROL_2) & device_control_2::ARI_FORWARDING;
    /// AtomicOp Egress Blocking of a bridge.
    fn atomic_egress_blocking = pcie_word(pcie::DEVICE_CONTROL_2) & device_control_2::ATOMIC_EGRESS_BLOCKING;
    /// End-End TLP Prefix Blocking of a bridge.
    fn prefix_blocking = pcie_word(pcie::DEVICE_CONTROL_2) & device_control_2::PREFIX_BLOCKING;
    /// AtomicOp Routing Supported of a bridge.
    fn atomic_routing = pcie_word(pcie::DEVICE_CAPABILITIES_2) & device_capabilities_2::ATOMIC_ROUTING;
    /// LTR Mechanism Enable.
    fn ltr_enable = pcie_word(pcie::DEVICE_CONTROL_2) & device_control_2::LTR_ENABLE;
    /// Memory Space Enable.
    fn memory_enable = read(header::COMMAND_STATUS) & command::MEMORY_SPACE;
    /// I/O Space Enable.
    fn io_enable = read(header::COMMAND_STATUS) & command::IO_SPACE;
    /// Bus Master Enable.
    fn bus_master_enable = read(header::COMMAND_STATUS) & command::BUS_MASTER;
    /// SERR# Enable of Command.
    fn serr_enable = read(header::COMMAND_STATUS) & command::SERR_ENABLE;
    /// Interrupt Disable: INTx must not be asserted.
    fn interrupt_disable = read(header::COMMAND_STATUS) & command::INTERRUPT_DISABLE;
}

impl ConfigSpace {
    pub(crate) fn pcie_word(&self, at: u16) -> u32 {
        self.capabilities.pcie.map_or(0, |start| self.read(start + at))
    }

    /// Max_Payload_Size in force; 128 B without a PCI Express capability.
    pub fn mps(&self) -> Mps {
        pcie::mps(self.pcie_word(pcie::DEVICE_CONTROL), self.pcie_word(pcie::DEVICE_CAPABILITIES))
    }

    /// Max_Read_Request_Size in force; 512 B without a PCI Express capability.
    pub fn mrrs(&self) -> Mrrs {
        let control = self.capabilities.pcie.map(|start| self.read(start + pcie::DEVICE_CONTROL));
        let encoding = control.map(|control| get(control, device_control::MRRS) as u8);
        encoding.and_then(Mrrs::from_encoding).unwrap_or_default()
    }

    /// Read Completion Boundary of the root port above, from Link Control.
    pub fn rcb(&self) -> Rcb {
        let is_128 = self.pcie_word(pcie::LINK_CONTROL) & link_control::RCB_128 != 0;
        Rcb::new(if is_128 { 128 } else { 64 }).unwrap_or_default()
    }

    /// Attributes that the function may set in its requests; empty without a PCI Express capability.
    pub fn request_attributes(&self) -> Attributes {
        pcie::request_attributes(self.pcie_word(pcie::DEVICE_CONTROL), self.pcie_word(pcie::DEVICE_CONTROL_2))
    }

    /// Attributes that the function's completions may copy from their requests: ID-based Ordering only with IDO Completion
    /// Enable.
    pub fn completion_attributes(&self) -> Attributes {
        let ordered = self.pcie_word(pcie::DEVICE_CONTROL_2) & device_control_2::IDO_COMPLETION != 0;
        if ordered { Attributes::all() } else { Attributes::COMPLETED }
    }

    /// How long the function waits for a completion. In the default range of 50 us to 50 ms the timeout is `default`.
    /// In other ranges it is the upper end of the range in Device Control 2. `None` if the timeout is disabled.
    pub fn completion_timeout(&self, default: Duration) -> Option<Duration> {
        let control = self.pcie_word(pcie::DEVICE_CONTROL_2);
        let disabled = control & device_control_2::TIMEOUT_DISABLE != 0;
        (!disabled).then(|| pcie::timeout(control).unwrap_or(default))
    }

    /// AtomicOps that the function completes.
    pub fn atomics(&self) -> AtomicSupport {
        AtomicSupport::from_bits_truncate(self.pcie_word(pcie::DEVICE_CAPABILITIES_2))
    }

    /// Longest deferrable write that the function completes.
    pub fn deferrable_write(&self) -> Option<DeferrableLength> {
        pcie::deferrable_write(self.pcie_word(pcie::DEVICE_CAPABILITIES_2))
    }

    /// True for a Legacy PCI Express Endpoint.
    pub fn is_legacy(&self) -> bool {
        get(self.pcie_word(pcie::CAPABILITIES), capabilities::PORT_TYPE) == 1
    }

    /// ECRC Generation Enable.
    pub fn ecrc_generation(&self) -> bool {
        self.aer_word(aer::CONTROL).is_some_and(|c| c & aer::control::ECRC_GENERATION != 0)
    }

    /// ECRC Check Enable.
    pub fn ecrc_check(&self) -> bool {
        self.aer_word(aer::CONTROL).is_some_and(|c| c & aer::control::ECRC_CHECK != 0)
    }

    /// MSI settings; `None` if MSI is absent or disabled.
    pub fn msi(&self) -> Option<MsiConfig> {
        self.capabilities.msi?;
        msi::config(|dw| self.msi_word(dw))
    }

    /// Number of interrupt vectors of the function, the larger of MSI and MSI-X, whether or not software has granted or
    /// enabled them.
    pub fn interrupt_vectors(&self) -> u16 {
        let msi = self.capabilities.msi.map_or(0, |_| msi::capable(self.msi_word(0)));
        self.msix_layout().map_or(0, |msix| msix.vectors).max(msi)
    }

    /// Mask Bits of MSI: a set bit masks its vector. Zero without per-vector masking.
    pub fn msi_mask(&self) -> u32 {
        self.msi_masking().map_or(0, |(mask, _)| self.read(mask))
    }

    /// Pending Bits of MSI; zero without per-vector masking.
    pub fn msi_pending(&self) -> u32 {
        self.msi_masking().map_or(0, |(_, pending)| self.read(pending))
    }

    /// Sets Pending Bits of MSI: vectors that are pending while masked.
    pub fn set_msi_pending(&mut self, pending: u32) {
        if let Some((_, at)) = self.msi_masking() {
            self.set_bits(at, !0, pending);
        }
    }

    /// Layout of the MSI-X structures.
    pub fn msix_layout(&self) -> Option<MsixLayout> {
        self.capabilities.msix.map(|(_, layout)| layout)
    }

    /// MSI-X Message Control; disabled without the capability.
    pub fn msix(&self) -> MsixControl {
        let control = self.capabilities.msix.map_or(0, |(at, _)| self.read(at));
        MsixControl {
            enabled: control & msix::ENABLE != 0,
            function_mask: control & msix::FUNCTION_MASK != 0,
        }
    }

    /// Transactions Pending of Device Status.
    pub fn set_transactions_pending(&mut self, pending: bool) {
        let value = if pending { !0 } else { 0 };
        self.set_pcie_bits(pcie::DEVICE_CONTROL, device_control::TRANSACTIONS_PENDING, value);
    }

    /// Sets bits of a register of the PCI Express capability, as hardware does.
    pub(crate) fn set_pcie_bits(&mut self, dw: u16, mask: u32, value: u32) {
        if let Some(start) = self.capabilities.pcie {
            self.set_bits(start + dw, mask, value);
        }
    }

    /// Device/Port Type; `None` without a PCI Express capability.
    pub fn port_type(&self) -> Option<PortType> {
        self.capabilities.pcie?;
        PortType::decode(self.pcie_word(pcie::CAPABILITIES))
    }

    /// Interrupt Message Number: the vector for events of the slot and the root port.
    pub fn message_number(&self) -> u8 {
        get(self.pcie_word(pcie::CAPABILITIES), capabilities::MESSAGE_NUMBER) as u8
    }

    /// Sets Captured Slot Power Limit from a Set_Slot_Power_Limit message: value, and scale 0 to 3.
    pub fn set_slot_power_limit(&mut self, value: u8, scale: u8) {
        let limit = put(SLOT_POWER_LIMIT, u32::from(value) | u32::from(scale) << 8);
        self.set_pcie_bits(pcie::DEVICE_CAPABILITIES, SLOT_POWER_LIMIT, limit);
    }

    /// Slot Power Limit of the port's slot, value and scale, for its Set_Slot_Power_Limit message.
    pub fn slot_power_limit(&self) -> Option<(u8, u8)> {
        let limit = get(self.pcie_word(pcie::SLOT_CAPABILITIES), slot_capabilities::POWER_LIMIT);
        self.has_slot().then_some((limit as u8, (limit >> 8) as u8))
    }

    /// Sets Link Status: current rate and width, Data Link Layer Link Active, and Link Training.
    pub fn set_link_status(&mut self, rate: Rate, width: Width, active: bool, training: bool) {
        use link_control::{LINK_ACTIVE, SPEED, TRAINING, WIDTH};
        let reports = self.pcie_word(pcie::LINK_CAPABILITIES) & link_capabilities::LINK_ACTIVE_CAPABLE != 0;
        let bits = put(SPEED, rate.generation().into())
            | put(WIDTH, width.lanes().into())
            | those([(active && reports, LINK_ACTIVE), (training, TRAINING)]);
        self.set_pcie_bits(pcie::LINK_CONTROL, SPEED | WIDTH | TRAINING | LINK_ACTIVE, bits);
    }

    /// Records, for a port above a link, that the link enters or has left Recovery (by Retrain Link, or for a change of
    /// speed or width). When the link leaves Recovery, Link Bandwidth Management Status is set (`PCIe 5.0 §7.5.3.8`).
    pub fn set_link_training(&mut self, trains: bool) {
        use link_control::{BANDWIDTH_MANAGEMENT, TRAINING};
        let ended = self.link_training() && !trains;
        let bits = those([(trains, TRAINING), (ended, BANDWIDTH_MANAGEMENT)]);
        self.set_pcie_bits(pcie::LINK_CONTROL, TRAINING | bits, bits);
    }

    /// True if the interrupt of Link Bandwidth Management Status is due.
    pub fn link_bandwidth_interrupt(&self) -> bool {
        use link_control::{BANDWIDTH_MANAGEMENT, BANDWIDTH_MANAGEMENT_ENABLE};
        let both = BANDWIDTH_MANAGEMENT | BANDWIDTH_MANAGEMENT_ENABLE;
        self.pcie_word(pcie::LINK_CONTROL) & both == both
    }

    /// Target Link Speed: the highest rate for the link below; `None` if the register holds no valid rate (`PCIe 5.0
    /// §7.5.3.19`).
    pub fn target_link_speed(&self) -> Option<Rate> {
        let generation = get(self.pcie_word(pcie::LINK_CONTROL_2), pcie::link_control_2::TARGET_SPEED);
        Rate::from_generation(generation as u8)
    }

    /// Current state of the slot; `None` without a slot.
    pub fn slot(&self) -> Option<SlotState> {
        self.has_slot().then(|| SlotState::read(self.pcie_word(pcie::SLOT_CONTROL)))
    }

    /// Logs an event of the slot. Returns true if a hot-plug interrupt becomes due, so that a message must be sent
    /// (`PCIe 5.0 §6.7.3.4`). [`SlotState::interrupt`] is the level, which a write can also raise.
    pub fn set_slot_event(&mut self, event: SlotEvent) -> bool {
        let Some(before) = self.slot() else { return false };
        let Some(at) = self.capabilities.pcie.map(|s| usize::from(s + pcie::SLOT_CONTROL)) else {
            return false;
        };
        let (status, _, state, value) = event.bits();
        let has = self.registers[at].access.rw1c & status; // events of absent features are not logged
        self.registers[at].set(has, !0);
        self.registers[at].set(state, if value { !0 } else { 0 });
        !before.interrupt && self.slot().is_some_and(|s| s.interrupt)
    }

    /// True if the slot reports [`SlotEvent::CommandCompleted`] after each command.
    pub fn completes_slot_commands(&self) -> bool {
        let capabilities = self.pcie_word(pcie::SLOT_CAPABILITIES);
        self.has_slot() && capabilities & slot_capabilities::NO_COMMAND_COMPLETED == 0
    }

    /// Max End-End TLP Prefixes that the function accepts; 0 if End-End TLP Prefix Supported is clear (`PCIe 5.0
    /// §7.5.3.15`).
    pub fn end_end_prefixes(&self) -> u8 {
        pcie::end_end_prefixes(self.pcie_word(pcie::DEVICE_CAPABILITIES_2))
    }

    /// Bytes of the longest non-posted request with data that the function completes or, as a bridge, forwards. Its receive
    /// buffer must hold at least this much (`PCIe 5.0 Table 2-45`): 4 for configuration and I/O writes, 32 for AtomicOps of
    /// any size, 64 or 128 for deferrable writes.
    pub fn longest_non_posted(&self) -> u32 {
        let atomics = self.atomic_routing() || !self.atomics().is_empty();
        let deferrable = self.deferrable_write().map_or(0, DeferrableLength::bytes);
        deferrable.max(if atomics { 32 } else { 4 })
    }

    /// Handles a PM_PME message from `requester` in a root port: logs it in Root Status, or stores it until the logged
    /// message is cleared. One message is stored; further ones are lost (`PCIe 5.0 §6.1.6`). Returns true if an
    /// interrupt must be sent.
    pub fn root_pme(&mut self, requester: u16) -> bool {
        if self.port_type() != Some(PortType::RootPort) {
            return false;
        }
        if self.pcie_word(pcie::ROOT_STATUS) & root_status::PME_STATUS != 0 {
            self.pme_waiting.get_or_insert(requester);
            self.set_pcie_bits(pcie::ROOT_STATUS, root_status::PME_PENDING, !0);
            return false;
        }
        self.log_pme(requester);
        self.root_pme_interrupt()
    }

    /// True while a PME is logged and PME Interrupt Enable is set. This is the level of INTx. After a write, it also
    /// determines whether an MSI is sent.
    pub fn root_pme_interrupt(&self) -> bool {
        self.pcie_word(pcie::ROOT_STATUS) & root_status::PME_STATUS != 0
            && self.pcie_word(pcie::ROOT_CONTROL) & root_control::PME_INTERRUPT_ENABLE != 0
    }

    fn log_pme(&mut self, requester: u16) {
        self.set_pcie_bits(pcie::ROOT_STATUS, root_status::PME_REQUESTER_ID, requester.into());
        self.set_pcie_bits(pcie::ROOT_STATUS, root_status::PME_STATUS, !0);
    }

    /// Logs the waiting PME if a write has cleared the logged one.
    pub(crate) fn next_pme(&mut self) {
        if self.pcie_word(pcie::ROOT_STATUS) & root_status::PME_STATUS != 0 {
            return;
        }
        if let Some(requester) = self.pme_waiting.take() {
            self.set_pcie_bits(pcie::ROOT_STATUS, root_status::PME_PENDING, 0);
            self.log_pme(requester);
        }
    }

    fn pm_control(&self) -> u32 {
        self.capabilities.pm.map_or(0, |at| self.read(at + pm::CONTROL))
    }

    /// PowerState; D0 without a Power Management capability.
    pub fn power_state(&self) -> PowerState {
        pm::state(self.pm_control())
    }

    /// No_Soft_Reset: the function keeps its state from D3hot to D0. If clear, that transition is an internal reset
    /// ([`ResetScope::FunctionLevel`](crate::ResetScope::FunctionLevel)).
    pub fn no_soft_reset(&self) -> bool {
        self.capabilities.pm.is_none() || self.pm_control() & pm::NO_SOFT_RESET != 0
    }

    /// True if PME_Status and PME_En are both set. A PM_PME message is sent when this becomes true (`PCIe 5.0 §5.3.3`).
    pub fn pme_asserted(&self) -> bool {
        const BOTH: u32 = pm::PME_STATUS | pm::PME_ENABLE;
        self.pm_control() & BOTH == BOTH
    }

    /// Sets PME_Status: the function requests attention. Returns true if a PM_PME message must be sent: the status was clear
    /// and PME_En is set.
    pub fn set_pme(&mut self) -> bool {
        let Some(at) = self.capabilities.pm.map(|at| at + pm::CONTROL) else { return false };
        let register = &mut self.registers[usize::from(at)];
        let before = register.value;
        register.set(register.access.rw1c & pm::PME_STATUS, !0);
        before & pm::PME_STATUS == 0 && register.value & pm::PME_STATUS != 0 && before & pm::PME_ENABLE != 0
    }
}
