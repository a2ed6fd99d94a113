// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registers below a guest as text: what `lspci -F` reads.

use config::lspci;
use session::external::Driver;
use session::external::host::HostPlace;
use tlp::Bdf;

/// The domain that the driver of a VMD makes; the first one.
const DOMAIN: u32 = 0x10000;
const BUSES: u16 = 256;

/// All functions below the lab's machines, each as a line with its name, and lines of 16 bytes. Each machine's are of a domain of
/// their own, from 10000 on.
pub(super) fn hexdump(driver: &mut Driver, places: &[String]) -> String {
    let mut text = String::new();
    for (domain, place) in (DOMAIN..).zip(places) {
        let Some(door) = driver.door_named::<HostPlace>(place) else { continue };
        let spaces = worlds::machine::config_spaces(driver, &door, BUSES);
        let dump = |(function, space): &(Bdf, Vec<u8>)| {
            lspci::hexdump(&format!("{domain:x}:{function} riser"), space)
        };
        text.extend(spaces.iter().map(dump));
    }
    text
}
