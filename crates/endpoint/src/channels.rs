// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual channels of a link's port, from the Virtual Channel capability of its function (`PCIe 5.0 §7.9.1`).

use config::{Arbitration, ConfigSpace};
use link::{ChannelResource, Channels, PhaseTable, VcArbitration, VcScheme};
use tlp::{TcSet, Vc};

/// Returns the channels that the registers of `space` set; `None` without the capability.
pub fn channels_of(space: &ConfigSpace) -> Option<Channels> {
    let all = (0..Vc::COUNT as u8).map_while(|index| space.virtual_channel(index));
    let resources: Vec<ChannelResource> = all
        .map(|state| ChannelResource {
            vc: Vc::from_bits(state.id),
            classes: TcSet::from_bits(state.tc_map),
            enabled: state.enabled,
        })
        .collect();
    let low_priority = low_priority(&resources, space.low_priority_channels().into())?;
    Some(Channels { arbitration: VcArbitration { low_priority, scheme: scheme(space) }, resources })
}

/// The last channel of the low-priority group: VC0 and the next `count` resources. `None` without resources.
fn low_priority(resources: &[ChannelResource], count: usize) -> Option<Vc> {
    if count + 1 >= resources.len() && count != 0 {
        return Some(Vc::from_bits(7));
    }
    resources.iter().take(count + 1).map(|resource| resource.vc).max()
}

fn scheme(space: &ConfigSpace) -> VcScheme {
    let phases: Vec<Vc> = space.vc_phases().iter().map(|id| Vc::from_bits(*id)).collect();
    match (space.vc_arbitration(), PhaseTable::new(&phases)) {
        (Arbitration::Weighted, Ok(table)) => VcScheme::Weighted(table),
        _ => VcScheme::RoundRobin,
    }
}
