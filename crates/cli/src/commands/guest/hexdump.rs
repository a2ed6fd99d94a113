// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registers below a guest as text: what `lspci -F` reads.

use crate::commands::lspci;
use crate::commands::outside::Opened;
use lab::external::host::{HostPlace, ROOT};
use tlp::Bdf;

/// The domain that the driver of a VMD makes; the first one.
const DOMAIN: u32 = 0x10000;
const BUSES: u16 = 256;

/// All functions below the lab's host, each as a line with its name, and lines of 16 bytes.
pub(super) fn hexdump(opened: &mut Opened) -> String {
    let Some(door) = opened.driver.door_named::<HostPlace>(ROOT) else { return String::new() };
    let spaces = lab::machine::config_spaces(&mut opened.driver, &door, BUSES);
    let dump =
        |(function, space): &(Bdf, Vec<u8>)| lspci::hexdump(&format!("{DOMAIN:x}:{function} riser"), space);
    spaces.iter().map(dump).collect()
}
