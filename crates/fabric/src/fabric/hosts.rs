// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The hosts of a fabric: each has a root complex, memory, a segment of bus numbers and addresses of its own, and somebody above it.
//! No route leads from one to another; the only thing that crosses is DMA of a function that was granted another host's memory.

use super::Fabric;
use crate::bridge::Action;
use crate::host_slot::HostSlot;
use crate::ledger::Ledger;
use crate::memory_system::MemoryCounters;
use crate::queue::{Event, EventQueue, SortedQueue};
use crate::root::{Effect, PeerToPeer, RootComplex, RootCounters, RootFunctionCounters};
use crate::topology::{HostId, OfHost};
use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use thiserror::Error;
use tlp::Bdf;

/// A host.
pub(super) struct HostSide {
    pub(super) root: RootComplex,
    /// Index of the port of each root port.
    pub(super) root_ports: Vec<usize>,
    pub(super) program: Option<HostSlot>,
    /// How the program has ended.
    outcome: Option<Result<(), String>>,
}

/// The hosts of a fabric.
pub(super) struct Hosts {
    // Most fabrics have no other: found without a look at a list, which each event of a root complex would pay for.
    first: HostSide,
    others: Vec<HostSide>,
}

impl Hosts {
    /// `None` without a host.
    pub(super) fn new(mut hosts: impl Iterator<Item = HostSide>) -> Option<Hosts> {
        Some(Hosts { first: hosts.next()?, others: hosts.collect() })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &HostSide> + Clone {
        std::iter::once(&self.first).chain(&self.others)
    }
}

impl Index<HostId> for Hosts {
    type Output = HostSide;

    #[inline]
    fn index(&self, id: HostId) -> &HostSide {
        if id == HostId::FIRST { &self.first } else { &self.others[id.index() - 1] }
    }
}

impl IndexMut<HostId> for Hosts {
    #[inline]
    fn index_mut(&mut self, id: HostId) -> &mut HostSide {
        if id == HostId::FIRST { &mut self.first } else { &mut self.others[id.index() - 1] }
    }
}

/// A host that there is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("host {host}: legal are 0 to {last}", host = .host.0)]
pub struct NoHost {
    /// The host named.
    pub host: HostId,
    /// The last that there is.
    pub last: usize,
}

impl HostSide {
    pub(super) fn new(root: RootComplex, root_ports: Vec<usize>, program: Option<HostSlot>) -> HostSide {
        HostSide { root, root_ports, program, outcome: None }
    }

    /// What a call to the root complex has led to: when it is to be called again, and where transactions have spent their time.
    /// Most often it is the turn that memory gives to one request, or nothing.
    #[inline(always)]
    pub(super) fn heed(
        &mut self,
        id: HostId,
        queue: &mut SortedQueue,
        ledger: &mut Ledger,
        actions: &mut VecDeque<(usize, Action)>,
    ) {
        let effects = self.root.effects();
        match effects[..] {
            [] => {}
            [Effect::Written { account, asked, visible }] => {
                ledger.written(account, asked, visible);
                effects.clear();
            }
            [Effect::Served { account, job, now, asked, answered, ready }] => {
                ledger.served(account, now, asked, answered, ready);
                if ready > now {
                    queue.push(ready, Event::ReadReady(OfHost::new(id, job)));
                }
                effects.clear();
            }
            _ => self.heed_all(id, queue, ledger, actions),
        }
    }

    // Once in the program: it has many callers.
    #[inline(never)]
    pub(super) fn heed_all(
        &mut self,
        id: HostId,
        queue: &mut SortedQueue,
        ledger: &mut Ledger,
        actions: &mut VecDeque<(usize, Action)>,
    ) {
        let effects = self.root.effects();
        for effect in effects.drain(..) {
            match effect {
                Effect::Served { account, job, now, asked, answered, ready } => {
                    ledger.served(account, now, asked, answered, ready);
                    if ready > now {
                        queue.push(ready, Event::ReadReady(OfHost::new(id, job)));
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

/// The hosts: what names none is of the first.
impl Fabric {
    /// The root complex of the first host, to look at.
    #[must_use]
    pub fn root(&self) -> &RootComplex {
        &self.hosts[HostId::FIRST].root
    }

    /// The root complex of `host`, to look at.
    ///
    /// # Errors
    /// Where there is no such host.
    pub fn root_of(&self, host: HostId) -> Result<&RootComplex, NoHost> {
        self.check_host(host)?;
        Ok(&self.hosts[host].root)
    }

    /// The root complex of `host`, to be set up.
    ///
    /// # Errors
    /// Where there is no such host.
    pub fn root_of_mut(&mut self, host: HostId) -> Result<&mut RootComplex, NoHost> {
        self.check_host(host)?;
        Ok(&mut self.hosts[host].root)
    }

    fn check_host(&self, host: HostId) -> Result<(), NoHost> {
        let last = self.hosts.others.len();
        if host.index() <= last { Ok(()) } else { Err(NoHost { host, last }) }
    }

    /// Counters of the root complex.
    #[must_use]
    pub fn root_counters(&self) -> &RootCounters {
        self.root().counters()
    }

    /// What caches and IOMMU of the host have seen, where its profile describes them.
    #[must_use]
    pub fn memory_counters(&self) -> Option<&MemoryCounters> {
        self.root().memory_counters()
    }

    /// Counters of root ports that are functions.
    #[must_use]
    pub fn root_function_counters(&self) -> &RootFunctionCounters {
        self.root().function_counters()
    }

    /// What the IOMMU lets `requester` reach: see [`RootComplex::restrict_dma`].
    pub fn restrict_dma(&mut self, requester: Bdf, first: u64, bytes: u64) {
        self.hosts[HostId::FIRST].root.restrict_dma(requester, first, bytes);
    }

    /// What becomes of requests from one root port to another, where both have configuration spaces.
    pub fn set_peer_to_peer(&mut self, mode: PeerToPeer) {
        self.hosts[HostId::FIRST].root.set_peer_to_peer(mode);
    }

    /// Has root port `n` be as firmware leaves it, for devices that nobody enumerates: see
    /// [`RootPortConfig::preset`](crate::RootPortConfig::preset).
    pub fn preset_root_port(&mut self, n: usize) {
        self.hosts[HostId::FIRST].root.preset(n);
    }

    /// From now on DMA of `requester`, a function below `below`, reaches the memory of `of` in place of that of its own host, as
    /// where a function is given to a guest. It takes the time that its own host's memory takes; its interrupts stay its own host's.
    ///
    /// # Errors
    /// Where there is no such host.
    pub fn grant_dma(&mut self, below: HostId, requester: Bdf, of: HostId) -> Result<(), NoHost> {
        let memory = self.root_of(of)?.memory().clone();
        self.root_of_mut(below)?.grant_dma(requester, memory);
        Ok(())
    }

    /// How the program of the first host has ended; `None` while it runs, or where there is none.
    #[must_use]
    pub fn host_outcome(&self) -> Option<&Result<(), String>> {
        self.hosts[HostId::FIRST].outcome.as_ref()
    }

    /// Who stands above `host` was given something from outside the fabric: it is called now where it wants to be
    /// ([`HostProgram::poll_timeout`](host::HostProgram::poll_timeout)), and asked for what it has to send.
    ///
    /// # Errors
    /// Where there is no such host.
    pub fn wake_host(&mut self, host: HostId) -> Result<(), NoHost> {
        self.check_host(host)?;
        self.queue.push(self.now, Event::Host(host));
        Ok(())
    }

    /// How all programs have ended: the first that failed, or well when the last has; `None` while any runs, or where there is
    /// none.
    pub(super) fn outcome(&self) -> Option<Result<(), String>> {
        let mut of_programs = self.hosts.iter().enumerate().filter(|(_, host)| host.program.is_some());
        let failed = of_programs.clone().find_map(|(n, host)| match &host.outcome {
            Some(Err(why)) => Some(self.of_host(n, why)),
            _ => None,
        });
        if let Some(why) = failed {
            return Some(Err(why));
        }
        let all_ended = of_programs.clone().all(|(_, host)| host.outcome.is_some());
        (all_ended && of_programs.next().is_some()).then_some(Ok(()))
    }

    /// A line on host `n`, which names it where there are several.
    pub(super) fn of_host(&self, n: usize, line: &str) -> String {
        if self.hosts.others.is_empty() { line.to_owned() } else { format!("host {n}: {line}") }
    }

    pub(super) fn step_host(&mut self, id: HostId) {
        if !self.host_started {
            return;
        }
        self.last_progress = self.now;
        let host = &mut self.hosts[id];
        let Some(program) = &mut host.program else {
            // Nobody hears the interrupts.
            while host.root.poll_host_input(self.now).is_some() {}
            return;
        };
        let mut touched = std::mem::take(&mut self.touched);
        program.step(self.now, &mut host.root, &mut touched);
        let wakes = program.wakes(self.now);
        let ends = host.outcome.is_none() && program.outcome().is_some();
        if ends {
            host.outcome = program.outcome();
        }
        self.heed_root(id);
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
        self.obey_roots();
    }

    /// What a call to a root complex has led to.
    pub(super) fn heed_root(&mut self, id: HostId) {
        self.hosts[id].heed(id, &mut self.queue, &mut self.ledger, &mut self.actions);
    }
}
