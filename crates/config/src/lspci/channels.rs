// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registers of the Virtual Channel capability, which repeat for each channel, and its tables (`PCIe 5.0 §7.9.1`).

use crate::ext::vc::{
    CAPABILITY_1, CAPABILITY_2, FIXED_IN_VC0, RESOURCE, RESOURCE_CONTROL, RESOURCE_STATUS, TABLE, TABLES,
    capability_1, capability_2,
};
use crate::register::{Attribute, Field, Word, get};

/// Phases of the tables that bits 1 to 5 of an arbitration capability offer.
const PHASES: [u16; 5] = [32, 64, 128, 128, 256];

/// A register at its place.
pub(super) struct Placed {
    /// DW from the capability's start.
    pub(super) dw: u16,
    pub(super) name: String,
    pub(super) fields: Vec<Field>,
}

/// Returns all registers of a capability with these DWs.
pub(super) fn registers(read: impl Fn(u16) -> u32) -> Vec<Placed> {
    let once = TABLE.words.iter().filter(|word| word.dw < RESOURCE);
    let mut all: Vec<Placed> = once.map(|word| placed(word, word.dw, word.name.to_owned())).collect();
    let channels = 0..=get(read(CAPABILITY_1), capability_1::EXTENDED_VCS) as u16;
    all.extend(channels.clone().flat_map(resource));
    all.extend(table("VC Arbitration Table", read(CAPABILITY_2), 4));
    let entry_bits = 1 << get(read(CAPABILITY_1), capability_1::TABLE_ENTRY_SIZE);
    for channel in channels {
        let name = format!("Port Arbitration Table ({channel})");
        all.extend(table(&name, read(RESOURCE + 3 * channel), entry_bits));
    }
    all
}

fn placed(word: &Word, dw: u16, name: String) -> Placed {
    Placed { dw, name, fields: word.fields.to_vec() }
}

/// The registers of a channel.
fn resource(channel: u16) -> impl Iterator<Item = Placed> {
    let words = TABLE.words.iter().filter(|word| (RESOURCE..=RESOURCE_STATUS).contains(&word.dw));
    words.map(move |word| {
        let mut register = placed(word, word.dw + 3 * channel, format!("{} ({channel})", word.name));
        if register.dw == RESOURCE_CONTROL {
            let fixed = register.fields.iter_mut().filter(|field| field.bits & FIXED_IN_VC0 != 0);
            fixed.for_each(|field| field.attribute = Attribute::Ro);
        }
        register
    })
}

/// The DWs of the table at the offset in an arbitration capability, if it has one. The table has room for the most phases that are offered.
fn table(name: &str, capability: u32, entry_bits: u16) -> impl Iterator<Item = Placed> {
    let start = get(capability, capability_2::TABLE_OFFSET) as u16 * 4;
    let offered = (1_u32..).zip(PHASES).filter(|&(bit, _)| start != 0 && capability >> bit & 1 == 1);
    let phases = offered.map(|(_, phases)| phases).max().unwrap_or(0);
    let fields = TABLE.fields(TABLES);
    (start..start + phases * entry_bits / 32).map(move |dw| Placed {
        dw,
        name: name.to_owned(),
        fields: fields.to_vec(),
    })
}
