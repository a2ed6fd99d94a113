// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Machines that have virtual functions of a hierarchy whose physical functions another machine has, as `vfio-pci` hands them over:
//! each function is reset before a machine gets it and after it has gone; its DMA reaches the memory of that machine alone, its interrupts
//! go there, and where it is says the kernel that enabled it.

use super::client::{Client, DmaScope};
use super::event::VmEvent;
use super::placing::FunctionPlacement;
use super::virtual_functions::{self, Site, Written};
use super::vm_host::{VmError, VmHost};
use config::header::type1;
use guest::function::{CONFIG_BYTES, Facts};
use guest::vmd::CFGBAR;
use lab::external::Driver;
use lab::external::host::HostRequest;
use std::path::PathBuf;
use tlp::{Bdf, Time};

/// Registers of a function's configuration space, a DW each.
const REGISTERS: u64 = CONFIG_BYTES / 4;

impl VmHost {
    /// Gives virtual functions below this machine to machines of their own: each has a name, gets so many, in the order of `places`, and
    /// finds a socket for each in its folder, named as the function. riser's firmware looks once what they are; then all is as after
    /// power-on. Nobody may have come yet.
    ///
    /// # Errors
    /// The firmware fails, or nobody can listen there.
    pub fn assign(
        &mut self,
        lab: &mut Driver,
        places: &FunctionPlacement,
        machines: &[(String, usize, PathBuf)],
    ) -> Result<(), VmError> {
        let found = self.run(lab, places.code()).map_err(VmError::Firmware)?;
        lab.inject(lab.now(), &self.door, HostRequest::reset());
        self.place(lab).map_err(VmError::Firmware)?;
        let mut found = found.into_iter();
        for (machine, functions, folder) in machines {
            for placed in found.by_ref().take(*functions) {
                self.listen(Some(machine.clone()), placed, folder)?;
            }
        }
        // Its client has to find a function first.
        self.clients.iter_mut().for_each(Client::lose_function);
        Ok(())
    }

    /// Returns what a write of client `n` writes to registers that place virtual functions: bus numbers and SR-IOV capabilities.
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

    /// Returns by what the virtual function of client `n` is found again, and what it was when it was found last.
    fn site(&self, n: usize) -> Option<(Site, Facts)> {
        let Client { device, recovery, .. } = &self.clients[n];
        Some((recovery.site.clone()?, device.function()?.facts().clone()))
    }

    /// Whether client `n` is of a machine that has virtual functions.
    pub(super) fn is_assigned(&self, n: usize) -> bool {
        self.clients[n].machine.is_some()
    }

    /// The client of a virtual function has come: finds it, and from now on it is this machine's.
    ///
    /// # Errors
    /// It is not there.
    pub(super) fn fetch(&mut self, n: usize, lab: &mut Driver) -> Result<(), String> {
        let Some((site, facts)) = self.site(n) else { return Ok(()) };
        let facts = self.run(lab, move |cpu| virtual_functions::find(cpu, site, facts))?;
        let others = (0..self.clients.len()).filter(|other| *other != n);
        if let Some(other) =
            others.into_iter().find(|o| self.clients[*o].scope() == DmaScope::Function(facts.function))
        {
            let (other, id) = (&self.clients[other], facts.function);
            let machine = other.machine.as_deref().unwrap_or_default();
            return Err(format!(
                "its number is {id}, which is that of {} of machine `{machine}`",
                other.name
            ));
        }
        lab.inject(lab.now(), &self.door, HostRequest::grant(facts.function));
        self.clients[n].move_function(facts);
        // It does not continue what it was set up for before.
        self.clients[n].reset().map_or(Ok(()), |code| self.run(lab, code))
    }

    /// The machine that has the hierarchy is about to write these registers: virtual functions that this moves are reset where they are,
    /// so that nothing of theirs goes elsewhere, and are lost to their machines.
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
                self.lose(n, "the machine that has the hierarchy moves it", lab, notify);
            }
        }
    }

    /// The machine that has the hierarchy has written: a virtual function that is no longer where it was is lost to its machine, and does
    /// nothing more for it.
    pub(super) fn follow(&mut self, lab: &mut Driver, notify: &mut impl FnMut(&mut Driver, &str, VmEvent)) {
        for n in 0..self.clients.len() {
            let (Some((site, facts)), DmaScope::Function(_)) = (self.site(n), self.clients[n].scope()) else {
                continue;
            };
            let before = facts.clone();
            match self.run(lab, move |cpu| virtual_functions::find(cpu, site, before)) {
                Ok(found) if found == facts => {}
                Ok(_) => self.lose(n, "it has another number or address", lab, notify),
                Err(why) => self.lose(n, &why, lab, notify),
            }
        }
    }

    /// The function of client `n` is reset where it was, if it is there still, and is no longer this client's.
    fn lose(
        &mut self,
        n: usize,
        why: &str,
        lab: &mut Driver,
        notify: &mut impl FnMut(&mut Driver, &str, VmEvent),
    ) {
        // One that is not there any more does nothing either.
        let _ = self.clients[n].reset().map_or(Ok(()), |code| self.run(lab, code));
        self.give_back(n, lab, lab.now());
        let machine = self.clients[n].machine.as_deref().unwrap_or_default();
        let lost = format!("lost to machine `{machine}`: {why}");
        notify(lab, &self.clients[n].name, VmEvent::Misplaced(lost));
    }

    /// A virtual function goes back to the machine that has the hierarchy.
    pub(super) fn give_back(&mut self, n: usize, lab: &mut Driver, now: Time) {
        if let DmaScope::Function(function) = self.clients[n].scope() {
            lab.inject(now, &self.door, HostRequest::revoke(function));
        }
        self.clients[n].lose_function();
    }
}
