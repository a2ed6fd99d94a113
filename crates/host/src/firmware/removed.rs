// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions that have been removed or reset while firmware was working.

use super::Config;
use super::registers::type1;
use super::system::Function;
use crate::cpu::Cpu;
use std::collections::BTreeMap;
use tlp::Bdf;

/// Returns the uppermost function that does not answer or was reset: `bdf`, or a bridge above it, of which `above` is the first.
/// Functions below it cannot be reached.
pub(super) async fn uppermost_gone(
    cpu: &Cpu,
    functions: &BTreeMap<Bdf, Function>,
    bdf: Bdf,
    above: Option<Bdf>,
) -> Option<Bdf> {
    let (mut gone, mut next) = (None, above);
    let mut bdf = bdf;
    while (Config { cpu, bdf }).answers().await.is_none() {
        gone = Some(bdf);
        let Some(bridge) = next else { return gone };
        bdf = bridge;
        next = functions.get(&bdf).and_then(|f| f.parent);
    }
    match functions.get(&bdf).filter(|_| gone.is_some()) {
        Some(bridge) if has_lost_its_buses(cpu, bridge).await => Some(bdf),
        _ => gone,
    }
}

/// Returns true if a bridge has lost its bus numbers. This alone makes the functions below it unreachable.
pub(super) async fn has_lost_its_buses(cpu: &Cpu, bridge: &Function) -> bool {
    let Some(buses) = bridge.bridge else { return false };
    let numbers = Config { cpu, bdf: bridge.bdf() }.read(type1::BUS_NUMBERS).await;
    // If the bridge does not answer, it was reset or removed too.
    !numbers.is_ok_and(|numbers| (numbers >> 8) as u8 == buses.secondary)
}

/// Removes a function and all functions below it from `functions`, and returns them.
pub(super) fn take_subtree(functions: &mut BTreeMap<Bdf, Function>, top: Bdf) -> Vec<Function> {
    let mut taken = BTreeMap::new();
    // A bridge has a lower ID than the functions below it, so one pass in order finds a whole tree.
    for (bdf, function) in functions.iter() {
        let is_below = function.parent.is_some_and(|above| taken.contains_key(&above));
        let is_virtual = function.vf_of.is_some_and(|pf| taken.contains_key(&pf));
        if *bdf == top || is_below || is_virtual {
            taken.insert(*bdf, function.clone());
        }
    }
    functions.retain(|bdf, _| !taken.contains_key(bdf));
    taken.into_values().collect()
}
