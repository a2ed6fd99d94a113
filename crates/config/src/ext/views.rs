// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Access to extended capabilities: values for the function's owner, bits that hardware sets, and the effects of
//! software's writes on the space itself.

use super::acs::Acs;
use super::sriov::{SriovState, VfBarWindow};
use super::vc::{Arbitration, VcState};
use super::{acs, aer, ari, data_link_feature, dpc, resizable, secondary, sriov, vc};
use crate::cap::pcie::{self, device_control};
use crate::register::get;
use crate::space::{Capabilities, HeaderKind};
use crate::{ConfigSpace, ResetScope};

impl ConfigSpace {
    /// Returns a register of Advanced Error Reporting.
    pub(crate) fn aer_word(&self, at: u16) -> Option<u32> {
        self.aer_capability().map(|start| self.read(start + at))
    }

    /// True if Correctable Error Reporting Enable is set.
    pub(crate) fn reports_correctable(&self) -> bool {
        let control = self.pcie_word(pcie::DEVICE_CONTROL);
        control & device_control::CORRECTABLE_REPORTING != 0
    }

    /// The enabled Access Control Services; empty without the capability.
    pub fn access_control(&self) -> Acs {
        let control = self.extended_word(acs::ID, acs::CONTROL).unwrap_or(0);
        Acs::from_bits_truncate((control >> 16) as u16)
    }

    /// True if the Egress Control Vector blocks peer-to-peer requests to this port or function number (`§7.7.8.4`). It
    /// has an effect only while [`Acs::EGRESS_CONTROL`] is enabled.
    pub fn egress_blocked(&self, number: u8) -> bool {
        let size = match self.extended_word(acs::ID, acs::CONTROL) {
            Some(word) if word & u32::from(Acs::EGRESS_CONTROL.bits()) != 0 => {
                get(word, acs::control::VECTOR_SIZE) as u8
            }
            _ => return false,
        };
        let within = size == 0 || number < size;
        let word = self.extended_word(acs::ID, acs::EGRESS_VECTOR + u16::from(number / 32)).unwrap_or(0);
        within && word >> (number % 32) & 1 == 1
    }

    /// Next Function Number; `None` without Alternative Routing-ID Interpretation.
    pub fn next_function(&self) -> Option<u8> {
        Some(get(self.extended_word(ari::ID, ari::CAPABILITY)?, ari::NEXT_FUNCTION) as u8)
    }

    /// Single Root I/O Virtualization; `None` without it.
    pub fn sriov(&self) -> Option<SriovState> {
        let layout = self.capabilities.layouts.sriov.as_ref()?;
        let start = self.extended_capability(sriov::ID)?;
        Some(layout.state(|dw| self.read(start + dw)))
    }

    /// Window of VF BAR `index`, whether or not VF Enable and VF MSE are set; `None` if there is no such BAR.
    pub fn vf_bar(&self, index: u8) -> Option<VfBarWindow> {
        let layout = self.capabilities.layouts.sriov.as_ref()?;
        let start = self.extended_capability(sriov::ID)?;
        layout.window(index, |dw| self.read(start + dw))
    }

    /// Virtual channel resource `index`; `None` without it.
    pub fn virtual_channel(&self, index: u8) -> Option<VcState> {
        let (layout, start) = self.vc_layout()?;
        layout.state(index, |dw| self.read(start + dw))
    }

    /// Arbitration of the low-priority channels; [`Arbitration::Fixed`] without the capability.
    pub fn vc_arbitration(&self) -> Arbitration {
        self.vc_layout()
            .map_or(Arbitration::Fixed, |(layout, at)| layout.arbitration(self.read(at + vc::CONTROL)))
    }

    /// The VC IDs in the phases of the VC Arbitration Table, as last loaded; empty if there is no such table.
    pub fn vc_phases(&self) -> &[u8] {
        &self.capabilities.layouts.vc_phases
    }

    /// Low Priority Extended VC Count; 0 without the capability.
    pub fn low_priority_channels(&self) -> u8 {
        self.capabilities.layouts.vc.map_or(0, |layout| layout.low_priority)
    }

    /// The port in phase 0 to 31 of the Port Arbitration Table of channel `index`.
    pub fn port_phase(&self, index: u8, phase: u8) -> Option<u8> {
        let (layout, start) = self.vc_layout()?;
        layout.port_phase(index, phase, |dw| self.read(start + dw))
    }

    /// Sets VC Negotiation Pending of each resource. `pending` has a bit for each VC ID.
    pub fn set_negotiation_pending(&mut self, pending: u8) {
        let Some((&layout, start)) = self.vc_layout() else { return };
        for index in 0..layout.vcs {
            let channel = self.virtual_channel(index).filter(|channel| channel.enabled);
            let waits = channel.is_some_and(|channel| pending >> channel.id & 1 != 0);
            let at = start + vc::RESOURCE_STATUS + 3 * u16::from(index);
            self.set_bits(at, vc::resource_status::NEGOTIATION_PENDING, if waits { !0 } else { 0 });
        }
    }

    /// Sets the features that the port at the other end supports, from the Data Link Feature exchange; `None` if there
    /// was no exchange.
    pub fn set_remote_data_link_feature(&mut self, scaled_flow_control: Option<bool>) {
        let status = scaled_flow_control.map_or(0, |s| data_link_feature::REMOTE_VALID | u32::from(s));
        self.set_extended_bits(data_link_feature::ID, data_link_feature::STATUS, !0, status);
    }

    /// Sets a bit of Lane Error Status. No effect if the link has no such lane.
    pub fn set_lane_error(&mut self, lane: u8) {
        let at = self.extended_capability(secondary::ID).map(|start| start + secondary::LANE_ERROR_STATUS);
        if let Some(register) = at.and_then(|at| self.registers.get_mut(usize::from(at))) {
            register.set(1_u32.checked_shl(u32::from(lane)).unwrap_or(0) & register.access.rw1c, !0);
        }
    }

    fn vc_layout(&self) -> Option<(&vc::VcLayout, u16)> {
        Some((self.capabilities.layouts.vc.as_ref()?, self.extended_capability(vc::ID)?))
    }

    /// Updates the space after software changed bits of an extended capability, or wrote a trigger.
    pub(crate) fn follow_extended(&mut self, dw: u16, changed: u32) {
        let Some((id, start)) = self.capabilities.extended_at(dw) else { return };
        let at = dw - start;
        match id {
            aer::ID if matches!(at, aer::UNCORRECTABLE_STATUS | aer::CONTROL) => self.follow_aer(start),
            sriov::ID => self.follow_sriov(start),
            vc::ID => self.follow_vc(start, at, changed),
            dpc::ID => self.follow_dpc(at, changed),
            resizable::ID => self.follow_resizable(start, at),
            _ => {}
        }
    }

    fn follow_sriov(&mut self, start: u16) {
        if let Some(layout) = &self.capabilities.layouts.sriov {
            layout.follow(&mut self.registers[usize::from(start)..]);
        }
    }

    fn follow_vc(&mut self, start: u16, at: u16, changed: u32) {
        let Some(layout) = self.capabilities.layouts.vc else { return };
        layout.follow(&mut self.registers[usize::from(start)..], at, changed);
        if at == vc::CONTROL && changed & vc::control::LOAD_TABLE != 0 {
            self.load_vc_table();
        }
    }

    /// Takes the phases of the VC Arbitration Table from its registers.
    pub(crate) fn load_vc_table(&mut self) {
        if let Some((layout, start)) = self.vc_layout() {
            self.capabilities.layouts.vc_phases = layout.vc_phases(|dw| self.read(start + dw));
        }
    }

    /// Restores the control to the size in force if the new size is not supported.
    fn follow_resizable(&mut self, start: u16, at: u16) {
        if at < resizable::CONTROL || !at.is_multiple_of(2) {
            return;
        }
        let (capability, control) = (self.read(start + at - 1), self.read(start + at));
        let (index, size) = resizable::chosen(capability, control);
        if size.is_some_and(|size| self.set_bar_size(index, size)) {
            return;
        }
        if let Some(bar) = self.bar(index) {
            self.set_bits(start + at, !0, resizable::control_of(control, bar.size));
        }
    }

    /// Updates dependent registers after a reset.
    pub(crate) fn reset_extended(&mut self, scope: ResetScope) {
        self.dpc_signal = None;
        self.forget_errors(scope == ResetScope::Fundamental);
        // A Function Level Reset keeps the capability (`§6.6.2`).
        if scope != ResetScope::FunctionLevel {
            self.load_vc_table();
        }
        if let Some(start) = self.extended_capability(sriov::ID) {
            self.follow_sriov(start);
        }
        if let Some(start) = self.extended_capability(resizable::ID) {
            for i in 0..self.capabilities.layouts.resizable.len() as u16 {
                self.follow_resizable(start, resizable::CONTROL + 2 * i);
            }
        }
    }

    pub(crate) fn is_bridge(&self) -> bool {
        self.kind == HeaderKind::Type1
    }
}

impl Capabilities {
    /// The extended capability that contains this DW, and its first DW.
    fn extended_at(&self, dw: u16) -> Option<(u16, u16)> {
        self.extended.iter().copied().take_while(|&(_, start)| start <= dw).last()
    }
}
