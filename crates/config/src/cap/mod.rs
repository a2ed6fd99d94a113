// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Capabilities: one file each, with the drawing of its registers. Each lays itself out and reads itself back.

pub mod aer;
pub mod msi;
pub mod msix;
pub mod pcie;
pub mod pm;

use crate::register::{Access, Register};

/// A register that software cannot change.
pub(crate) const fn ro(value: u32) -> Register {
    Register::new(value, Access { rw: 0, rw1c: 0, sticky: 0, kept_by_flr: 0 })
}

/// A register with writable bits `rw`.
pub(crate) const fn rw(value: u32, rw: u32) -> Register {
    Register::new(value, Access { rw, rw1c: 0, sticky: 0, kept_by_flr: 0 })
}
