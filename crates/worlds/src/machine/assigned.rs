// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Machines that have virtual functions of a hierarchy whose physical functions another machine has, as `vfio-pci` hands them over:
//! each function is reset before a machine gets it and after it has gone; its DMA reaches the memory of that machine alone, its interrupts
//! go there, and where it is says the kernel that enabled it.

use super::client::Whose;
use super::placing::Places;
use super::seat::{Guest, GuestError, Told};
use super::virtual_functions::{self, Written};
use session::external::Driver;
use session::external::host::HostRequest;
use std::path::PathBuf;
use tlp::Time;

impl Guest {
    /// Gives virtual functions below this machine to machines of their own: each has a name, gets so many, in the order of `places`, and
    /// finds a socket for each in its folder, named as the function. riser's firmware looks once what they are; then all is as after
    /// power-on. Nobody may have come yet.
    ///
    /// # Errors
    /// The firmware fails, or nobody can listen there.
    pub fn assign(
        &mut self,
        lab: &mut Driver,
        places: &Places,
        machines: &[(String, usize, PathBuf)],
    ) -> Result<(), GuestError> {
        let found = self.run(lab, places.code()).map_err(GuestError::Places)?;
        let mut names = found.iter().map(|placed| placed.name.clone()).collect::<Vec<_>>().into_iter();
        self.below.known(found);
        lab.inject(lab.now(), &self.door, HostRequest::reset());
        self.place(lab).map_err(GuestError::Places)?;
        for (machine, functions, folder) in machines {
            for name in names.by_ref().take(*functions) {
                self.listen(Some(machine.clone()), name, folder)?;
            }
        }
        Ok(())
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
        let Some((site, facts)) = self.below.site(n) else { return Ok(()) };
        let facts = self.run(lab, move |cpu| virtual_functions::find(cpu, site, facts))?;
        let others = (0..self.clients.len()).filter(|other| *other != n);
        if let Some(other) = others.into_iter().find(|o| self.below.whose(*o) == Whose::Of(facts.function)) {
            let (other, id) = (&self.clients[other], facts.function);
            let machine = other.machine.as_deref().unwrap_or_default();
            return Err(format!(
                "its number is {id}, which is that of {} of machine `{machine}`",
                other.name
            ));
        }
        lab.inject(lab.now(), &self.door, HostRequest::grant(facts.function));
        self.below.found(n, facts);
        // Whatever it was told before, it does not go on with.
        self.below.reset(n).map_or(Ok(()), |code| self.run(lab, code))
    }

    /// The machine that has the hierarchy is about to write these registers: virtual functions that this moves are reset where they are,
    /// so that nothing of theirs goes elsewhere, and are lost to their machines.
    pub(super) fn release(
        &mut self,
        written: &[Written],
        lab: &mut Driver,
        told: &mut impl FnMut(&mut Driver, &str, Told),
    ) {
        for n in 0..self.clients.len() {
            let (Some((site, _)), Whose::Of(_)) = (self.below.site(n), self.below.whose(n)) else { continue };
            let written = written.to_vec();
            if self.run(lab, move |cpu| virtual_functions::moves(cpu, site, written)) != Ok(false) {
                self.lose(n, "the machine that has the hierarchy moves it", lab, told);
            }
        }
    }

    /// The machine that has the hierarchy has written: a virtual function that is no longer where it was is lost to its machine, and does
    /// nothing more for it.
    pub(super) fn follow(&mut self, lab: &mut Driver, told: &mut impl FnMut(&mut Driver, &str, Told)) {
        for n in 0..self.clients.len() {
            let (Some((site, facts)), Whose::Of(_)) = (self.below.site(n), self.below.whose(n)) else {
                continue;
            };
            let before = facts.clone();
            match self.run(lab, move |cpu| virtual_functions::find(cpu, site, before)) {
                Ok(found) if found == facts => {}
                Ok(_) => self.lose(n, "it has another number or address", lab, told),
                Err(why) => self.lose(n, &why, lab, told),
            }
        }
    }

    /// The function of client `n` is reset where it was, if it is there still, and is no longer this client's.
    fn lose(
        &mut self,
        n: usize,
        why: &str,
        lab: &mut Driver,
        told: &mut impl FnMut(&mut Driver, &str, Told),
    ) {
        // One that is not there any more does nothing either.
        let _ = self.below.reset(n).map_or(Ok(()), |code| self.run(lab, code));
        self.give_back(n, lab, lab.now());
        let machine = self.clients[n].machine.as_deref().unwrap_or_default();
        let lost = format!("lost to machine `{machine}`: {why}");
        told(lab, &self.clients[n].name, Told::Misplaced(lost));
    }

    /// A virtual function goes back to the machine that has the hierarchy.
    pub(super) fn give_back(&mut self, n: usize, lab: &mut Driver, now: Time) {
        if let Whose::Of(function) = self.below.whose(n) {
            lab.inject(now, &self.door, HostRequest::revoke(function));
        }
        self.below.lost(n);
    }
}
