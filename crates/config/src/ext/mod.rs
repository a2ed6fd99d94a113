// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Extended capabilities, from byte 100h. Each file has the table of the capability's registers and fields, and a
//! layout if a device author has a choice. [`Builder`](crate::Builder) places and chains them.

pub mod acs;
pub mod aer;
pub mod ari;
pub mod ats;
pub mod data_link_feature;
mod declare;
pub mod dpc;
pub mod l1ss;
pub mod ltr;
pub mod margining;
pub mod pasid;
pub mod physical_16;
pub mod physical_32;
pub mod pri;
pub mod ptm;
pub mod resizable;
pub mod secondary;
pub mod serial;
pub mod sriov;
pub mod vc;
pub mod vendor;
mod views;
pub(crate) mod virtual_function;

pub(crate) use declare::Layouts;

use crate::register::{Field, Register, Structure};

const NO_TRANSLATION: &str = "the host has no translation agent: functions use untranslated addresses";
const NO_EQUALIZATION: &str = "equalization is not modelled: links begin in L0";

/// Every extended capability, as tables.
pub const TABLES: [Structure; 20] = [
    aer::TABLE,
    vc::TABLE,
    serial::TABLE,
    vendor::TABLE,
    acs::TABLE,
    ari::TABLE,
    ats::TABLE,
    sriov::TABLE,
    pri::TABLE,
    resizable::TABLE,
    ltr::TABLE,
    secondary::TABLE,
    pasid::TABLE,
    dpc::TABLE,
    l1ss::TABLE,
    ptm::TABLE,
    data_link_feature::TABLE,
    physical_16::TABLE,
    margining::TABLE,
    physical_32::TABLE,
];

/// Returns the structure of the extended capability `id`, if a table describes it.
pub fn extended_capability(id: u16) -> Option<Structure> {
    TABLES.into_iter().find(|table| table.id == id)
}

/// Bits of the lanes that a link with this many lanes does not have.
fn beyond(lanes: u8) -> u32 {
    if lanes >= 32 { 0 } else { !0 << lanes }
}

/// Lane Equalization Control of 16 GT/s and more.
const LANE_PRESETS: &[Field] = &[Field::hwinit(!0, "Transmitter Presets of four lanes")];

/// Lane Equalization Control registers, one byte per lane: preset 7 for both ports.
fn lane_presets(lanes: u8) -> impl Iterator<Item = Register> {
    (0..lanes.div_ceil(4)).map(move |group| {
        let left = lanes - group * 4;
        let present = if left >= 4 { !0 } else { !(!0 << (u32::from(left) * 8)) };
        Register::of(LANE_PRESETS, 0x7777_7777 & present)
    })
}
