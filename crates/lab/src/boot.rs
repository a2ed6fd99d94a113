// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the simulated host does: firmware first, then all drivers side by side.

use crate::links;
use crate::schema::{Lab, Link, Slot};
use device::Cpu;
use device::firmware::{self, FixedBar, FoundFunction, RootPortWindows, Window};
use fabric::AddressMap;
use std::pin::Pin;
use tlp::{Mrrs, Rcb};

/// A driver, to be given its function.
pub(crate) type Driver = Box<dyn FnOnce(Cpu, FoundFunction) -> DriverFuture>;

/// What the host does for a device that no enumeration finds.
pub(crate) type HostTask = Box<dyn FnOnce(Cpu) -> DriverFuture>;

/// What the host does for a slot.
pub(crate) enum Task {
    /// Runs the driver of the function found there.
    Driver(Driver),
    /// Something else.
    Host(HostTask),
}

/// A driver that runs.
pub(crate) type DriverFuture = Pin<Box<dyn Future<Output = Result<(), String>>>>;

/// Enumerates, then runs the driver of each slot on the function found there.
pub(crate) async fn boot(cpu: Cpu, windows: Vec<RootPortWindows>, tasks: Vec<Task>) -> Result<(), String> {
    let found = firmware::enumerate(&cpu, &windows).await?;
    let mut running = Vec::new();
    for (slot, task) in tasks.into_iter().enumerate() {
        let future = match task {
            Task::Host(task) => task(cpu.clone()),
            Task::Driver(driver) => {
                let function = found.iter().find(|f| f.port == slot);
                let function = function.ok_or_else(|| format!("slot {slot}: no function answers"))?;
                driver(cpu.clone(), *function)
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

/// The root ports as firmware finds them; `rcb` is that of the host profile.
pub(crate) fn windows(lab: &Lab, rcb: Rcb) -> Vec<RootPortWindows> {
    let port = |(n, slot): (usize, &Slot)| RootPortWindows {
        ten_bit_tags: slot.tags.as_ref().is_some_and(|t| *t.get_ref() > 256),
        fixed: fixed_bar(slot).into_iter().collect(),
        ..root_port(n, &links::merge(&lab.link, &slot.link), rcb)
    };
    lab.slot.iter().enumerate().map(port).collect()
}

/// Root port `n` with nothing special behind its `link`.
pub(crate) fn root_port(n: usize, link: &Link, rcb: Rcb) -> RootPortWindows {
    let window = |w: fabric::Window| Window { base: w.base, size: w.size };
    RootPortWindows {
        bus: AddressMap.bus(n),
        mmio32: window(AddressMap.mmio32(n)),
        mmio64: window(AddressMap.mmio64(n)),
        io: window(AddressMap.io(n)),
        mps: links::mps(link),
        mrrs: link.mrrs_bytes.map_or_else(Mrrs::default, |m| m.0),
        rcb: link.rcb_bytes.map_or(rcb, |r| r.0),
        ten_bit_tags: false,
        fixed: Vec::new(),
    }
}

fn fixed_bar(slot: &Slot) -> Option<FixedBar> {
    let memory = slot.memory.as_ref().and_then(|m| Some((0, *m.address.as_ref()?.get_ref())));
    let nic = slot.simple_nic.as_ref().and_then(|n| Some((*n.bar.get_ref(), *n.address.as_ref()?.get_ref())));
    memory.or(nic).map(|(bar, address)| FixedBar { function: 0, bar, address })
}
