// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One virtual machine with its VMD: takes what comes at its socket, and tells it what comes back.

use crate::external::host::{Backing, HostPlace, HostRequest, Map, MapAccess};
use crate::external::{Door, Driver};
use guest::memory::{Memory, MemoryError};
use guest::net::{ListenError, Peer, Server};
use guest::sharing::Sharing;
use guest::vfio_user::{
    Dma, DmaMap, Errno, Event, HangUp, Irq, IrqChange, IrqEvent, Refusal, Region, Shape, Token,
};
use guest::vmd::{Layout, LayoutError, Vmd};
use host::{HostInput, HostInterrupt};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use thiserror::Error;
use tlp::{AtomicOp, PayloadPool, Time};

/// Most bytes of one access of the machine: each DW of configuration space is a request of its own.
const MAX_TRANSFER: u32 = 1 << 16;

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
    /// Ranges without a descriptor, which DMA does not reach.
    pub maps_without_descriptor: u64,
    /// Commands that were refused.
    pub refused: u64,
}

/// A virtual machine above a host of a lab, with the socket that it comes to.
pub struct Guest {
    door: Door<HostPlace>,
    server: Server,
    vmd: Vmd<Token>,
    /// What is mapped, by its address.
    mapped: BTreeMap<u64, Rc<Memory>>,
    sharing: Sharing,
    counters: GuestCounters,
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
    /// Its memory is not shared: DMA changes a file that it does not look at.
    Private,
    /// It has gone.
    Gone(HangUp),
}

/// Memory of the machine, as the root complex reaches it.
struct Mapped(Rc<Memory>);

impl Backing for Mapped {
    fn read(&self, offset: u64, to: &mut [u8]) -> bool {
        self.0.read(offset, to)
    }

    fn write(&self, offset: u64, from: &[u8]) -> bool {
        self.0.write(offset, from)
    }

    fn operate(&self, offset: u64, op: AtomicOp, operands: &[u8], old: &mut [u8]) -> bool {
        self.0.operate(offset, op, operands, old)
    }
}

impl Guest {
    /// Seats a machine at a place of the lab, and listens for it at `socket`.
    ///
    /// # Errors
    /// The layout is not legal, or nobody can listen there.
    pub fn new(door: Door<HostPlace>, layout: Layout, socket: &Path) -> Result<Guest, GuestError> {
        let vmd = Vmd::new(layout, PayloadPool::new())?;
        let server = Server::bind(socket, shape(&vmd))?;
        Ok(Guest {
            door,
            server,
            vmd,
            mapped: BTreeMap::new(),
            sharing: Sharing::default(),
            counters: GuestCounters::default(),
        })
    }

    /// Where it listens.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// What has happened so far.
    pub fn counters(&self) -> GuestCounters {
        self.counters
    }

    /// Takes what the machine wants, as far as there is room; it joins the lab at `now`. `told` hears what is to be known. True if
    /// more may be there.
    ///
    /// # Errors
    /// Nobody can be listened for any more.
    pub fn take(
        &mut self,
        lab: &mut Driver,
        now: Time,
        mut told: impl FnMut(&mut Driver, Told),
    ) -> io::Result<bool> {
        let came = self.server.turn()?;
        if let Some(peer) = self.server.arrival() {
            told(lab, Told::Came(peer));
        }
        self.issue(lab, now);
        while self.vmd.accesses.has_room() && self.door.place.has_room() {
            let Some(event) = self.server.poll() else { return Ok(came) };
            self.event(event, lab, now, &mut told);
            self.issue(lab, now);
            self.answer();
        }
        Ok(true)
    }

    fn event(&mut self, event: Event, lab: &mut Driver, now: Time, told: &mut impl FnMut(&mut Driver, Told)) {
        match event {
            Event::Joined => {
                self.counters.clients += 1;
                told(lab, Told::Joined);
            }
            Event::Read { token, region, offset, len } => {
                self.counters.reads += 1;
                self.vmd.read(token, region as u32, offset, len as u32);
            }
            Event::Write { token, region, offset, data, .. } => {
                self.counters.writes += 1;
                self.vmd.write(token, region as u32, offset, &data);
            }
            Event::Map { token, map, fd, fd_offset } => {
                let result = self.map(lab, now, map, fd, fd_offset, told);
                self.server.complete(token, result.map(|()| &[][..]));
            }
            Event::Unmap { token, maps } => {
                maps.iter().for_each(|map| self.unmap(lab, now, map.address));
                self.server.complete(token, Ok(&[]));
            }
            Event::Reset { token } => {
                self.counters.resets += 1;
                self.reset(lab, now);
                self.server.complete(token, Ok(&[]));
            }
            Event::Refused(why) => {
                self.counters.refused += 1;
                told(lab, Told::Refused(why));
            }
            Event::HangUp(why) => {
                // All is as it left it, until it is told.
                told(lab, Told::Gone(why));
                self.leave(lab, now);
            }
            // From now on the device does DMA.
            Event::Irqs(IrqEvent { irq: Irq::Msix, change: IrqChange::Assigned, .. }) => {
                if let Some(session) = self.server.session_mut() {
                    self.sharing.ask(session);
                }
            }
            Event::Irqs(_) => {}
            Event::Dma { dma, result } => {
                if self.is_private(dma, &result) {
                    told(lab, Told::Private);
                }
            }
        }
    }

    /// Issues what may be.
    fn issue(&mut self, lab: &mut Driver, now: Time) {
        while self.door.place.has_room()
            && let Some(request) = self.vmd.accesses.poll_request()
        {
            // A VMD asks for nothing but what the seam has.
            if let Ok(request) = HostRequest::issue(request) {
                lab.inject(now, &self.door, request);
            }
        }
    }

    fn answer(&mut self) {
        while let Some(answer) = self.vmd.accesses.poll_answer() {
            self.server.complete(answer.token, Ok(&answer.bytes));
        }
    }

    /// Tells the machine what has come back.
    pub fn hear(&mut self) {
        while let Some((_, heard)) = self.door.place.hear() {
            match heard {
                HostInput::Done { id, result } => self.vmd.accesses.handle(id, &result),
                HostInput::Interrupt(interrupt) => self.interrupt(interrupt),
                _ => self.counters.messages += 1,
            }
        }
        self.answer();
        self.server.flush();
    }

    fn interrupt(&mut self, interrupt: HostInterrupt) {
        let count = match self.vmd.vector(&interrupt) {
            None => &mut self.counters.interrupts_foreign,
            Some(vector) if self.server.signal(Irq::Msix, vector.into()) => &mut self.counters.interrupts,
            Some(_) => &mut self.counters.interrupts_lost,
        };
        *count += 1;
    }

    fn map(
        &mut self,
        lab: &mut Driver,
        now: Time,
        map: DmaMap,
        fd: Option<OwnedFd>,
        fd_offset: u64,
        told: &mut impl FnMut(&mut Driver, Told),
    ) -> Result<(), Errno> {
        let Some(fd) = fd else {
            self.counters.maps_without_descriptor += 1;
            return Ok(());
        };
        let memory = Memory::new(fd, fd_offset, map.size, map.access).map_err(|why| {
            let errno = why.errno();
            told(lab, Told::Unreachable(why));
            errno
        })?;
        let access = if map.access.write { MapAccess::ReadWrite } else { MapAccess::Read };
        let asked = Map { address: map.address, bytes: map.size, access };
        self.door.place.check_map(&asked).map_err(|_| Errno::INVAL)?;
        let memory = Rc::new(memory);
        lab.inject(now, &self.door, HostRequest::map(asked, Mapped(memory.clone())));
        self.mapped.insert(map.address, memory);
        self.counters.maps += 1;
        Ok(())
    }

    /// Whether that tells that the machine's memory is not shared.
    fn is_private(&mut self, dma: Dma, result: &Result<Vec<u8>, Errno>) -> bool {
        let Some(session) = self.server.session_mut() else { return false };
        let held =
            |address, to: &mut [u8]| self.mapped.get(&address).is_some_and(|memory| memory.read(0, to));
        self.sharing.answer(session, dma, result, held)
    }

    fn unmap(&mut self, lab: &mut Driver, now: Time, address: u64) {
        if let Some(memory) = self.mapped.remove(&address) {
            lab.inject(now, &self.door, HostRequest::unmap(address, memory.bytes()));
        }
    }

    /// The client has gone: nothing of it is reached any more.
    fn leave(&mut self, lab: &mut Driver, now: Time) {
        let mapped: Vec<u64> = self.mapped.keys().copied().collect();
        mapped.into_iter().for_each(|address| self.unmap(lab, now, address));
        self.sharing = Sharing::default();
        self.vmd.accesses.abandon();
        self.reset(lab, now);
    }

    /// The VMD, and all below it, are as when the lab began.
    fn reset(&mut self, lab: &mut Driver, now: Time) {
        self.vmd.reset();
        lab.inject(now, &self.door, HostRequest::reset());
    }
}

/// The device that the machine's client sees.
fn shape(vmd: &Vmd<Token>) -> Shape {
    let mut shape = Shape { max_transfer: MAX_TRANSFER, ..Shape::new() };
    for (n, region) in (0..).zip(&mut shape.regions) {
        let size = vmd.region_bytes(n);
        *region = Region { size, readable: size > 0, writable: size > 0 };
    }
    shape.irqs[Irq::Msix as usize] = vmd.vectors().into();
    shape
}
