// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the simulated host does: firmware first, then all drivers side by side.

use crate::hotplug::{Hierarchy, HotPlug, Plan};
use crate::schema::{Lab, Link, Slot};
use crate::slot_port::SlotPort;
use crate::tree::HOT_PLUG_BUSES;
use crate::{gate, hotplug, links, vf_models};
use device::Cpu;
use device::cpu::JoinHandle;
use device::firmware::{self, FixedPlace, FoundFunction, Function, HostMap, Path, Policy, System};
use std::pin::Pin;
use std::rc::Rc;
use tlp::{Bdf, Mrrs};

/// A driver, to be given its function; started again where the function comes again.
pub(crate) type Driver = Box<dyn Fn(Cpu, FoundFunction) -> DriverFuture>;

/// A driver, to be given its function and the virtual ones behind it, in their order.
pub(crate) type FunctionsDriver = Box<dyn Fn(Cpu, Vec<FoundFunction>) -> DriverFuture>;

/// What the host does for a device that no enumeration finds.
pub(crate) type HostTask = Box<dyn Fn(Cpu) -> DriverFuture>;

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
    /// The slot's name.
    pub(crate) name: String,
    /// Of its function 0.
    pub(crate) path: Path,
    /// Its ID, where no enumeration finds it.
    pub(crate) id: Bdf,
    pub(crate) task: Task,
    /// Where the slot is hot-plug capable.
    pub(crate) hot_plug: Option<Plan>,
}

impl Seat {
    /// The driver of what enumeration has found there.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) async fn start(&self, cpu: &Cpu, system: &System) -> Result<DriverFuture, String> {
        let function = || system.at_path(&self.path).ok_or_else(|| "no function answers".to_owned());
        Ok(match &self.task {
            Task::Host(task) => {
                self.check_bus(system)?;
                cpu.send_message(self.id, gate::start(self.id)).await.map_err(|e| e.to_string())?;
                task(cpu.clone())
            }
            Task::Driver(driver) => driver(cpu.clone(), function()?.found),
            Task::Functions(driver) => {
                let function = function()?;
                let virtual_ones = system.vfs_of(function.bdf()).map(|f| f.found);
                let all = std::iter::once(function.found).chain(virtual_ones).collect();
                driver(cpu.clone(), all)
            }
        })
    }

    /// The port above.
    fn port(&self) -> Path {
        Path(self.path.0[..self.path.0.len().saturating_sub(1)].to_vec())
    }

    /// A device that takes no configuration requests was told its ID before.
    fn check_bus(&self, system: &System) -> Result<(), String> {
        let bridge = system.at_path(&self.port()).and_then(|f| f.bridge);
        match bridge.map(|b| b.secondary) {
            Some(bus) if bus == self.id.bus() => Ok(()),
            Some(bus) => Err(format!("its bus is {bus:#04x}, but its device is {}", self.id)),
            None => Err("no port leads to it".to_owned()),
        }
    }
}

/// Enumerates, then runs the driver of each slot on the function found there, starts the devices that no enumeration
/// finds, and serves the slots that are hot-plug capable.
pub(crate) async fn boot(cpu: Cpu, map: HostMap, seats: Vec<Seat>, log: hotplug::Log) -> Result<(), String> {
    let system = firmware::enumerate_host(&cpu, &map).await?;
    if seats.iter().any(|seat| seat.hot_plug.is_some()) {
        return boot_with_hot_plug(cpu, system, seats, log).await;
    }
    let mut running = Vec::new();
    for seat in &seats {
        running.push(cpu.spawn(started(seat.start(&cpu, &system).await)));
    }
    wait_for(running).await
}

/// A slot whose driver cannot start fails by itself; the others go on.
fn started(driver: Result<DriverFuture, String>) -> DriverFuture {
    driver.unwrap_or_else(|error| Box::pin(async move { Err(error) }))
}

async fn wait_for(running: Vec<JoinHandle<Result<(), String>>>) -> Result<(), String> {
    for (slot, task) in running.into_iter().enumerate() {
        let result = task.await.map_err(|e| format!("slot {slot}: {e}"))?;
        result.map_err(|e| format!("slot {slot}: {e}"))?;
    }
    Ok(())
}

/// The same where slots are hot-plug capable: what is not there yet is no error, and what is found may change.
async fn boot_with_hot_plug(
    cpu: Cpu,
    system: System,
    seats: Vec<Seat>,
    log: hotplug::Log,
) -> Result<(), String> {
    serve_root_errors(&cpu, &system, &seats, &log);
    let found = system.clone();
    let hierarchy = Rc::new(Hierarchy::new(system));
    let mut running = Vec::new();
    for (slot, seat) in seats.into_iter().enumerate() {
        let fail = |e: String| format!("slot {slot}: {e}");
        let Some(plan) = seat.hot_plug else {
            running.push(cpu.spawn(started(seat.start(&cpu, &found).await)));
            continue;
        };
        let port = found.at_path(&seat.port()).ok_or_else(|| fail("no port leads to it".to_owned()))?;
        let driver = if is_occupied(&cpu, &seat, &found, port).await.map_err(fail)? {
            Some(seat.start(&cpu, &found).await.map_err(fail)?)
        } else {
            None
        };
        let driver = HotPlug::new(&cpu, &hierarchy, (seat, plan), port, &log, driver).map_err(fail)?;
        running.push(cpu.spawn(driver.run()));
    }
    wait_for(running).await
}

/// Whether there is something to drive: a function, or behind a link that is up something that has none.
async fn is_occupied(cpu: &Cpu, seat: &Seat, system: &System, port: &Function) -> Result<bool, String> {
    match seat.task {
        Task::Host(_) => Ok(SlotPort::new(cpu, port)?.look().await?.link_active),
        Task::Driver(_) | Task::Functions(_) => Ok(system.at_path(&seat.path).is_some()),
    }
}

/// Root ports without a slot that is served look after the errors below them.
fn serve_root_errors(cpu: &Cpu, system: &System, seats: &[Seat], log: &hotplug::Log) {
    let served: Vec<Path> = seats.iter().filter(|s| s.hot_plug.is_some()).map(Seat::port).collect();
    for port in system.functions().filter(|f| f.parent.is_none() && !served.contains(&f.path)) {
        let name = format!("root port {}", port.bdf());
        cpu.spawn(hotplug::serve_errors(cpu.clone(), port.clone(), name, log.clone()));
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
