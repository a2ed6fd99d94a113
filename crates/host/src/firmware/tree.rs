// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Enumerates a host, or rescans below one bridge: walks the tree, assigns addresses, sets up functions, enables them.

use super::Config;
use super::error::{FirmwareError, FirmwareErrorKind};
use super::host_map::{FixedPlace, HostMap};
use super::need::{Class, Need, RangeOwner};
use super::removed::{take_subtree, uppermost_gone};
use super::scan::Walk;
use super::settings::{self, Common};
use super::system::{Function, System};
use super::vectors::Vectors;
use super::windows::{Apertures, place};
use crate::cpu::Cpu;
use std::collections::BTreeMap;
use tlp::Bdf;

/// The first address beyond 32 bits.
const FOUR_GIB: u64 = 1 << 32;

/// Changes found by a rescan.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rescan {
    /// Removed functions, in their last state.
    pub removed: Vec<Function>,
    /// New functions.
    pub added: Vec<Bdf>,
}

/// Finds all functions of a host, depth first from `map.first_bus`. Assigns bus numbers and addresses, sets the functions up by
/// the policy, and enables them. All accesses are configuration requests, and memory writes into MSI-X tables. A device that is
/// removed during enumeration is left out.
///
/// # Errors
/// A line that names the function, and the bus numbers, addresses or vectors that it cannot have.
pub async fn enumerate_host(cpu: &Cpu, map: &HostMap) -> Result<System, FirmwareError> {
    let mut walk = Walk::whole(cpu, map);
    walk.run(map.first_bus, None).await?;
    let Walk { functions, mut needs, has_lost, .. } = walk;
    for fixed in &map.fixed {
        // A function that has disappeared needs no address.
        fix(&functions, &mut needs, fixed).or_else(|error| if has_lost { Ok(()) } else { Err(error) })?;
    }
    let apertures = Apertures { io: map.io, memory: map.mmio32, prefetchable: map.mmio64 };
    let placed = place_all(map, &functions, &needs, None, apertures)?;
    let common = settings::common(cpu, map, &functions).await?;
    let added: Vec<Bdf> = functions.keys().copied().collect();
    let mut system = System { map: map.clone(), functions, vectors: Vectors::new(map.vectors) };
    system.bring_up(cpu, &added, &placed, &common).await?;
    Ok(system)
}

/// Rescans below a port with a slot after a device was inserted or removed. Functions that are still there and set up are not
/// changed. New functions must fit into the bus numbers and windows of the port; see [`Policy`](super::Policy) for the reserve.
///
/// # Errors
/// As [`enumerate_host`]; also if `bridge` is not a root or downstream port that was found. Removed functions are then
/// no longer in `system`.
pub async fn rescan(cpu: &Cpu, system: &mut System, bridge: Bdf) -> Result<Rescan, FirmwareError> {
    let found = system.get(bridge).filter(|f| f.port_type().is_some_and(|p| p.is_above_link()));
    let port = found.cloned().ok_or_else(|| format!("function {bridge} is not a root or downstream port"))?;
    let buses = port.bridge.unwrap_or_default();
    if system.is_still_below(cpu, bridge).await {
        return Ok(Rescan::default());
    }
    let removed = system.forget_below(bridge);
    let mut walk = Walk::below(cpu, system, &port);
    walk.run(buses.secondary, Some(bridge)).await?;
    let Walk { mut functions, mut needs, .. } = walk;
    for fixed in &system.map.fixed {
        // A path that is elsewhere, or absent now, is not an error.
        let _ = fix(&functions, &mut needs, fixed);
    }
    let apertures = Apertures { io: buses.io, memory: buses.memory, prefetchable: buses.prefetchable };
    let placed = place_all(&system.map, &functions, &needs, Some(bridge), apertures)?;
    let mut added: Vec<Bdf> = functions.keys().copied().filter(|bdf| *bdf != bridge).collect();
    // Include the port: its ARI forwarding may have changed.
    system.functions.append(&mut functions);
    let common = settings::common_below(cpu, &system.map, &system.functions, &port, &added).await?;
    settings::apply(cpu, &system.map.policy, &mut system.functions, bridge, common).await?;
    let common = BTreeMap::from([(port.found.port, common)]);
    added.extend(system.bring_up(cpu, &added, &placed, &common).await?);
    added.retain(|bdf| system.functions.contains_key(bdf));
    Ok(Rescan { removed, added })
}

/// Places all needs. If not all slots can have their reserve, no slot has a reserve.
fn place_all(
    map: &HostMap,
    functions: &BTreeMap<Bdf, Function>,
    needs: &[Need],
    top: Option<Bdf>,
    apertures: Apertures,
) -> Result<Vec<Need>, FirmwareError> {
    let with_room = place(functions, needs, top, apertures, Some(&map.policy));
    with_room.or_else(|_| place(functions, needs, top, apertures, None))
}

/// Sets the fixed address of a need.
fn fix(
    functions: &BTreeMap<Bdf, Function>,
    needs: &mut [Need],
    fixed: &FixedPlace,
) -> Result<(), FirmwareError> {
    let FixedPlace { path, bar, address } = fixed;
    let told = |what: &str| {
        format!("path {path}, BAR {bar}: fixed address {address:#x}, but there is no such {what}")
    };
    let function = functions.values().find(|f| f.path == *path).ok_or_else(|| told("function"))?;
    let is = |n: &&mut Need| n.bdf == function.bdf() && n.seat == RangeOwner::Bar(*bar);
    let need = needs.iter_mut().find(is).ok_or_else(|| told("BAR"))?;
    need.fixed = Some(*address);
    if need.class != Class::Io {
        let above = need.is_64 && *address >= FOUR_GIB;
        need.class = if above { Class::Prefetchable } else { Class::Memory };
    }
    Ok(())
}

impl System {
    /// Programs and enables functions from the root downwards, so that each function can be reached. Returns the
    /// virtual functions that were enabled.
    async fn bring_up(
        &mut self,
        cpu: &Cpu,
        added: &[Bdf],
        placed: &[Need],
        common: &BTreeMap<usize, Common>,
    ) -> Result<Vec<Bdf>, FirmwareError> {
        for need in placed {
            let Some(function) = self.functions.get_mut(&need.bdf) else { continue };
            if let Err(error) = (Config { cpu, bdf: need.bdf }).program(function, need).await {
                self.survive(cpu, need.bdf, error, added).await?;
            }
        }
        for bdf in added {
            if let Err(error) = self.set_up(cpu, *bdf, common).await {
                self.survive(cpu, *bdf, error, added).await?;
            }
        }
        for bdf in added {
            if let Err(error) = self.give_interrupts(Config { cpu, bdf: *bdf }).await {
                self.survive(cpu, *bdf, error, added).await?;
            }
        }
        let vfs = self.enable_vfs(cpu, added).await?;
        for vf in &vfs {
            if let Err(error) = self.set_up_vf(Config { cpu, bdf: *vf }).await {
                self.survive(cpu, *vf, error, added).await?;
            }
        }
        Ok(vfs)
    }

    /// Drops a function that was removed or reset during enumeration, and everything below it. A function that has rejected a
    /// request but answers now may have been absent. In that case, if a slot above it is among those `added`, its hot-plug
    /// driver scans again.
    pub(super) async fn survive(
        &mut self,
        cpu: &Cpu,
        bdf: Bdf,
        error: FirmwareError,
        added: &[Bdf],
    ) -> Result<(), FirmwareError> {
        let Some(function) = self.functions.get(&bdf) else { return Ok(()) };
        // A virtual function has no Vendor ID of its own.
        let bdf = function.vf_of.unwrap_or(bdf);
        let above = self.functions.get(&bdf).and_then(|f| f.parent);
        let gone = uppermost_gone(cpu, &self.functions, bdf, above).await;
        let was_away = match error.kind {
            FirmwareErrorKind::Wrong => false,
            FirmwareErrorKind::Refused => self.above(bdf).any(|f| f.hot_plug() && added.contains(&f.bdf())),
            FirmwareErrorKind::TimedOut => true,
        };
        let top = gone.or(was_away.then_some(bdf)).ok_or(error)?;
        for function in take_subtree(&mut self.functions, top) {
            self.take_interrupts(&function);
        }
        Ok(())
    }

    /// The bridges above a function, the nearest first.
    fn above(&self, bdf: Bdf) -> impl Iterator<Item = &Function> {
        std::iter::successors(self.get(bdf), |f| self.get(f.parent?)).skip(1)
    }

    async fn set_up_vf(&mut self, config: Config<'_>) -> Result<(), FirmwareError> {
        if !self.functions.contains_key(&config.bdf) {
            return Ok(());
        }
        self.give_interrupts(config).await?;
        config.enable_vf().await
    }

    async fn set_up(
        &mut self,
        cpu: &Cpu,
        bdf: Bdf,
        common: &BTreeMap<usize, Common>,
    ) -> Result<(), FirmwareError> {
        let System { map, functions, .. } = self;
        let Some(function) = functions.get(&bdf) else { return Ok(()) };
        let config = Config { cpu, bdf };
        config.program_windows(function).await?;
        if let Some(common) = common.get(&function.found.port) {
            settings::apply(cpu, &map.policy, functions, bdf, *common).await?;
        }
        let Some(function) = functions.get(&bdf) else { return Ok(()) };
        config.enable(function, map.policy.error_reporting).await
    }

    /// True if device 0 directly below `bridge` is the device that was found before, with the same settings. A reset
    /// during or after setup would have cleared some of these settings. False if `bridge` was not found as a bridge, or
    /// if there was nothing below it.
    pub async fn is_still_below(&self, cpu: &Cpu, bridge: Bdf) -> bool {
        let Some(buses) = self.get(bridge).and_then(|f| f.bridge) else { return false };
        let bdf = Bdf::from_bits(u16::from(buses.secondary) << 8);
        let Some(before) = self.get(bdf) else { return false };
        let config = Config { cpu, bdf };
        let id = u32::from(before.found.device) << 16 | u32::from(before.found.vendor);
        config.answers().await == Some(id) && config.keeps(before).await.unwrap_or(false)
    }

    fn forget_below(&mut self, bridge: Bdf) -> Vec<Function> {
        let below: Vec<Bdf> = self.under(bridge).map(Function::bdf).collect();
        let removed: Vec<Function> = below.iter().filter_map(|bdf| self.functions.remove(bdf)).collect();
        for function in &removed {
            self.take_interrupts(function);
        }
        removed
    }
}
