// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Capabilities: one file each, with the drawing of its registers. Each lays itself out and reads itself back.

pub mod msi;
pub mod msix;
pub mod pcie;
pub mod pm;
pub mod ssid;
pub mod vendor;
