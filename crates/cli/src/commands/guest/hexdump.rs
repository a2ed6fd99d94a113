// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registers below a guest as text: what `lspci -F` reads.

use crate::commands::lspci;
use lab::external::Driver;
use lab::external::host::{HostPlace, ROOT};
use tlp::Bdf;

/// The domain that the driver of a VMD makes; the first one.
const DOMAIN: u32 = 0x10000;
const BUSES: u16 = 256;

/// All functions below the lab's host, each as a line with its name, and lines of 16 bytes.
pub(super) fn hexdump(driver: &mut Driver) -> String {
    let Some(door) = driver.door_named::<HostPlace>(ROOT) else { return String::new() };
    let spaces = lab::machine::config_spaces(driver, &door, BUSES);
    let dump =
        |(function, space): &(Bdf, Vec<u8>)| lspci::hexdump(&format!("{DOMAIN:x}:{function} riser"), space);
    spaces.iter().map(dump).collect()
}
