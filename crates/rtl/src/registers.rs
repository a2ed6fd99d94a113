// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registers of a function as software has set them. Read-only.

use config::ConfigSpace;
use tlp::Bdf;

/// Size of the configuration space that a design may read, in DW.
const REGISTERS: u16 = 1024;

#[derive(Default)]
pub(crate) struct Registers {
    pub(crate) id: u16,
    all: Vec<u32>,
    /// DW numbers of capabilities.
    pcie: u16,
    msi: Option<u16>,
    msix: Option<u16>,
    power: Option<u16>,
}

impl Registers {
    /// Copies the registers that software has set.
    pub(crate) fn follow(&mut self, id: Bdf, config: &ConfigSpace) {
        self.id = id.bits();
        self.all.clear();
        self.all.extend((0..REGISTERS).map(|register| config.read(register)));
        self.pcie = config.pcie_capability().unwrap_or(0);
        (self.msi, self.msix) = (config.msi_capability(), config.msix_capability());
        self.power = config.capability(0x01);
    }

    pub(crate) fn get(&self, register_dw: u32) -> u32 {
        self.all.get(register_dw as usize).copied().unwrap_or(0)
    }

    /// Returns a register at DW `dw` of the capability at DW `capability`.
    fn behind(&self, capability: u16, dw: u16) -> u32 {
        self.get(u32::from(capability + dw))
    }

    /// Returns Command and Status.
    pub(crate) fn command(&self) -> u32 {
        self.get(1)
    }

    /// Returns a register of the PCI Express capability.
    pub(crate) fn pcie(&self, dw: u16) -> u32 {
        self.behind(self.pcie, dw)
    }

    /// Returns PMCSR.
    pub(crate) fn power(&self) -> u32 {
        self.power.map_or(0, |at| self.behind(at, 1))
    }

    /// Returns Message Control of MSI.
    pub(crate) fn msi_control(&self) -> u32 {
        self.msi.map_or(0, |at| self.behind(at, 0) >> 16)
    }

    /// Returns Message Address of MSI: lower and upper half.
    pub(crate) fn msi_address(&self) -> [u32; 2] {
        let at = |dw| self.msi.map_or(0, |msi| self.behind(msi, dw));
        [at(1), if self.has_long_msi() { at(2) } else { 0 }]
    }

    /// Returns Message Data of MSI.
    pub(crate) fn msi_data(&self) -> u32 {
        let at = if self.has_long_msi() { 3 } else { 2 };
        self.msi.map_or(0, |msi| self.behind(msi, at) & 0xffff)
    }

    /// Returns 64 Bit Address Capable of MSI.
    fn has_long_msi(&self) -> bool {
        self.msi_control() >> 7 & 1 == 1
    }

    /// Returns the mask bits of MSI; 0 if the function has none.
    pub(crate) fn msi_mask(&self) -> u32 {
        let control = self.msi_control();
        let at = if self.has_long_msi() { 4 } else { 3 };
        self.msi.filter(|_| control >> 8 & 1 == 1).map_or(0, |msi| self.behind(msi, at))
    }

    /// Returns Message Control of MSI-X.
    pub(crate) fn msix_control(&self) -> u32 {
        self.msix.map_or(0, |at| self.behind(at, 0) >> 16)
    }

    /// Returns the number of MSI vectors, if MSI is enabled.
    pub(crate) fn msi_vectors(&self) -> Option<u16> {
        let control = self.msi_control();
        (control & 1 != 0).then(|| 1 << (control >> 4 & 0b111).min(5))
    }
}
