// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the simulated host does: firmware first, then all drivers side by side.

use crate::schema::{Lab, Link, Slot};
use crate::tree::HOT_PLUG_BUSES;
use crate::{gate, links, vf_models};
use device::Cpu;
use device::firmware::{self, FixedPlace, FoundFunction, HostMap, Path, Policy, System};
use std::pin::Pin;
use tlp::{Bdf, Mrrs};

/// A driver, to be given its function.
pub(crate) type Driver = Box<dyn FnOnce(Cpu, FoundFunction) -> DriverFuture>;

/// A driver, to be given its function and the virtual ones behind it, in their order.
pub(crate) type FunctionsDriver = Box<dyn FnOnce(Cpu, Vec<FoundFunction>) -> DriverFuture>;

/// What the host does for a device that no enumeration finds.
pub(crate) type HostTask = Box<dyn FnOnce(Cpu) -> DriverFuture>;

/// What the host does for a slot.
pub(crate) enum Task {
    /// Runs the driver of the function found there.
    Driver(Driver),
    /// Runs the driver of all functions found there.
    Functions(FunctionsDriver),
    /// Something else.
    Host(HostTask),
}

/// A driver that runs.
pub(crate) type DriverFuture = Pin<Box<dyn Future<Output = Result<(), String>>>>;

/// Where a slot is, and what the host does for it.
pub(crate) struct Seat {
    /// Of its function 0.
    pub(crate) path: Path,
    /// Its ID, where no enumeration finds it.
    pub(crate) id: Bdf,
    pub(crate) task: Task,
}

/// Enumerates, then runs the driver of each slot on the function found there, and starts the devices that no enumeration
/// finds.
pub(crate) async fn boot(cpu: Cpu, map: HostMap, seats: Vec<Seat>) -> Result<(), String> {
    let system = firmware::enumerate_host(&cpu, &map).await?;
    let mut running = Vec::new();
    for (slot, Seat { path, id, task }) in seats.into_iter().enumerate() {
        let future = match task {
            Task::Host(task) => {
                check_bus(&system, slot, &path, id)?;
                cpu.send_message(id, gate::start(id)).await.map_err(|e| format!("slot {slot}: {e}"))?;
                task(cpu.clone())
            }
            Task::Driver(driver) => {
                let function = system.at_path(&path);
                let function = function.ok_or_else(|| format!("slot {slot}: no function answers"))?;
                driver(cpu.clone(), function.found)
            }
            Task::Functions(driver) => {
                let function = system.at_path(&path);
                let function = function.ok_or_else(|| format!("slot {slot}: no function answers"))?;
                let virtual_ones = system.vfs_of(function.bdf()).map(|f| f.found);
                let all = std::iter::once(function.found).chain(virtual_ones).collect();
                driver(cpu.clone(), all)
            }
        };
        running.push(cpu.spawn(future));
    }
    for (slot, task) in running.into_iter().enumerate() {
        let result = task.await.map_err(|e| format!("slot {slot}: {e}"))?;
        result.map_err(|e| format!("slot {slot}: {e}"))?;
    }
    Ok(())
}

/// A device that takes no configuration requests was told its ID before.
fn check_bus(system: &System, slot: usize, path: &Path, id: Bdf) -> Result<(), String> {
    let port = Path(path.0[..path.0.len() - 1].to_vec());
    let bridge = system.at_path(&port).and_then(|f| f.bridge);
    match bridge.map(|b| b.secondary) {
        Some(bus) if bus == id.bus() => Ok(()),
        Some(bus) => Err(format!("slot {slot}: its bus is {bus:#04x}, but its device is {id}")),
        None => Err(format!("slot {slot}: no port leads to it")),
    }
}

/// The host as firmware finds it, for this lab.
pub(crate) fn host_map(lab: &Lab, paths: &[Path]) -> HostMap {
    let fixed = lab.slot.iter().zip(paths).filter_map(|(slot, path)| fixed_place(slot, path)).collect();
    let mrrs = |link: &Link| link.mrrs_bytes.map_or_else(Mrrs::default, |m| m.0);
    let own = |(slot, path): (&Slot, &Path)| (path.clone(), mrrs(&links::merge(&lab.link, &slot.link)));
    let policy = Policy {
        mrrs: mrrs(&lab.link),
        hot_plug_buses: HOT_PLUG_BUSES,
        mrrs_of: lab.slot.iter().zip(paths).map(own).collect(),
        vfs: vf_models::policy(lab, paths),
        ..Policy::default()
    };
    HostMap { fixed, policy, ..HostMap::default() }
}

/// The host of a lab of one slot on `link`.
pub(crate) fn host_map_of(link: &Link) -> HostMap {
    let mrrs = link.mrrs_bytes.map_or_else(Mrrs::default, |m| m.0);
    HostMap { policy: Policy { mrrs, ..Policy::default() }, ..HostMap::default() }
}

fn fixed_place(slot: &Slot, path: &Path) -> Option<FixedPlace> {
    let memory = slot.memory.as_ref().and_then(|m| Some((0, *m.address.as_ref()?.get_ref())));
    let nic = slot.simple_nic.as_ref().and_then(|n| Some((*n.bar.get_ref(), *n.address.as_ref()?.get_ref())));
    memory.or(nic).map(|(bar, address)| FixedPlace { path: path.clone(), bar, address })
}
