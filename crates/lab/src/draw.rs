// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab as a picture in characters.

use crate::links;
use crate::schema::{Lab, Slot};
use fabric::AddressMap;
use std::fmt::Write;

/// Draws `lab`: a line for each slot, with its link and address windows.
#[must_use]
pub fn draw(lab: &Lab) -> String {
    let mut text = format!(
        "host {} ({} MiB low, {} MiB high), seed {}\n",
        lab.host.profile.get_ref(),
        lab.host.low_memory_mib.get_ref(),
        lab.host.high_memory_mib.get_ref(),
        lab.seed
    );
    for (n, slot) in lab.slot.iter().enumerate() {
        let last = n + 1 == lab.slot.len();
        line(&mut text, lab, slot, n, if last { '└' } else { '├' });
    }
    for fault in &lab.fault {
        let _ = writeln!(
            text,
            "fault on {}, {:?}: {:?} {:?}, number {}{}",
            fault.slot.get_ref(),
            fault.direction,
            fault.action,
            fault.frames,
            fault.nth.get_ref(),
            if fault.every == 0 { String::new() } else { format!(", then every {}", fault.every) },
        );
    }
    text.truncate(text.trim_end().len());
    text
}

fn line(text: &mut String, lab: &Lab, slot: &Slot, n: usize, corner: char) {
    let link = links::config(&lab.link, &slot.link);
    let window = AddressMap.mmio32(n);
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        " {corner}─ root port {n} ══ Gen{} {}, MPS {} ══ {}: {}   bus {:02x}, MMIO {:#x}..{:#x}",
        link.root.rate.generation(),
        link.root.width,
        link.root.mps,
        slot.name.get_ref(),
        slot.device.name(),
        AddressMap.bus(n),
        window.base,
        window.base + window.size - 1,
    );
}
