// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Status of the configuration space that the block shows to a design (PG054: cfg_*, fc_*, pl_*). Never changes a
//! register.

use crate::block::seven_series::Driven;
use crate::registers::Registers;
use crate::signals::Outputs;

/// L0 (PG054, pl_ltssm_state).
const L0: u32 = 0x16;
/// Credits that are shown to the design: many of every kind, because the link's real credits are not visible here.
const HEADERS: u32 = 0x7f;
const DATA: u32 = 0x3ff;

/// Drives the status outputs from the registers.
pub(crate) fn drive(registers: &Registers, outputs: &mut Outputs<'_>, lanes: u16) {
    let command = registers.command();
    let [device, link, device2] = [2, 4, 10].map(|at| registers.pcie(at));
    let power = registers.power();
    let msix = registers.msix_control();
    let msi = registers.msi_control();
    let id = u32::from(registers.id);
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
        (Driven::LinkWidth, width(link >> 16, lanes).trailing_zeros()),
        (Driven::InitialWidth, width(link >> 16, lanes).trailing_zeros() + 1),
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

/// Returns the number of active lanes from Link Status (`PCIe 5.0 §7.5.3.8`), or of the block's lanes while no lane is
/// active.
pub(crate) fn width(link_status: u32, lanes: u16) -> u32 {
    match link_status >> 4 & 0x3f {
        0 => lanes.into(),
        working => working,
    }
}
