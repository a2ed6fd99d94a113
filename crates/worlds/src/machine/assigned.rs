// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual functions that are assigned to separate machines, as `vfio-pci` does. Another machine has the hierarchy and
//! the physical functions, and its kernel places the virtual functions. A function is reset before a machine gets it,
//! and after the machine has ended. Its DMA reaches only the memory of that machine, and its interrupts go to that
//! machine.

use super::client::{Client, DmaScope};
use super::error::VmError;
use super::event::VmEvent;
use super::open::AssignedMachine;
use super::placing::FunctionPlacement;
use super::virtual_functions::{self, VfLocation, Written};
use super::vm_host::VmHost;
use config::header::type1;
use guest::function::{CONFIG_BYTES, Facts};
use guest::vmd::CFGBAR;
use host::DriverError;
use session::external::Driver;
use session::external::host::HostRequest;
use tlp::{Bdf, Time};

/// DWs of a function's configuration space.
const REGISTERS: u64 = CONFIG_BYTES / 4;

impl VmHost {
    /// Assigns virtual functions below this host to separate machines. Each machine gets its functions in the order of
    /// `placement`, each at a socket of the function's name in the machine's folder. riser's firmware reads the
    /// properties of the functions once, and then resets everything below the host. Call this before a client connects.
    pub(super) fn assign(
        &mut self,
        lab: &mut Driver,
        placement: &FunctionPlacement,
        machines: &[AssignedMachine],
    ) -> Result<(), VmError> {
        let found = self.run(lab, placement.code()).map_err(VmError::Firmware)?;
        lab.inject(lab.now(), &self.handle, HostRequest::reset());
        self.place(lab).map_err(VmError::Firmware)?;
        let mut found = found.into_iter();
        for AssignedMachine { name, functions, folder } in machines {
            for placed in found.by_ref().take(functions.len()) {
                self.listen(Some(name.clone()), placed, folder)?;
            }
            self.assigned.push(name.clone());
        }
        // A function has no place until its client has found it.
        self.clients.iter_mut().for_each(Client::lose_function);
        Ok(())
    }

    /// Returns the parts of a write of client `n` that change registers that place virtual functions: bus numbers and SR-IOV capabilities.
    pub(super) fn moving(&self, n: usize, region: usize, offset: u64, bytes: &[u8]) -> Vec<Written> {
        if !self.clients[n].is_hierarchy() || region != CFGBAR {
            return Vec::new();
        }
        let matters = |register: u16| {
            let sites = self.clients.iter().filter_map(|client| client.recovery.site.as_ref());
            register == type1::BUS_NUMBERS || sites.into_iter().any(|site| site.covers(register))
        };
        let end = offset + bytes.len() as u64;
        let registers = (offset / 4..end.div_ceil(4)).map(|dw| {
            let mut written = Written {
                function: Bdf::from_bits((dw / REGISTERS) as u16),
                register_dw: (dw % REGISTERS) as u16,
                value: 0,
                mask: 0,
            };
            for at in (dw * 4).max(offset)..(dw * 4 + 4).min(end) {
                let shift = at % 4 * 8;
                written.value |= u32::from(bytes[(at - offset) as usize]) << shift;
                written.mask |= 0xff << shift;
            }
            written
        });
        registers.filter(|written| matters(written.register_dw)).collect()
    }

    /// Returns how the virtual function of client `n` is found again, and its last known properties.
    fn site(&self, n: usize) -> Option<(VfLocation, Facts)> {
        let Client { device, recovery, .. } = &self.clients[n];
        Some((recovery.site.clone()?, device.function()?.facts().clone()))
    }

    /// Returns whether client `n` belongs to a machine with virtual functions.
    pub(super) fn is_assigned(&self, n: usize) -> bool {
        self.clients[n].machine.is_some()
    }

    /// Finds the virtual function whose client has connected, and gives it to that machine.
    ///
    /// # Errors
    /// The function does not exist.
    pub(super) fn fetch(&mut self, n: usize, lab: &mut Driver) -> Result<(), DriverError> {
        let Some((site, facts)) = self.site(n) else { return Ok(()) };
        let facts = self.run(lab, move |cpu| virtual_functions::find(cpu, site, facts))?;
        let others = (0..self.clients.len()).filter(|other| *other != n);
        if let Some(other) =
            others.into_iter().find(|o| self.clients[*o].scope() == DmaScope::Function(facts.function))
        {
            let (other, id) = (&self.clients[other], facts.function);
            let machine = other.machine.as_deref().unwrap_or_default();
            let name = &other.name;
            return Err(format!("its number {id} is already used by {name} of machine `{machine}`").into());
        }
        lab.inject(lab.now(), &self.handle, HostRequest::grant(facts.function));
        self.clients[n].move_function(facts);
        // The function does not continue with its earlier settings.
        self.clients[n].reset().map_or(Ok(()), |code| self.run(lab, code))
    }

    /// Resets the virtual functions that a write is about to move. The machines lose these functions. The reset
    /// precedes the write, so that no DMA of these functions gets a wrong requester ID.
    pub(super) fn release(
        &mut self,
        written: &[Written],
        lab: &mut Driver,
        notify: &mut impl FnMut(&mut Driver, &str, VmEvent),
    ) {
        for n in 0..self.clients.len() {
            let (Some((site, _)), DmaScope::Function(_)) = (self.site(n), self.clients[n].scope()) else {
                continue;
            };
            let written = written.to_vec();
            if self.run(lab, move |cpu| virtual_functions::moves(cpu, site, written)) != Ok(false) {
                self.lose(n, "the lab's machine changes its number or address".into(), lab, notify);
            }
        }
    }

    /// Checks, after a write, where the virtual functions are. Machines lose the functions that have moved.
    pub(super) fn follow(&mut self, lab: &mut Driver, notify: &mut impl FnMut(&mut Driver, &str, VmEvent)) {
        for n in 0..self.clients.len() {
            let (Some((site, facts)), DmaScope::Function(_)) = (self.site(n), self.clients[n].scope()) else {
                continue;
            };
            let before = facts.clone();
            match self.run(lab, move |cpu| virtual_functions::find(cpu, site, before)) {
                Ok(found) if found == facts => {}
                Ok(_) => self.lose(n, "its number or address has changed".into(), lab, notify),
                Err(why) => self.lose(n, why, lab, notify),
            }
        }
    }

    /// Resets the function of client `n`, if the function still exists, and takes it away from the client.
    fn lose(
        &mut self,
        n: usize,
        why: DriverError,
        lab: &mut Driver,
        notify: &mut impl FnMut(&mut Driver, &str, VmEvent),
    ) {
        // A function that no longer exists does nothing.
        let _ = self.clients[n].reset().map_or(Ok(()), |code| self.run(lab, code));
        self.give_back(n, lab, lab.now());
        let machine = self.clients[n].machine.as_deref().unwrap_or_default();
        let lost = why.at(format!("lost to machine `{machine}`"));
        notify(lab, &self.clients[n].name, VmEvent::Misplaced(lost));
    }

    /// Returns a virtual function to the machine that has the hierarchy.
    pub(super) fn give_back(&mut self, n: usize, lab: &mut Driver, now: Time) {
        if let DmaScope::Function(function) = self.clients[n].scope() {
            lab.inject(now, &self.handle, HostRequest::revoke(function));
        }
        self.clients[n].lose_function();
    }
}
