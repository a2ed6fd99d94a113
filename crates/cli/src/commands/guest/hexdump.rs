// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registers below a guest as text: what `lspci -F` reads.

use crate::commands::outside::Opened;
use lab::external::host::HostPlace;
use std::fmt::Write;

/// The domain that the driver of a VMD makes; the first one.
const DOMAIN: u32 = 0x10000;
const BUSES: u16 = 256;

/// All functions below the lab's host, each as a line with its name, and lines of 16 bytes.
pub(super) fn hexdump(opened: &mut Opened) -> String {
    let mut text = String::new();
    let Some(door) = opened.driver.door_named::<HostPlace>("host root") else { return text };
    for (function, registers) in lab::machine::config_spaces(&mut opened.driver, &door, BUSES) {
        let _ = writeln!(text, "{DOMAIN:x}:{function} riser");
        for (n, line) in registers.chunks(4).enumerate() {
            let _ = write!(text, "{:02x}:", 16 * n);
            for byte in line.iter().flat_map(|register| register.to_le_bytes()) {
                let _ = write!(text, " {byte:02x}");
            }
            text.push('\n');
        }
        text.push('\n');
    }
    text
}
