// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Boot data of a lab's simulated host: its components, and its firmware's policy.

use crate::schema::{Lab, Link, Slot};
use crate::tree::{HOT_PLUG_BUSES, Tree};
use crate::{faults, links};
use host::firmware::{EcrcPolicy, FixedPlace, HostMap, Path, Policy, VfPolicy, Window};
use host::os::{Component, Role};
use plug::plugged::RootComplexEnd;
use std::collections::BTreeMap;
use std::rc::Rc;
use tlp::{Bdf, Mrrs};

/// Nests components: components below a switch that may be removed are part of the switch. `slots` are the components of all
/// slots, in order.
pub(crate) fn arrange(lab: &Lab, tree: &Tree, slots: Vec<Component>) -> Vec<Rc<Component>> {
    let mut slots: Vec<Option<Component>> = slots.into_iter().map(Some).collect();
    arranged(lab, tree, &mut slots, None)
}

/// Components that are lost together with the switch on link `above`, without the components below a further switch of
/// this kind.
fn arranged(
    lab: &Lab,
    tree: &Tree,
    slots: &mut [Option<Component>],
    above: Option<usize>,
) -> Vec<Rc<Component>> {
    let mut components = Vec::new();
    for n in (0..tree.hot_plug.len()).filter(|&n| tree.is_simulated(n) && tree.lost_with(n) == above) {
        match n.checked_sub(slots.len()) {
            None => components.extend(slots[n].take().map(Rc::new)),
            Some(switch) if tree.hot_plug[n] => {
                let role = Role::Switch(arranged(lab, tree, slots, Some(n)));
                let name = lab.switch[switch].name.get_ref().clone();
                let (path, id) = (tree.port_path(n).below(0), Bdf::default());
                let hot_plug = Some(faults::last_event(lab, n));
                components.push(Rc::new(Component { name, path, id, role, hot_plug }));
            }
            Some(_) => {}
        }
    }
    components
}

/// The firmware's policy for the lab's simulated host and the slots below it.
pub(crate) fn host_map(lab: &Lab, tree: &Tree, paths: &[Path], ecrc: EcrcPolicy) -> HostMap {
    let slots = lab.slot.iter().zip(paths).enumerate();
    let own: Vec<(&Slot, &Path)> = slots.filter(|(n, _)| tree.is_simulated(*n)).map(|(_, own)| own).collect();
    let mrrs = |link: &Link| link.mrrs_bytes.map_or_else(Mrrs::default, |m| m.0);
    let mrrs_of = |(slot, path): &(&Slot, &Path)| {
        let path: Path = (*path).clone();
        (path, mrrs(&links::merge(&lab.link, &slot.link)))
    };
    let policy = Policy {
        mrrs: mrrs(&lab.link),
        hot_plug_buses: HOT_PLUG_BUSES,
        hot_plug_room: tree.hot_plug_room(),
        mrrs_of: own.iter().map(mrrs_of).collect(),
        vfs: vf_policy(&own),
        ecrc,
        ..Policy::default()
    };
    let fixed = own.iter().filter_map(|(slot, path)| fixed_place(slot, path)).collect();
    HostMap { fixed, policy, ..HostMap::default() }
}

/// The map of a host whose root complex is not riser's: device memory is where that root complex has its windows.
pub(crate) fn below_design(map: HostMap, end: &RootComplexEnd) -> HostMap {
    HostMap { mmio32: end.memory32, mmio64: end.memory64, io: Window { base: 0, size: 0 }, ..map }
}

/// The firmware's policy for a lab with a single slot on `link`.
pub(crate) fn host_map_of(link: &Link, ecrc: EcrcPolicy) -> HostMap {
    let mrrs = link.mrrs_bytes.map_or_else(Mrrs::default, |m| m.0);
    HostMap { policy: Policy { mrrs, ecrc, ..Policy::default() }, ..HostMap::default() }
}

fn fixed_place(slot: &Slot, path: &Path) -> Option<FixedPlace> {
    let bar = slot.needs().fixed_bar?;
    Some(FixedPlace { path: path.clone(), bar: bar.bar, address: bar.address })
}

/// The virtual functions that the host enables: all of every slot.
fn vf_policy(slots: &[(&Slot, &Path)]) -> VfPolicy {
    let of_slot = |(slot, path): &(&Slot, &Path)| {
        let vfs = slot.needs().virtual_functions;
        (vfs > 0).then(|| ((*path).clone(), vfs))
    };
    let all: BTreeMap<Path, u16> = slots.iter().filter_map(of_slot).collect();
    if all.is_empty() { VfPolicy::Off } else { VfPolicy::Listed(all) }
}
