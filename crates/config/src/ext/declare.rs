// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Methods of [`Builder`] that declare extended capabilities. `build` places them.

use super::aer::{AerLayout, AerRole};
use super::resizable::ResizableBar;
use super::sriov::SriovLayout;
use super::vc::VcLayout;
use super::{
    acs, aer, ari, ats, data_link_feature, dpc, l1ss, ltr, margining, pasid, physical_16, physical_32, pri,
    ptm, resizable, secondary, serial, sriov, vc, vendor,
};
use crate::build::{BuildError, Builder};
use crate::{
    AcsLayout, AtsLayout, Bar, DpcLayout, Identity, PasidLayout, PortType, PtmLayout, VsecLayout,
    space::HeaderKind,
};
use tlp::Rate;

/// Declarations that are needed after their registers are built.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layouts {
    pub(crate) aer: Option<AerLayout>,
    pub(crate) sriov: Option<SriovLayout>,
    pub(crate) vc: Option<VcLayout>,
    /// VC IDs of the VC Arbitration Table, as last loaded.
    pub(crate) vc_phases: Vec<u8>,
    pub(crate) resizable: Vec<ResizableBar>,
}

impl Layouts {
    pub(crate) const NONE: Layouts =
        Layouts { aer: None, sriov: None, vc: None, vc_phases: Vec::new(), resizable: Vec::new() };
}

impl Builder {
    /// Adds Advanced Error Reporting. The bits depend on the port type of the PCI Express capability. It has a TLP Prefix
    /// Log if the function supports End-End TLP Prefixes.
    pub fn advanced_error_reporting(mut self) -> Builder {
        self.layouts.aer = None;
        self.set_extended(&aer::TABLE, AerLayout::new(AerRole::Endpoint).registers())
    }

    /// Adds Advanced Error Reporting with this layout.
    pub fn advanced_error_reporting_with(mut self, layout: AerLayout) -> Builder {
        if !(1..=AerLayout::MAX_HEADERS).contains(&layout.headers) {
            return self.wrong(aer::ID, "recordable headers, expected 1 to 8");
        }
        self.layouts.aer = Some(layout);
        self.set_extended(&aer::TABLE, layout.registers())
    }

    /// Adds Access Control Services.
    pub fn access_control(self, layout: AcsLayout) -> Builder {
        if !layout.is_legal() {
            return self.wrong(acs::ID, "Egress Control Vector Size, expected 1 to 256 bits");
        }
        self.set_extended(&acs::TABLE, layout.registers())
    }

    /// Adds Alternative Routing-ID Interpretation. `next_function` is the device's next function number, 0 in the last
    /// function.
    pub fn alternative_routing(self, next_function: u8) -> Builder {
        self.set_extended(&ari::TABLE, ari::registers(next_function))
    }

    /// Adds Single Root I/O Virtualization.
    pub fn single_root_virtualization(mut self, layout: SriovLayout) -> Builder {
        if layout.total_vfs == 0 || layout.total_vfs > SriovLayout::MAX_VFS {
            return self.wrong(sriov::ID, "TotalVFs, expected 1 to 256");
        }
        if layout.page_sizes & 1 == 0 {
            return self.wrong(sriov::ID, "Supported Page Sizes: 4 KiB, bit 0, must be among them");
        }
        if layout.bad_bar().is_some() {
            return self.wrong(
                sriov::ID,
                "VF BAR, expected memory BARs of a power of two from 128 B; a 64-bit BAR takes two registers",
            );
        }
        self.layouts.sriov = Some(layout);
        self.set_extended(&sriov::TABLE, layout.registers())
    }

    /// Adds Address Translation Services.
    pub fn address_translation(self, layout: AtsLayout) -> Builder {
        if !(1..=32).contains(&layout.invalidate_queue_depth) {
            return self.wrong(ats::ID, "Invalidate Queue Depth, expected 1 to 32");
        }
        self.set_extended(&ats::TABLE, layout.registers())
    }

    /// Adds Page Request Interface with a capacity of `capacity` outstanding page requests.
    pub fn page_request(self, capacity: u32) -> Builder {
        self.set_extended(&pri::TABLE, pri::registers(capacity))
    }

    /// Adds Process Address Space ID.
    pub fn process_address_space(self, layout: PasidLayout) -> Builder {
        if layout.width > 20 {
            return self.wrong(pasid::ID, "Max PASID Width, expected 0 to 20 bits");
        }
        self.set_extended(&pasid::TABLE, layout.registers())
    }

    /// Adds Latency Tolerance Reporting.
    pub fn latency_tolerance(self) -> Builder {
        self.set_extended(&ltr::TABLE, ltr::registers())
    }

    /// Adds L1 PM Substates with all substates supported. `common_mode_restore_us` is Port Common_Mode_Restore_Time in
    /// us.
    pub fn l1_substates(self, common_mode_restore_us: u8) -> Builder {
        self.set_extended(&l1ss::TABLE, l1ss::registers(common_mode_restore_us))
    }

    /// Adds Downstream Port Containment.
    pub fn downstream_port_containment(self, layout: DpcLayout) -> Builder {
        self.set_extended(&dpc::TABLE, layout.registers())
    }

    /// Adds Precision Time Measurement.
    pub fn precision_time(self, layout: PtmLayout) -> Builder {
        self.set_extended(&ptm::TABLE, layout.registers())
    }

    /// Adds Virtual Channel.
    pub fn virtual_channels(mut self, layout: VcLayout) -> Builder {
        if !layout.is_legal() {
            return self.wrong(vc::ID, VcLayout::LEGAL);
        }
        self.layouts.vc = Some(layout);
        self.set_extended(&vc::TABLE, layout.registers())
    }

    /// Adds Device Serial Number, an IEEE EUI-64.
    pub fn serial_number(self, eui64: u64) -> Builder {
        self.set_extended(&serial::TABLE, serial::registers(eui64))
    }

    /// Adds a Vendor-Specific extended capability. A function may have several.
    pub fn vendor_specific_extended(self, layout: &VsecLayout) -> Builder {
        if layout.bytes() > 0xf00 || layout.revision > 15 {
            return self
                .wrong(vendor::ID, "invalid VSEC, expected up to 3840 bytes and a revision of 0 to 15");
        }
        self.add_extended(vendor::ID, vendor::TABLE.version, layout.registers())
    }

    /// Adds Resizable BAR for these BARs. Their initial sizes are the declared ones.
    pub fn resizable_bars(mut self, bars: &[ResizableBar]) -> Builder {
        self.layouts.resizable = bars.to_vec();
        let sizes: Vec<_> = bars.iter().map(|&bar| (bar, 1 << 20)).collect();
        self.set_extended(&resizable::TABLE, resizable::registers(&sizes))
    }

    /// Adds Data Link Feature. `remote` is whether the port at the other end supports Scaled Flow Control too, if
    /// features are exchanged.
    pub fn data_link_feature(self, scaled_flow_control: bool, remote: Option<bool>) -> Builder {
        let words = data_link_feature::registers(scaled_flow_control, remote);
        self.set_extended(&data_link_feature::TABLE, words)
    }

    /// Adds the capabilities that the link's rate and width require. The PCI Express capability must be declared before.
    ///
    /// - From 8 GT/s: Secondary PCI Express.
    /// - From 16 GT/s: Data Link Feature, Physical Layer 16.0 GT/s and Lane Margining.
    /// - From 32 GT/s: Physical Layer 32.0 GT/s.
    pub fn link_capabilities(mut self) -> Builder {
        let Some(pcie) = self.pcie else {
            return self.wrong(secondary::ID, "the PCI Express capability must be declared before it");
        };
        let lanes = pcie.width.lanes();
        if pcie.rate >= Rate::Gt8 {
            self =
                self.set_extended(&secondary::TABLE, secondary::registers(lanes, pcie.port.is_above_link()));
        }
        if pcie.rate >= Rate::Gt16 {
            let words = physical_16::registers(lanes, true);
            self = self
                .data_link_feature(true, None)
                .set_extended(&physical_16::TABLE, words)
                .set_extended(&margining::TABLE, margining::registers(lanes));
        }
        if pcie.rate >= Rate::Gt32 {
            let words = physical_32::registers(lanes, true);
            self = self.set_extended(&physical_32::TABLE, words);
        }
        self
    }

    /// Returns a builder for a VF (`PCIe 5.0 §9.3.4`). Vendor ID and Device ID read FFFFh, there are no BARs, Command
    /// has only Bus Master Enable, and registers of the PF read zero. `identity` gives Class Code, Revision ID and the
    /// subsystem, which must equal the PF's.
    pub const fn virtual_function(identity: Identity) -> Builder {
        Builder::new(identity, HeaderKind::Virtual)
    }

    /// Keeps the first illegal declaration as the error.
    fn wrong(mut self, id: u16, why: &'static str) -> Builder {
        self.fault = self.fault.or(Some(BuildError::Extended { id, why }));
        self
    }

    /// Adapts declarations to the other ones: the role of Advanced Error Reporting, and the sizes of resizable BARs.
    pub(crate) fn settle_extended(mut self) -> Result<Builder, BuildError> {
        if self.extended.iter().any(|e| e.id == aer::ID) {
            let layout = self.layouts.aer.unwrap_or_else(|| self.default_aer());
            self = self.advanced_error_reporting_with(layout);
        }
        if !self.layouts.resizable.is_empty() {
            let sizes = self.resizable_sizes()?;
            self = self.set_extended(&resizable::TABLE, resizable::registers(&sizes));
        }
        Ok(self)
    }

    fn default_aer(&self) -> AerLayout {
        let role = match self.pcie.map(|p| p.port) {
            Some(PortType::RootPort) => AerRole::RootPort,
            Some(PortType::Upstream) => AerRole::UpstreamPort,
            Some(PortType::Downstream) => AerRole::DownstreamPort,
            _ => AerRole::Endpoint,
        };
        let prefix_log = self.pcie.is_some_and(|p| p.end_end_prefixes > 0);
        let interrupt_message = self.pcie.map_or(0, |p| p.message_number);
        AerLayout { prefix_log, interrupt_message, ..AerLayout::new(role) }
    }

    fn resizable_sizes(&self) -> Result<Vec<(ResizableBar, u64)>, BuildError> {
        let wrong = |why| BuildError::Extended { id: resizable::ID, why };
        let declared = |index: u8| self.bars.iter().find(|(i, _)| *i == index).map(|(_, bar)| *bar);
        let mut sizes = Vec::new();
        for &resizable in &self.layouts.resizable {
            let bar: Bar = declared(resizable.index).ok_or(wrong("a resizable BAR is not declared"))?;
            let fits = |n: u32| Bar { size: 1 << (20 + n), ..bar }.size_is_legal();
            if !resizable.supports(bar.size) {
                return Err(wrong("a resizable BAR's declared size is not among its supported sizes"));
            }
            if !(0..44).all(|n| resizable.sizes >> n & 1 == 0 || fits(n)) || resizable.sizes >> 44 != 0 {
                return Err(wrong(
                    "a resizable BAR's sizes, expected 1 MiB to 2 GiB, to 8 EiB for a 64-bit BAR",
                ));
            }
            sizes.push((resizable, bar.size));
        }
        Ok(sizes)
    }
}
