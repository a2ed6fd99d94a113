// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the simulated host does: firmware first, then all drivers side by side.

use crate::fate::{Fate, Loss};
use crate::hotplug::{HotPlug, Plan};
use crate::schema::{Lab, Link, Slot};
use crate::services::{Services, Terms};
use crate::slot_port::SlotPort;
use crate::tree::{HOT_PLUG_BUSES, Tree};
use crate::{faults, gate, links};
use host::Cpu;
use host::cpu::{Either, JoinHandle, select};
use host::firmware::{self, FixedPlace, Function, HostMap, Path, Policy, System, VfPolicy};
use plug::{DriverFuture, Task};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tlp::{Bdf, Mrrs};

/// What the host does for a seat.
pub(crate) enum Work {
    /// What the model in the slot there asks for.
    Task(Task),
    /// Serves what stands below the switch there, and is lost with it.
    Below(Vec<Rc<Seat>>),
}

/// Where a slot is, and what the host does for it; or a switch whose port above is hot-plug capable.
pub(crate) struct Seat {
    /// The slot's or switch's name.
    pub(crate) name: String,
    /// Of its function 0.
    pub(crate) path: Path,
    /// Its ID, where no enumeration finds it.
    pub(crate) id: Bdf,
    pub(crate) work: Work,
    /// Where the slot is hot-plug capable.
    pub(crate) hot_plug: Option<Plan>,
}

impl Seat {
    /// The driver of what enumeration has found there.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) async fn start(&self, host: &Rc<Services>, system: &System) -> Result<DriverFuture, String> {
        let cpu = &host.cpu;
        let function = || system.at_path(&self.path).ok_or_else(|| "no function answers".to_owned());
        Ok(match &self.work {
            Work::Task(Task::Host(task)) => {
                self.check_bus(system)?;
                cpu.send_message(self.id, gate::start(self.id)).await;
                task(cpu.clone())
            }
            Work::Task(Task::Driver(driver)) => driver(cpu.clone(), function()?.found),
            Work::Task(Task::Functions(driver)) => {
                let function = function()?;
                let virtual_ones = system.vfs_of(function.bdf()).map(|f| f.found);
                let all = std::iter::once(function.found).chain(virtual_ones).collect();
                driver(cpu.clone(), all)
            }
            Work::Below(seats) => {
                function()?;
                Box::pin(Below::start(host, seats, system).ended())
            }
        })
    }

    /// The port above.
    pub(crate) fn port(&self) -> Path {
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

    /// This seat, and all below its switch.
    fn all(&self) -> Vec<&Seat> {
        let below: &[Rc<Seat>] = if let Work::Below(seats) = &self.work { seats } else { &[] };
        std::iter::once(self).chain(below.iter().flat_map(|seat| seat.all())).collect()
    }
}

/// The seats below one switch or the root complex, each served by a task of its own.
pub(crate) struct Below {
    running: Vec<JoinHandle<()>>,
    stopped: Fate,
}

impl Below {
    fn start(host: &Rc<Services>, seats: &[Rc<Seat>], system: &System) -> Below {
        let (stopped, found) = (Fate::default(), Rc::new(system.clone()));
        let task = |seat: &Rc<Seat>| {
            let fate = Fate::default();
            host.enter(seat, &fate);
            let (host, seat, found) = (Rc::clone(host), Rc::clone(seat), Rc::clone(&found));
            let stopped = stopped.clone();
            let cpu = host.cpu.clone();
            cpu.spawn(async move {
                host.act_for(&seat);
                // Where the whole is dropped, each part of it is.
                select(stopped.lost(), serve(host, seat, fate, found)).await;
            })
        };
        Below { running: seats.iter().map(task).collect(), stopped }
    }

    async fn ended(mut self) -> Result<(), String> {
        for task in std::mem::take(&mut self.running) {
            task.await.map_err(|e| e.to_string())?;
        }
        Ok(())
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        self.stopped.tell(Loss::ForNow);
    }
}

/// Serves a seat until there is nothing more to do for it; a failure is kept for the end of the run.
async fn serve(host: Rc<Services>, seat: Rc<Seat>, fate: Fate, found: Rc<System>) {
    let served = match seat.hot_plug {
        Some(plan) => HotPlug::serve(&host, &seat, plan, &fate, &found).await,
        None => serve_driver(&host, &seat, &fate, &found).await,
    };
    if let Err(error) = served {
        host.fail(&seat, &error).await;
    }
}

/// Runs the driver of a slot that is not hot-plug capable, while what is above it is there.
async fn serve_driver(host: &Rc<Services>, seat: &Seat, fate: &Fate, found: &System) -> Result<(), String> {
    let started = match seat.start(host, found).await {
        Ok(driver) if is_as_found(host, seat, found).await => Ok(driver),
        Ok(_) => Err("its link went down while the host enumerated".to_owned()),
        Err(error) => Err(error),
    };
    let result = match started {
        Err(error) => Err(error),
        Ok(mut driver) => match select(fate.lost(), &mut driver).await {
            Either::Right(result) => result,
            Either::Left(_) => match select(driver, host.cpu.sleep(host.terms.drain)).await {
                Either::Left(result) => result,
                Either::Right(()) => Err("its driver is stopped".to_owned()),
            },
        },
    };
    let Err(error) = result else { return Ok(()) };
    match fate.soon(&host.cpu, host.terms.drain).await {
        None => return Err(error),
        Some(Loss::ForGood(why)) => host.fail_as_told(seat, &format!("{error}: {why}")),
        Some(Loss::ForNow) => host.note(&seat.name, format!("gone with what is above it: {error}")),
    }
    Ok(())
}

/// True if the device of a seat is still as enumeration left it; always true for a device that no enumeration finds.
pub(crate) async fn is_as_found(host: &Services, seat: &Seat, found: &System) -> bool {
    let found_there = found.at_path(&seat.path).is_some();
    let Some(port) = found.at_path(&seat.port()).filter(|_| found_there) else { return true };
    found.is_still_below(&host.cpu, port.bdf()).await
}

/// Enumerates, then runs the driver of each slot on the function found there, starts the devices that no enumeration
/// finds, and serves the slots that are hot-plug capable. A slot that fails ends by itself: the run goes on until all have
/// ended, and fails then.
pub(crate) async fn boot(cpu: Cpu, map: HostMap, seats: Vec<Rc<Seat>>, terms: Terms) -> Result<(), String> {
    let system = firmware::enumerate_host(&cpu, &map).await?;
    let all = seats.iter().flat_map(|seat| seat.all());
    let served: BTreeSet<Path> = all.filter(|s| s.hot_plug.is_some()).map(Seat::port).collect();
    let host = Rc::new(Services::new(&cpu, system.clone(), terms, served));
    if host.listens() {
        host.watch_errors().await;
        Below::start(&host, &seats, &system).ended().await?;
    } else {
        run_drivers(&host, &seats, &system).await?;
    }
    host.outcome()
}

/// Runs the drivers of a lab whose links stay up, so that no task has to listen to its ports.
async fn run_drivers(host: &Rc<Services>, seats: &[Rc<Seat>], system: &System) -> Result<(), String> {
    let mut running = Vec::new();
    for seat in seats {
        let driver = seat.start(host, system).await;
        let (host, seat) = (Rc::clone(host), Rc::clone(seat));
        let cpu = host.cpu.clone();
        running.push(cpu.spawn(async move {
            host.act_for(&seat);
            let result = match driver {
                Ok(driver) => driver.await,
                Err(error) => Err(error),
            };
            if let Err(error) = result {
                host.fail(&seat, &error).await;
            }
        }));
    }
    for task in running {
        task.await.map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// Nests seats: those below a switch that may come and go stand below its seat. `slots` are the seats of all slots, in order.
pub(crate) fn arrange(lab: &Lab, tree: &Tree, slots: Vec<Seat>) -> Vec<Rc<Seat>> {
    let mut slots: Vec<Option<Seat>> = slots.into_iter().map(Some).collect();
    arranged(lab, tree, &mut slots, None)
}

/// The seats that are lost with the switch on link `above` and with no switch between it and them.
fn arranged(lab: &Lab, tree: &Tree, slots: &mut [Option<Seat>], above: Option<usize>) -> Vec<Rc<Seat>> {
    let mut seats = Vec::new();
    for n in (0..tree.hot_plug.len()).filter(|&n| tree.is_simulated(n) && tree.lost_with(n) == above) {
        match n.checked_sub(slots.len()) {
            None => seats.extend(slots[n].take().map(Rc::new)),
            Some(switch) if tree.hot_plug[n] => {
                let work = Work::Below(arranged(lab, tree, slots, Some(n)));
                let name = lab.switch[switch].name.get_ref().clone();
                let (path, id) = (tree.port_path(n).below(0), Bdf::default());
                let hot_plug = Some(faults::plan(lab, n));
                seats.push(Rc::new(Seat { name, path, id, work, hot_plug }));
            }
            Some(_) => {}
        }
    }
    seats
}

/// True if there is something to drive: a function, or a link that is up to a device that has none.
pub(crate) async fn is_occupied(
    cpu: &Cpu,
    seat: &Seat,
    system: &System,
    port: &Function,
) -> Result<bool, String> {
    match seat.work {
        Work::Task(Task::Host(_)) => Ok(SlotPort::new(cpu, port)?.look().await?.link_active),
        _ => Ok(system.at_path(&seat.path).is_some()),
    }
}

/// What firmware is told of the simulated host of this lab and of the slots below it.
pub(crate) fn host_map(lab: &Lab, tree: &Tree, paths: &[Path]) -> HostMap {
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
        ..Policy::default()
    };
    let fixed = own.iter().filter_map(|(slot, path)| fixed_place(slot, path)).collect();
    HostMap { fixed, policy, ..HostMap::default() }
}

/// The host of a lab of one slot on `link`.
pub(crate) fn host_map_of(link: &Link) -> HostMap {
    let mrrs = link.mrrs_bytes.map_or_else(Mrrs::default, |m| m.0);
    HostMap { policy: Policy { mrrs, ..Policy::default() }, ..HostMap::default() }
}

fn fixed_place(slot: &Slot, path: &Path) -> Option<FixedPlace> {
    let bar = slot.needs().fixed_bar?;
    Some(FixedPlace { path: path.clone(), bar: bar.bar, address: bar.address })
}

/// The virtual functions that the host is to enable: all that slots have.
fn vf_policy(slots: &[(&Slot, &Path)]) -> VfPolicy {
    let of_slot = |(slot, path): &(&Slot, &Path)| {
        let vfs = slot.needs().virtual_functions;
        (vfs > 0).then(|| ((*path).clone(), vfs))
    };
    let all: BTreeMap<Path, u16> = slots.iter().filter_map(of_slot).collect();
    if all.is_empty() { VfPolicy::Off } else { VfPolicy::Listed(all) }
}
