// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The hosts of a fabric: each has its own root complex, memory, bus numbers, addresses and program. No route leads
//! from one host to another. Only DMA of a function with a grant for another host's memory crosses.

use super::Fabric;
use crate::bridge::Action;
use crate::effects::Effect;
use crate::host_slot::HostSlot;
use crate::ledger::Ledger;
use crate::queue::{Event, SortedQueue};
use crate::root::RootComplex;
use crate::topology::{HostId, OfHost};
use host::DriverError;
use host::memory::HostMemory;
use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use thiserror::Error;
use tlp::Bdf;

/// A host and its root ports.
pub(super) struct HostSide {
    pub(super) root: RootComplex,
    /// Indices of the ports of its root ports.
    pub(super) root_ports: Vec<usize>,
    pub(super) program: Option<HostSlot>,
    /// The result of the program, once it has ended.
    outcome: Option<Result<(), DriverError>>,
}

/// The hosts of a fabric.
pub(super) struct Hosts {
    // The first host; most fabrics have only this one. An index into a list of all would add 1 % to the instructions of a read.
    first: HostSide,
    others: Vec<HostSide>,
}

impl Hosts {
    /// The hosts; `None` if there are none.
    pub(super) fn new(mut hosts: impl Iterator<Item = HostSide>) -> Option<Hosts> {
        Some(Hosts { first: hosts.next()?, others: hosts.collect() })
    }

    pub(super) fn len(&self) -> usize {
        1 + self.others.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &HostSide> + Clone {
        std::iter::once(&self.first).chain(&self.others)
    }
}

impl Index<HostId> for Hosts {
    type Output = HostSide;

    fn index(&self, id: HostId) -> &HostSide {
        if id == HostId::FIRST { &self.first } else { &self.others[id.index() - 1] }
    }
}

impl IndexMut<HostId> for Hosts {
    fn index_mut(&mut self, id: HostId) -> &mut HostSide {
        if id == HostId::FIRST { &mut self.first } else { &mut self.others[id.index() - 1] }
    }
}

/// No host has this number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("host {host}; expected 0 to {last}", host = .host.0)]
pub struct NoHost {
    /// The requested host.
    pub host: HostId,
    /// The last host that exists.
    pub last: usize,
}

impl HostSide {
    pub(super) fn new(root: RootComplex, root_ports: Vec<usize>, program: Option<HostSlot>) -> HostSide {
        HostSide { root, root_ports, program, outcome: None }
    }

    /// Handles the effects of a call to the root complex: the time of the next call, and the time that transactions
    /// spent in stages. Most calls have no effect.
    #[inline(always)]
    pub(super) fn apply_effects(
        &mut self,
        id: HostId,
        queue: &mut SortedQueue,
        ledger: &mut Ledger,
        actions: &mut VecDeque<(usize, Action)>,
    ) {
        if !self.root.effects().is_empty() {
            self.apply_all_effects(id, queue, ledger, actions);
        }
    }

    // Not inlined, because it has many callers.
    #[inline(never)]
    fn apply_all_effects(
        &mut self,
        id: HostId,
        queue: &mut SortedQueue,
        ledger: &mut Ledger,
        actions: &mut VecDeque<(usize, Action)>,
    ) {
        for effect in self.root.effects().drain(..) {
            match effect {
                Effect::Served(turn) => {
                    ledger.served(&turn);
                    if turn.ready > turn.now {
                        queue.push(turn.ready, Event::ReadReady(OfHost::new(id, turn.job)));
                    }
                }
                Effect::Written { account, asked, visible } => ledger.written(account, asked, visible),
                Effect::Ready(at, job) => queue.push(at, Event::ReadReady(OfHost::new(id, job))),
                Effect::Wake(at, due) => queue.push(at, Event::of_root(id, due)),
                Effect::Note(note) => ledger.take(note),
                Effect::Act(port, action) => actions.push_back((self.root_ports[port as usize], action)),
            }
        }
    }
}

/// Access to the hosts; methods without a host argument use the first.
impl Fabric {
    /// The root complex of the first host.
    pub fn root(&self) -> &RootComplex {
        &self.hosts[HostId::FIRST].root
    }

    /// The root complex of the first host, to set it up.
    pub fn root_mut(&mut self) -> &mut RootComplex {
        &mut self.hosts[HostId::FIRST].root
    }

    /// Sets whether the root complexes accept completions whose Traffic Class, No Snoop or Relaxed Ordering differ from
    /// those of their request, from now on. Otherwise they are malformed, as `PCIe 5.0 §2.3.2` strongly recommends.
    pub fn set_lenient_completions(&mut self, lenient: bool) {
        let Hosts { first, others } = &mut self.hosts;
        std::iter::once(first).chain(others).for_each(|host| host.root.set_lenient_completions(lenient));
    }

    /// The root complex of `host`.
    ///
    /// # Errors
    /// There is no such host.
    pub fn root_of(&self, host: HostId) -> Result<&RootComplex, NoHost> {
        self.check_host(host)?;
        Ok(&self.hosts[host].root)
    }

    /// The root complex of `host`, for setup.
    ///
    /// # Errors
    /// There is no such host.
    pub fn root_of_mut(&mut self, host: HostId) -> Result<&mut RootComplex, NoHost> {
        self.check_host(host)?;
        Ok(&mut self.hosts[host].root)
    }

    fn check_host(&self, host: HostId) -> Result<(), NoHost> {
        let last = self.hosts.len() - 1;
        if host.index() <= last { Ok(()) } else { Err(NoHost { host, last }) }
    }

    /// Directs DMA of `requester`, a function below `below`, to the memory of host `of` instead of the memory of its
    /// own host, from now on. A function given to a guest behaves like this. An access outside that memory is refused,
    /// even to a peer. The timing of its own host's memory still applies, and its interrupts stay with its own host.
    ///
    /// # Errors
    /// Fails if there is no such host.
    pub fn grant_dma(&mut self, below: HostId, requester: Bdf, of: HostId) -> Result<(), NoHost> {
        let memory = self.root_of(of)?.memory().clone();
        self.grant_memory(below, requester, memory)
    }

    /// Like [`grant_dma`](Self::grant_dma), with memory that belongs to no host, for functions with their own addresses.
    ///
    /// # Errors
    /// Fails if there is no such host.
    pub fn grant_memory(&mut self, below: HostId, requester: Bdf, memory: HostMemory) -> Result<(), NoHost> {
        self.root_of_mut(below)?.grant_dma(requester, memory);
        Ok(())
    }

    /// Directs DMA of `requester`, a function below `below`, to its own host's memory again.
    ///
    /// # Errors
    /// Fails if there is no such host.
    pub fn revoke_dma(&mut self, below: HostId, requester: Bdf) -> Result<(), NoHost> {
        self.root_of_mut(below)?.revoke_dma(requester);
        Ok(())
    }

    /// The result of the first host's program; `None` while it runs, or if there is none.
    pub fn host_outcome(&self) -> Option<&Result<(), DriverError>> {
        self.hosts[HostId::FIRST].outcome.as_ref()
    }

    /// Signals that the program of `host` got an input from outside the fabric. Calls the host program now if it
    /// requests a call ([`HostProgram::poll_timeout`](host::HostProgram::poll_timeout)), and polls it for requests.
    ///
    /// # Errors
    /// Fails if there is no such host.
    pub fn wake_host(&mut self, host: HostId) -> Result<(), NoHost> {
        self.check_host(host)?;
        self.queue.push(self.now, Event::Host(host));
        Ok(())
    }

    /// The result of all programs: the first failure, or success once all have ended; `None` while any runs, or if
    /// there is none.
    pub(super) fn outcome(&self) -> Option<Result<(), DriverError>> {
        let mut of_programs = self.hosts.iter().enumerate().filter(|(_, host)| host.program.is_some());
        let failed = of_programs.clone().find_map(|(n, host)| match &host.outcome {
            Some(Err(why)) if self.hosts.len() == 1 => Some(why.clone()),
            Some(Err(why)) => Some(why.clone().at(format!("host {n}"))),
            _ => None,
        });
        if let Some(why) = failed {
            return Some(Err(why));
        }
        let all_ended = of_programs.clone().all(|(_, host)| host.outcome.is_some());
        (all_ended && of_programs.next().is_some()).then_some(Ok(()))
    }

    /// Puts the name of host `n` before `line` if there are several hosts.
    pub(super) fn of_host(&self, n: usize, line: &str) -> String {
        if self.hosts.len() == 1 { line.to_owned() } else { format!("host {n}: {line}") }
    }

    pub(super) fn step_host(&mut self, id: HostId) {
        if !self.host_started {
            return;
        }
        self.last_progress = self.now;
        let is_design = self.step_design(id);
        let host = &mut self.hosts[id];
        let Some(program) = &mut host.program else {
            // No program takes the interrupts.
            while host.root.poll_host_input(self.now).is_some() {}
            return;
        };
        let mut touched = std::mem::take(&mut self.touched);
        if !is_design {
            program.step(self.now, &mut host.root, &mut touched);
        }
        let wakes = program.wakes(self.now);
        let ends = host.outcome.is_none() && program.outcome().is_some();
        if ends {
            host.outcome = program.outcome();
        }
        self.apply_root_effects(id);
        for at in wakes.into_iter().flatten() {
            self.queue.push(at, Event::Host(id));
        }
        if ends && !self.ends && self.outcome().is_some() {
            (self.ends, self.ended_at) = (true, self.now);
        }
        for n in touched.drain(..) {
            self.pump_root(id, n);
        }
        self.touched = touched;
        self.apply_link_actions();
    }

    /// Handles the effects of a call to a root complex.
    pub(super) fn apply_root_effects(&mut self, id: HostId) {
        self.hosts[id].apply_effects(id, &mut self.queue, &mut self.ledger, &mut self.actions);
    }
}
