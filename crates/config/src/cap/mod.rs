// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Capabilities below 100h, one file each with the table of its registers. Each module builds its registers
//! and decodes them.

pub mod msi;
pub mod msix;
pub mod pcie;
pub mod pm;
pub mod ssid;
pub mod vendor;

use crate::register::Structure;

/// Every capability below 100h, as tables.
pub const TABLES: [Structure; 6] =
    [pm::TABLE, msi::TABLE, vendor::TABLE, ssid::TABLE, pcie::TABLE, msix::TABLE];

/// Returns the structure of the capability `id`, if a table describes it.
pub fn capability(id: u8) -> Option<Structure> {
    TABLES.into_iter().find(|table| table.id == u16::from(id))
}
