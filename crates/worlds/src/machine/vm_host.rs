// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A virtual machine above a host: its devices, their sockets, and the firmware that runs before the machine starts.

use super::client::{Client, DmaMemory};
use super::counters::{VmCounters, sum};
use super::error::VmError;
use super::event::VmEvent;
use super::placing::{FunctionPlacement, Placed, Placing};
use super::root_ports::RootPortSetup;
use super::run_on_host::run_on_host;
use guest::function::Function;
use guest::net::Server;
use guest::vfio_user::HangUp;
use host::{Cpu, DriverError};
use session::external::host::{HostPlace, HostRequest};
use session::external::{Driver, Handle};
use std::path::Path;
use tlp::{PayloadPool, Time};

/// A virtual machine above a host of a lab, with the sockets of its devices.
pub struct VmHost {
    /// Name of the host: `root`, or the name of its `[[external_host]]`.
    pub name: String,
    /// The names of the machines that have virtual functions below the host.
    pub(super) assigned: Vec<String>,
    pub(super) handle: Handle<HostPlace>,
    /// The client of the VMD, if there is one, then the clients of functions.
    pub(super) clients: Vec<Client>,
    pub(super) firmware: Firmware,
}

/// Firmware that runs before the machine starts.
pub(super) enum Firmware {
    /// Sets up the root ports. The machine has the whole hierarchy.
    RootPorts(RootPortSetup),
    /// Places functions. The machine gets functions one by one.
    Functions(Box<FunctionPlacement>),
}

impl Firmware {
    /// Returns the firmware as host code.
    pub(super) fn code(&self) -> Box<dyn FnOnce(Cpu) -> Placing> {
        match self {
            Firmware::RootPorts(setup) => Box::new(setup.code()),
            Firmware::Functions(placement) => Box::new(placement.code()),
        }
    }
}

/// The socket of a device.
#[derive(Clone, Copy, Debug)]
pub struct DeviceSocket<'g> {
    /// The name of the machine; `None` for the machine that is the host.
    pub machine: Option<&'g str>,
    /// Name of the device: `vmd`, or the name of its slot.
    pub device: &'g str,
    /// The path of the socket.
    pub path: &'g Path,
}

/// Returns all machines of `hosts`: first those above hosts (`None`), then those with virtual functions, with their names.
pub fn machines(hosts: &[VmHost]) -> impl Iterator<Item = (&VmHost, Option<&str>)> {
    let assigned = hosts.iter().flat_map(|host| host.assigned.iter().map(move |name| (host, Some(&**name))));
    hosts.iter().map(|host| (host, None)).chain(assigned)
}

impl VmHost {
    /// A machine without devices. Firmware has not run.
    pub(super) fn above(name: String, handle: Handle<HostPlace>, firmware: Firmware) -> VmHost {
        VmHost { name, assigned: Vec::new(), handle, clients: Vec::new(), firmware }
    }

    /// Listens for the client of a function, at a socket of its name in `folder`.
    pub(super) fn listen(
        &mut self,
        machine: Option<String>,
        placed: Placed,
        folder: &Path,
    ) -> Result<(), VmError> {
        let Placed { name, facts, recovery } = placed;
        if name.contains('/') || matches!(&*name, "." | "..") {
            return Err(VmError::Name(name));
        }
        let (function, path) = (Function::new(facts, PayloadPool::new()), folder.join(&name));
        let mut client = Client::bind(machine, name, Box::new(function), &path)?;
        client.recovery = recovery;
        self.clients.push(client);
        Ok(())
    }

    /// Sends each DMA as a message to the machine, whose IOMMU decides what the device may reach, whether it is mapped
    /// or not. Call this before the machine joins.
    pub(super) fn use_messages_alone(&mut self) {
        self.clients.iter_mut().for_each(Client::use_messages_alone);
    }

    /// Returns the sockets of the devices.
    pub fn sockets(&self) -> impl Iterator<Item = DeviceSocket<'_>> {
        self.clients.iter().map(|client| DeviceSocket {
            machine: client.machine.as_deref(),
            device: &client.name,
            path: client.server.path(),
        })
    }

    pub(super) fn servers(&self) -> impl Iterator<Item = &Server> {
        self.clients.iter().map(|client| &client.server)
    }

    /// Returns the number of descriptors that the machines may give for interrupts.
    pub fn vectors(&self) -> usize {
        self.servers().map(Server::vectors).sum()
    }

    /// Returns the sum of the counters of all machines.
    pub fn counters(&self) -> VmCounters {
        sum(self.clients.iter().map(|client| client.counters))
    }

    /// Returns the counters of one machine: of the host's machine if `machine` is `None`.
    pub fn counters_of(&self, machine: Option<&str>) -> VmCounters {
        let own = self.clients.iter().filter(|client| client.machine.as_deref() == machine);
        sum(own.map(|client| client.counters))
    }

    /// Ends all clients that are still connected.
    pub fn end(&mut self, lab: &mut Driver, mut notify: impl FnMut(&mut Driver, &str, VmEvent)) {
        for n in 0..self.clients.len() {
            if self.clients[n].is_there {
                notify(lab, &self.clients[n].name, VmEvent::Gone(HangUp::Closed));
                self.leave(n, lab, lab.now(), &mut notify);
            }
        }
    }

    /// Ends client `n`, and unmaps its memory.
    pub(super) fn leave(
        &mut self,
        n: usize,
        lab: &mut Driver,
        now: Time,
        notify: &mut impl FnMut(&mut Driver, &str, VmEvent),
    ) {
        // A function that could not be reset may still write. The client keeps its own address space, in which nothing
        // is mapped any longer.
        if self.is_assigned(n) && self.reset(n, lab, notify) {
            self.give_back(n, lab, now);
        }
        let mut memories = DmaMemory { lab, handle: &self.handle, scope: self.clients[n].scope(), now };
        self.clients[n].leave(&mut memories);
        match self.clients.iter().any(|client| client.is_there) {
            _ if self.is_assigned(n) => self.clients[n].lose_function(),
            true => _ = self.reset(n, lab, notify),
            false => self.begin_anew(lab, now, notify),
        }
    }

    /// Resets the device of client `n`: a VMD with everything below it, or a function. Returns whether that succeeded.
    pub(super) fn reset(
        &mut self,
        n: usize,
        lab: &mut Driver,
        notify: &mut impl FnMut(&mut Driver, &str, VmEvent),
    ) -> bool {
        let code = self.clients[n].reset();
        if self.clients[n].is_hierarchy() {
            self.begin_anew(lab, lab.now(), notify);
        }
        let Some(Err(why)) = code.map(|code| self.run(lab, code)) else { return true };
        notify(lab, &self.clients[n].name, VmEvent::Misplaced(why));
        false
    }

    /// Resets everything below the host, and runs the firmware again.
    fn begin_anew(
        &mut self,
        lab: &mut Driver,
        now: Time,
        notify: &mut impl FnMut(&mut Driver, &str, VmEvent),
    ) {
        lab.inject(now, &self.handle, HostRequest::reset());
        for n in (0..self.clients.len()).filter(|n| self.is_assigned(*n)).collect::<Vec<_>>() {
            self.give_back(n, lab, now);
        }
        if let Err(why) = self.place(lab) {
            notify(lab, "", VmEvent::Misplaced(why));
        }
    }

    /// Runs the firmware before the machine starts. A function that firmware no longer finds keeps its place.
    pub(super) fn place(&mut self, lab: &mut Driver) -> Result<(), DriverError> {
        for placed in self.run(lab, self.firmware.code())? {
            if let Some(client) = self.clients.iter_mut().find(|client| client.name == placed.name) {
                client.place_function(placed);
            }
        }
        Ok(())
    }

    /// Runs host code in place of the machine.
    pub(super) fn run<R, F>(
        &mut self,
        lab: &mut Driver,
        code: impl FnOnce(Cpu) -> F,
    ) -> Result<R, DriverError>
    where
        R: 'static,
        F: Future<Output = Result<R, DriverError>> + 'static,
    {
        let handle = self.handle.clone();
        run_on_host(lab, &handle, code, |input| self.handle(input))
    }
}
