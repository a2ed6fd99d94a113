// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configuration spaces of a design's functions, as the vendor's tool writes them into the block.

use crate::block::BlockKind;
use crate::design::{Design, Function, Msix, Sriov};
use config::{Builder, ConfigSpace, Identity, MsiLayout, MsixLayout, PcieLayout, SriovLayout, VfNumbering};
use plug::Fault;

fn identity(function: &Function, device: u16) -> Identity {
    Identity {
        vendor: function.vendor_id,
        device,
        revision: function.revision,
        class: function.class,
        subsystem_vendor: function.subsystem_vendor_id,
        subsystem: function.subsystem_id,
    }
}

fn with_msix(builder: Builder, msix: Option<&Msix>) -> Builder {
    let Some(msix) = msix else { return builder };
    let (table, pending) = ((msix.bar, msix.table), (msix.bar, msix.pending));
    builder.msix(MsixLayout { vectors: msix.vectors, table, pending })
}

fn built(builder: Builder) -> Result<ConfigSpace, Fault> {
    builder.build().map_err(|e| Fault::at("design", format!("function: {e}")))
}

/// Returns the configuration spaces of the physical functions, in order.
///
/// # Errors
/// If a configuration space is invalid.
pub(crate) fn physical(design: &Design, pcie: PcieLayout) -> Result<Vec<ConfigSpace>, Fault> {
    (0..).zip(design.functions()).map(|(number, function)| one(design, pcie, number, function)).collect()
}

fn one(design: &Design, pcie: PcieLayout, number: u8, function: &Function) -> Result<ConfigSpace, Fault> {
    let count = design.functions().count();
    let mut builder = Builder::type0(identity(function, function.device_id));
    for bar in &function.bars {
        builder = bar.add_to(builder);
    }
    if function.intx {
        builder = builder.interrupt_pin(number + 1);
    }
    if function.msi_vectors > 0 {
        builder = builder.msi(MsiLayout { vectors: function.msi_vectors });
    }
    let pcie = PcieLayout { function_level_reset: function.function_level_reset, ..pcie };
    builder = with_msix(builder, function.msix.as_ref()).pcie(pcie).usual();
    if count > 1 {
        builder = builder.multi_function();
    }
    if count > 1 || function.sriov.is_some() {
        let next = usize::from(number) + 1;
        builder = builder.alternative_routing(if next < count { next as u8 } else { 0 });
    }
    if let Some(sriov) = &function.sriov {
        builder = builder.single_root_virtualization(virtualization(design, number, sriov));
    }
    built(builder)
}

/// Returns the SR-IOV layout. Virtual functions have the IDs that match their numbers in descriptors.
fn virtualization(design: &Design, number: u8, sriov: &Sriov) -> SriovLayout {
    let first = if design.block.kind == BlockKind::UltraScalePlus { 4 } else { 64 };
    let before: u16 = design.virtual_functions().iter().take(number.into()).sum();

    let numbering = |first_offset: u16| VfNumbering { first_offset, stride: 1 };
    let mut layout = SriovLayout {
        ari: numbering(first + before - u16::from(number)),
        without_ari: numbering(0x100 + before - u16::from(number)),
        dependency_link: number,
        ..SriovLayout::new(sriov.vfs, sriov.device_id)
    };
    for bar in &sriov.bars {
        layout = layout.bar(bar.bar, bar.layout());
    }
    layout
}

/// Returns the configuration spaces of the virtual functions, each with the number of its physical function.
///
/// # Errors
/// If a configuration space is invalid.
pub(crate) fn virtual_ones(design: &Design, pcie: PcieLayout) -> Result<Vec<(u16, ConfigSpace)>, Fault> {
    let mut all = Vec::new();
    for (number, function) in (0..).zip(design.functions()) {
        let Some(sriov) = &function.sriov else { continue };
        let builder = Builder::virtual_function(identity(function, sriov.device_id)).pcie(pcie);
        let builder = with_msix(builder, sriov.msix.as_ref()).advanced_error_reporting();
        all.push((number, built(builder.alternative_routing(0))?));
    }
    Ok(all)
}
