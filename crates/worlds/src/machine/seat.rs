// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One virtual machine: takes what comes at its sockets, and tells it what comes back.

use super::below::Below;
use super::client::{Client, Memories};
use super::errand;
use super::handover::Handover;
use super::placing::Places;
use guest::direct::Outcome;
use guest::memory::MemoryError;
use guest::net::{ListenError, Peer, Server};
use guest::vfio_user::{Event, HangUp, Irq, IrqChange, IrqEvent, Refusal};
use guest::vmd::{Layout, LayoutError, Vmd};
use host::memory::DmaAccess;
use host::{Cpu, HostInput, HostInterrupt};
use plug::Place;
use serde::Serialize;
use session::external::host::{HostPlace, HostRequest, MapError};
use session::external::{Door, Driver};
use std::io;
use std::ops::Add;
use std::path::Path;
use thiserror::Error;
use tlp::{PayloadPool, Time};

/// Most that is taken of one client before the others have their turn.
const MOST_OF_CLIENT: usize = 64;

/// What a machine has done, and what came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct GuestCounters {
    /// Clients that have come.
    pub clients: u64,
    /// Reads of a region.
    pub reads: u64,
    /// Writes of a region.
    pub writes: u64,
    /// Resets of the VMD.
    pub resets: u64,
    /// Interrupts that were signalled.
    pub interrupts: u64,
    /// Interrupts to a vector without a descriptor, or masked.
    pub interrupts_lost: u64,
    /// INTx, which a VMD does not hand on, and messages to an address that its driver never gives.
    pub interrupts_foreign: u64,
    /// Messages of functions that no root port takes.
    pub messages: u64,
    /// Ranges of memory that were mapped.
    pub maps: u64,
    /// Those of them without a descriptor, which DMA reaches by messages.
    pub maps_without_descriptor: u64,
    /// Commands that were refused.
    pub refused: u64,
}

impl Add for GuestCounters {
    type Output = GuestCounters;

    fn add(self, other: GuestCounters) -> GuestCounters {
        GuestCounters {
            clients: self.clients + other.clients,
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            resets: self.resets + other.resets,
            interrupts: self.interrupts + other.interrupts,
            interrupts_lost: self.interrupts_lost + other.interrupts_lost,
            interrupts_foreign: self.interrupts_foreign + other.interrupts_foreign,
            messages: self.messages + other.messages,
            maps: self.maps + other.maps,
            maps_without_descriptor: self.maps_without_descriptor + other.maps_without_descriptor,
            refused: self.refused + other.refused,
        }
    }
}

/// A virtual machine above a host of a lab, with the sockets that it comes to.
pub struct Guest {
    pub(super) door: Door<HostPlace>,
    /// The VMD's, and those of functions.
    pub(super) clients: Vec<Client>,
    pub(super) below: Below,
}

/// Where a machine finds a device.
#[derive(Clone, Copy, Debug)]
pub struct Socket<'g> {
    /// The machine, where it is not that of the host.
    pub machine: Option<&'g str>,
    /// What the device is called: `vmd`, or as its slot.
    pub device: &'g str,
    /// The socket.
    pub path: &'g Path,
}

/// Why a machine cannot be served.
#[derive(Debug, Error)]
pub enum GuestError {
    /// Its VMD.
    #[error("{0}")]
    Layout(#[from] LayoutError),
    /// Its socket.
    #[error("{0}")]
    Listen(#[from] ListenError),
    /// What is below it cannot be put into place.
    #[error("what is below the machine: {0}")]
    Places(String),
    /// A slot is called as no file can be.
    #[error(
        "slot `{0}`: its socket would have this name; legal are names without `/`, other than `.` and `..`"
    )]
    Name(String),
    /// No function is below it.
    #[error("no slot of this host has a function: there is nothing to hand to a machine")]
    Nothing,
}

/// What whoever serves a machine has to know of it.
#[derive(Debug)]
pub enum Told {
    /// Somebody has come, who is served or not.
    Came(Peer),
    /// The machine is there.
    Joined,
    /// It was refused something.
    Refused(Refusal),
    /// It has mapped memory that cannot be reached.
    Unreachable(MemoryError),
    /// It has asked for a map that cannot be.
    Unmappable(MapError),
    /// Its memory is not shared: DMA changes a file that it does not look at.
    Private,
    /// DMA to what it has not mapped, or not so, was refused: the first since this was told, and how many there were.
    Unmapped(DmaAccess, u64),
    /// So many writes of devices to memory that is reached by messages were lost: the machine did not take them, or not in time.
    WritesLost(u64),
    /// What is below it could not be put into place again.
    Misplaced(String),
    /// It has gone.
    Gone(HangUp),
    /// It is there without what it had: it runs on, and reads all ones.
    Lost(HangUp),
}

impl Guest {
    /// Seats a machine at a place of the lab, below a VMD, after firmware has set the root ports, and listens for it at `socket`.
    ///
    /// # Errors
    /// The layout is not legal, the firmware fails, or nobody can listen there.
    pub fn new(
        lab: &mut Driver,
        door: Door<HostPlace>,
        (layout, handover): (Layout, Handover),
        socket: &Path,
    ) -> Result<Guest, GuestError> {
        let below = Below::vmd(Vmd::new(layout, PayloadPool::new())?, handover);
        let clients = vec![Client::new(None, "vmd".to_owned(), Server::bind(socket, below.shape(0))?)];
        let mut guest = Guest { door, clients, below };
        guest.place(lab).map_err(GuestError::Places)?;
        Ok(guest)
    }

    /// Seats a machine that gets each function as a device of its own, after riser's firmware has put them into their places; listens
    /// for each at a socket in `folder`, named as the slot.
    ///
    /// # Errors
    /// The firmware fails, finds nothing, or nobody can listen there.
    pub fn direct(
        lab: &mut Driver,
        door: Door<HostPlace>,
        places: Places,
        folder: &Path,
    ) -> Result<Guest, GuestError> {
        let mut guest = Guest { door, clients: Vec::new(), below: Below::direct(places) };
        guest.place(lab).map_err(GuestError::Places)?;
        for name in guest.below.names() {
            guest.listen(None, name, folder)?;
        }
        if guest.clients.is_empty() { Err(GuestError::Nothing) } else { Ok(guest) }
    }

    /// Listens for the client of the next function, at a socket of its name in `folder`.
    pub(super) fn listen(
        &mut self,
        machine: Option<String>,
        name: String,
        folder: &Path,
    ) -> Result<(), GuestError> {
        if name.contains('/') || matches!(&*name, "." | "..") {
            return Err(GuestError::Name(name));
        }
        let server = Server::bind(&folder.join(&name), self.below.shape(self.clients.len()))?;
        self.clients.push(Client::new(machine, name, server));
        Ok(())
    }

    /// From now on each DMA is a message to the machine, whose IOMMU says what it may reach: also what it has not mapped. Before it joins.
    pub fn use_messages_alone(&mut self) {
        self.clients.iter_mut().for_each(Client::use_messages_alone);
    }

    /// Where it listens.
    pub fn sockets(&self) -> impl Iterator<Item = Socket<'_>> {
        self.clients.iter().map(|client| Socket {
            machine: client.machine.as_deref(),
            device: &client.name,
            path: client.server.path(),
        })
    }

    /// The sockets.
    pub(super) fn servers(&self) -> impl Iterator<Item = &Server> {
        self.clients.iter().map(|client| &client.server)
    }

    /// Descriptors that its machines may give for interrupts.
    pub fn vectors(&self) -> usize {
        self.servers().map(Server::vectors).sum()
    }

    /// What all machines have done so far.
    pub fn counters(&self) -> GuestCounters {
        self.clients.iter().fold(GuestCounters::default(), |sum, client| sum + client.counters)
    }

    /// What one machine has done so far: the host's, or that of this name.
    pub fn counters_of(&self, machine: Option<&str>) -> GuestCounters {
        let own = self.clients.iter().filter(|client| client.machine.as_deref() == machine);
        own.fold(GuestCounters::default(), |sum, client| sum + client.counters)
    }

    /// Takes what the machine wants, as far as there is room, and `most` of it; it joins the lab at `now`. `told` hears what is to be known.
    /// How many things it took, and whether more may be there already.
    ///
    /// # Errors
    /// Nobody can be listened for any more.
    pub fn take(
        &mut self,
        lab: &mut Driver,
        now: Time,
        most: usize,
        mut told: impl FnMut(&mut Driver, &str, Told),
    ) -> io::Result<(usize, bool)> {
        self.issue(lab, now);
        let (mut taken, mut more) = (0, false);
        for n in 0..self.clients.len() {
            self.clients[n].server.turn()?;
            if let Some(peer) = self.clients[n].server.arrival() {
                told(lab, &self.clients[n].name, Told::Came(peer));
            }
            let begun = taken;
            loop {
                if taken == most
                    || taken - begun == MOST_OF_CLIENT
                    || !(self.below.has_room() && self.door.place.has_room())
                {
                    more = true;
                    break;
                }
                let Some(event) = self.clients[n].server.poll() else { break };
                taken += 1;
                self.event(n, event, lab, now, &mut told);
                self.issue(lab, now);
                self.answer();
            }
        }
        for client in &self.clients {
            match client.messages().lost() {
                0 => {}
                lost => told(lab, &client.name, Told::WritesLost(lost)),
            }
        }
        if let Some((first, count)) = self.door.place.refused_dma() {
            told(lab, "", Told::Unmapped(first, count));
        }
        Ok((taken, more))
    }

    fn event(
        &mut self,
        n: usize,
        event: Event,
        lab: &mut Driver,
        now: Time,
        told: &mut impl FnMut(&mut Driver, &str, Told),
    ) {
        match event {
            Event::Joined => {
                self.clients[n].counters.clients += 1;
                if let Err(why) = self.fetch(n, lab) {
                    told(lab, &self.clients[n].name, Told::Misplaced(why));
                    return self.clients[n].server.hang_up(HangUp::Absent);
                }
                let mut memories = Memories { lab, door: &self.door, whose: self.below.whose(n), now };
                self.clients[n].join(&mut memories);
                told(lab, &self.clients[n].name, Told::Joined);
            }
            Event::Read { token, region, offset, len } => {
                self.clients[n].counters.reads += 1;
                self.below.read((n, token), region, offset, len as u32);
            }
            Event::Write { token, region, offset, data, .. } => {
                self.clients[n].counters.writes += 1;
                let moving = self.below.moving(n, region, offset, &data);
                if !moving.is_empty() {
                    self.issue(lab, now);
                    self.release(&moving, lab, told);
                }
                if let Some((_, token)) = self.below.write((n, token), region, offset, &data) {
                    self.reset(n, lab, told);
                    self.clients[n].server.complete(token, Ok(&[]));
                }
                if !moving.is_empty() {
                    self.issue(lab, now);
                    self.follow(lab, told);
                }
            }
            Event::Map { .. } | Event::Unmap { .. } | Event::Dma { .. } => {
                self.memory(n, event, lab, now, told)
            }
            Event::Reset { token } => {
                self.clients[n].counters.resets += 1;
                self.reset(n, lab, told);
                self.clients[n].server.complete(token, Ok(&[]));
            }
            Event::Refused(why) => {
                self.clients[n].counters.refused += 1;
                told(lab, &self.clients[n].name, Told::Refused(why));
            }
            Event::HangUp(why) => {
                // All is as it left it, until it is told.
                let is_lost = self.clients[n].is_there && why.leaves_peer();
                let what = if is_lost { Told::Lost(why) } else { Told::Gone(why) };
                told(lab, &self.clients[n].name, what);
                self.leave(n, lab, now, told);
            }
            Event::Irqs(event) => self.irqs(n, event),
        }
    }

    fn memory(
        &mut self,
        n: usize,
        event: Event,
        lab: &mut Driver,
        now: Time,
        told: &mut impl FnMut(&mut Driver, &str, Told),
    ) {
        let mut memories = Memories { lab, door: &self.door, whose: self.below.whose(n), now };
        let what = self.clients[n].memory(event, &mut memories);
        if let Some(what) = what {
            told(lab, &self.clients[n].name, what);
        }
    }

    fn irqs(&mut self, n: usize, event: IrqEvent) {
        if event.change == IrqChange::Assigned && matches!(event.irq, Irq::Msi | Irq::Msix) {
            // From now on the device does DMA.
            self.clients[n].ask_whether_shared();
        }
        self.below.irqs(n, event);
    }

    /// Issues what may be.
    fn issue(&mut self, lab: &mut Driver, now: Time) {
        while self.door.place.has_room()
            && let Some(request) = self.below.poll_request()
        {
            // Neither a VMD nor a function asks for anything but what the seam has.
            if let Ok(request) = HostRequest::issue(request) {
                lab.inject(now, &self.door, request);
            }
        }
    }

    fn answer(&mut self) {
        while let Some(outcome) = self.below.poll() {
            match outcome {
                Outcome::Answer { token: (n, token), bytes } => {
                    self.clients[n].server.complete(token, Ok(&bytes));
                }
                Outcome::Signal { function, irq, n } => self.signal(function, irq, n),
            }
        }
    }

    /// Tells the machine what has come back, and asks on what that asks for.
    pub fn hear(&mut self, lab: &mut Driver) {
        while let Some((_, heard)) = self.door.place.hear() {
            self.heard(heard);
        }
        self.issue(lab, lab.now());
        self.answer();
    }

    /// Sends what the machine is to hear.
    pub fn flush(&mut self) {
        for client in &mut self.clients {
            let [signalled, lost] = client.send();
            client.counters.interrupts += signalled;
            client.counters.interrupts_lost += lost;
            client.server.flush();
        }
    }

    /// Whether its memory, which is reached by messages, is to take what was written to it before the fabric goes on. While an access of
    /// its is under way, it cannot.
    pub fn holds_up(&self) -> bool {
        !self.door.place.awaits_fabric() && self.clients.iter().any(|client| client.messages().is_full())
    }

    /// Whether a device waits for its memory, which is reached by messages.
    pub fn is_awaited(&self) -> bool {
        self.clients.iter().any(|client| client.messages().awaits())
    }

    fn heard(&mut self, heard: HostInput) {
        match heard {
            HostInput::Done { id, result } => self.below.handle(id, &result),
            HostInput::Interrupt(interrupt) => self.interrupt(interrupt),
            _ => self.clients[0].counters.messages += 1,
        }
    }

    fn interrupt(&mut self, interrupt: HostInterrupt) {
        match self.below.interrupt(&interrupt) {
            Some((n, irq, vector)) => self.signal(n, irq, vector),
            None if self.below.takes(&interrupt) => {}
            None => self.clients[0].counters.interrupts_foreign += 1,
        }
    }

    fn signal(&mut self, n: usize, irq: Irq, vector: u32) {
        let client = &mut self.clients[n];
        if client.messages().hold(irq, vector) {
            return;
        }
        match client.server.signal(irq, vector) {
            true => client.counters.interrupts += 1,
            false => client.counters.interrupts_lost += 1,
        }
    }

    /// All that is still there goes.
    pub fn end(&mut self, lab: &mut Driver, mut told: impl FnMut(&mut Driver, &str, Told)) {
        for n in 0..self.clients.len() {
            if self.clients[n].is_there {
                told(lab, &self.clients[n].name, Told::Gone(HangUp::Closed));
                self.leave(n, lab, lab.now(), &mut told);
            }
        }
    }

    /// The client has gone: nothing of it is reached any more.
    fn leave(
        &mut self,
        n: usize,
        lab: &mut Driver,
        now: Time,
        told: &mut impl FnMut(&mut Driver, &str, Told),
    ) {
        // One that could not be reset may still write: it keeps its addresses, of which none is mapped any longer.
        if self.is_assigned(n) && self.reset(n, lab, told) {
            self.give_back(n, lab, now);
        }
        let mut memories = Memories { lab, door: &self.door, whose: self.below.whose(n), now };
        self.clients[n].leave(&mut memories);
        self.below.leave(n);
        match self.clients.iter().any(|client| client.is_there) {
            _ if self.is_assigned(n) => self.below.lost(n),
            true => _ = self.reset(n, lab, told),
            false => self.begin_anew(lab, now, told),
        }
    }

    /// What the client has is as when the lab began: its VMD and all below that, or its function. False where that could not be reset.
    fn reset(&mut self, n: usize, lab: &mut Driver, told: &mut impl FnMut(&mut Driver, &str, Told)) -> bool {
        let code = self.below.reset(n);
        if self.below.is_hierarchy(n) {
            self.begin_anew(lab, lab.now(), told);
        }
        let Some(Err(why)) = code.map(|code| self.run(lab, code)) else { return true };
        told(lab, &self.clients[n].name, Told::Misplaced(why));
        false
    }

    /// All below the machine is as when the lab began.
    fn begin_anew(&mut self, lab: &mut Driver, now: Time, told: &mut impl FnMut(&mut Driver, &str, Told)) {
        lab.inject(now, &self.door, HostRequest::reset());
        for n in (0..self.clients.len()).filter(|n| self.is_assigned(*n)).collect::<Vec<_>>() {
            self.give_back(n, lab, now);
        }
        if let Err(why) = self.place(lab) {
            told(lab, "", Told::Misplaced(why));
        }
    }

    /// Has the firmware do what it does before the machine begins: see [`Below::code`].
    pub(super) fn place(&mut self, lab: &mut Driver) -> Result<(), String> {
        let placed = self.run(lab, self.below.code())?;
        self.below.placed(placed);
        Ok(())
    }

    /// Runs host code at the machine's place.
    pub(super) fn run<R, F>(&mut self, lab: &mut Driver, code: impl FnOnce(Cpu) -> F) -> Result<R, String>
    where
        R: 'static,
        F: Future<Output = Result<R, String>> + 'static,
    {
        let mut meanwhile = Vec::new();
        let result = errand::run(lab, &self.door, code, |heard| meanwhile.push(heard));
        meanwhile.into_iter().for_each(|heard| self.heard(heard));
        result
    }
}
