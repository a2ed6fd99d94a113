// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the block tells a design of its configuration space (PG054: cfg_*, fc_*, pl_*). Follows the registers; never changes them.

use crate::block::Driven;
use crate::signals::Outputs;
use config::ConfigSpace;
use tlp::Bdf;

/// DWs of configuration space that a design may read.
const REGISTERS: u16 = 1024;
/// L0 (PG054, pl_ltssm_state).
const L0: u32 = 0x16;
/// Credits are shown as plenty, in whatever kind: the link's own are not the design's to see here.
const HEADERS: u32 = 0x7f;
const DATA: u32 = 0x3ff;

#[derive(Default)]
pub(crate) struct Status {
    id: u16,
    registers: Vec<u32>,
    /// Capabilities, by their DW.
    pcie: u16,
    msi: Option<u16>,
    msix: Option<u16>,
    power: Option<u16>,
}

impl Status {
    /// Follows what software has set.
    pub(crate) fn follow(&mut self, id: Bdf, config: &ConfigSpace) {
        self.id = id.bits();
        self.registers.clear();
        self.registers.extend((0..REGISTERS).map(|register| config.read(register)));
        self.pcie = config.pcie_capability().unwrap_or(0);
        (self.msi, self.msix) = (config.msi_capability(), config.msix_capability());
        self.power = config.capability(0x01);
    }

    pub(crate) fn register(&self, register_dw: u32) -> u32 {
        self.registers.get(register_dw as usize).copied().unwrap_or(0)
    }

    /// A register of a capability, both by their DW.
    fn behind(&self, capability: u16, dw: u16) -> u32 {
        self.register(u32::from(capability + dw))
    }

    fn msi_control(&self) -> u32 {
        self.msi.map_or(0, |at| self.behind(at, 0) >> 16)
    }

    /// Vectors of MSI, where it is enabled.
    pub(crate) fn msi_vectors(&self) -> Option<u16> {
        let control = self.msi_control();
        (control & 1 != 0).then(|| 1 << (control >> 4 & 0b111).min(5))
    }

    pub(crate) fn drive(&self, outputs: &mut Outputs<'_>, lanes: u16) {
        let command = self.register(1);
        let [device, link, device2] = [2, 4, 10].map(|at| self.behind(self.pcie, at));
        let power = self.power.map_or(0, |at| self.behind(at, 1));
        let msix = self.msix.map_or(0, |at| self.behind(at, 0) >> 16);
        let msi = self.msi_control();
        let id = u32::from(self.id);
        for (port, value) in [
            (Driven::Command, command & 0xffff),
            (Driven::Status, command >> 16),
            (Driven::DeviceControl, device & 0xffff),
            (Driven::DeviceStatus, device >> 16),
            (Driven::DeviceControl2, device2 & 0xffff),
            (Driven::LinkControl, link & 0xffff),
            (Driven::LinkStatus, link >> 16),
            (Driven::PowerState, power & 0b11),
            (Driven::PmeEnable, power >> 8 & 1),
            (Driven::PmeStatus, power >> 15 & 1),
            (Driven::Bus, id >> 8),
            (Driven::Device, id >> 3 & 0x1f),
            (Driven::Function, id & 0b111),
            (Driven::MsiEnable, msi & 1),
            (Driven::MultipleMessages, msi >> 4 & 0b111),
            (Driven::MsixEnable, msix >> 15 & 1),
            (Driven::MsixMask, msix >> 14 & 1),
            (Driven::LinkRate, u32::from(link >> 16 & 0xf > 1)),
            (Driven::LinkWidth, lanes.trailing_zeros()),
            (Driven::InitialWidth, lanes.trailing_zeros() + 1),
            (Driven::Ltssm, L0),
            (Driven::PostedHeaders, HEADERS),
            (Driven::PostedData, DATA),
            (Driven::NonPostedHeaders, HEADERS),
            (Driven::NonPostedData, DATA),
            (Driven::CompletionHeaders, HEADERS),
            (Driven::CompletionData, DATA),
        ] {
            outputs.set(port, value);
        }
    }
}
