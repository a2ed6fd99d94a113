// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One client of a virtual machine: its socket, and the memory that it has mapped for the device it is.

use super::messages::Messages;
use super::seat::{GuestCounters, Told};
use guest::memory::Memory;
use guest::net::Server;
use guest::sharing::Sharing;
use guest::vfio_user::{Dma, DmaMap, Errno, Event, Session};
use session::external::host::{Backing, HostPlace, HostRequest, MAP_BYTES, Map, MapAccess, MapError};
use session::external::{Door, Driver};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use tlp::{AtomicOp, Bdf, Time};

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

/// All addresses of 64 bits that a map may have.
const ALL_BYTES: u64 = u64::MAX - (MAP_BYTES - 1);

/// A device's client.
pub(super) struct Client {
    /// The machine that it is of, where that is another than the host's.
    pub(super) machine: Option<String>,
    /// What the device is called.
    pub(super) name: String,
    pub(super) server: Server,
    /// It has joined, and not gone.
    pub(super) is_there: bool,
    /// What is mapped, by its address: its bytes, and where they are reached without messages.
    mapped: BTreeMap<u64, (u64, Option<Rc<Memory>>)>,
    messages: Messages,
    /// All of its addresses are reached by messages, mapped or not.
    by_messages: bool,
    sharing: Sharing,
    pub(super) counters: GuestCounters,
}

/// Whose addresses are mapped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// Those of all functions that have none of their own.
    All,
    /// A function's.
    Of(Bdf),
    /// A function's that is nowhere.
    Nobody,
}

/// Where memory is mapped.
pub(super) struct Memories<'a> {
    pub(super) lab: &'a mut Driver,
    pub(super) door: &'a Door<HostPlace>,
    pub(super) whose: Whose,
    pub(super) now: Time,
}

impl Memories<'_> {
    fn check(&self, map: &Map) -> Result<(), MapError> {
        match self.whose {
            Whose::All => self.door.place.check_map(map),
            Whose::Of(function) => self.door.place.check_map_of(Some(function), map),
            Whose::Nobody => Ok(()),
        }
    }

    fn change(&mut self, request: impl FnOnce(Option<Bdf>) -> HostRequest) {
        let of = match self.whose {
            Whose::All => None,
            Whose::Of(function) => Some(function),
            Whose::Nobody => return,
        };
        self.lab.inject(self.now, self.door, request(of));
    }
}

impl Client {
    pub(super) fn new(machine: Option<String>, name: String, server: Server) -> Client {
        let (mapped, messages, by_messages, sharing, counters) = Default::default();
        Client { machine, name, server, is_there: false, mapped, messages, by_messages, sharing, counters }
    }

    /// From now on each DMA is a message, and the machine says what it may reach.
    pub(super) fn use_messages_alone(&mut self) {
        self.by_messages = true;
    }

    /// It has joined. Where messages alone reach its memory, all of its addresses are mapped so.
    pub(super) fn join(&mut self, memories: &mut Memories<'_>) {
        self.is_there = true;
        if self.by_messages && memories.whose != Whose::Nobody {
            let all = Map { address: 0, bytes: ALL_BYTES, access: MapAccess::ReadWrite };
            memories.change(|of| HostRequest::map_of(of, all, self.messages.map(0)));
            self.server.session_mut().into_iter().for_each(Session::ask_beyond_maps);
            self.mapped.insert(0, (ALL_BYTES, None));
        }
    }

    /// Takes an event of memory; what is to be told of it.
    pub(super) fn memory(&mut self, event: Event, memories: &mut Memories<'_>) -> Option<Told> {
        match event {
            Event::Map { token, map, fd, fd_offset } => {
                self.counters.maps_without_descriptor += u64::from(fd.is_none());
                let (result, told) = match self.map(memories, map, fd, fd_offset) {
                    Ok(()) => (Ok(&[][..]), None),
                    Err((errno, told)) => (Err(errno), told),
                };
                self.counters.maps += u64::from(result.is_ok());
                self.server.complete(token, result);
                return told;
            }
            Event::Unmap { token, maps } => {
                if !self.by_messages {
                    maps.iter().for_each(|map| self.unmap(memories, map.address));
                }
                self.server.complete(token, Ok(&[]));
            }
            Event::Dma { dma, result } if self.messages.answer(dma, &result) => {}
            Event::Dma { dma, result } if self.is_private(dma, &result) => return Some(Told::Private),
            _ => {}
        }
        None
    }

    fn map(
        &mut self,
        memories: &mut Memories<'_>,
        map: DmaMap,
        fd: Option<OwnedFd>,
        fd_offset: u64,
    ) -> Result<(), (Errno, Option<Told>)> {
        if self.by_messages {
            return Ok(());
        }
        let memory = fd.map(|fd| Memory::new(fd, fd_offset, map.size, map.access)).transpose();
        let memory = memory.map_err(|why| (why.errno(), Some(Told::Unreachable(why))))?.map(Rc::new);
        let access = if map.access.write { MapAccess::ReadWrite } else { MapAccess::Read };
        let asked = Map { address: map.address, bytes: map.size, access };
        memories.check(&asked).map_err(|why| (Errno::INVAL, Some(Told::Unmappable(why))))?;
        memories.change(|of| match &memory {
            Some(memory) => HostRequest::map_of(of, asked, Mapped(memory.clone())),
            None => HostRequest::map_of(of, asked, self.messages.map(map.address)),
        });
        self.mapped.insert(map.address, (map.size, memory));
        Ok(())
    }

    fn unmap(&mut self, memories: &mut Memories<'_>, address: u64) {
        if let Some((bytes, _)) = self.mapped.remove(&address) {
            memories.change(|of| HostRequest::unmap_of(of, address, bytes));
        }
    }

    /// Memory that is reached by messages.
    pub(super) fn messages(&self) -> &Messages {
        &self.messages
    }

    /// Sends the messages that may be. Signals interrupts that waited for some; how many, and how many were lost.
    pub(super) fn send(&mut self) -> [u64; 2] {
        let mut signalled = [0; 2];
        if let Some(session) = self.server.session_mut() {
            self.messages.send(session);
        }
        while let Some((irq, n)) = self.messages.released() {
            signalled[usize::from(!self.server.signal(irq, n))] += 1;
        }
        signalled
    }

    /// Asks whether what is mapped is what the machine sees.
    pub(super) fn ask_whether_shared(&mut self) {
        if let Some(session) = self.server.session_mut() {
            self.sharing.ask(session);
        }
    }

    /// Whether that tells that the machine's memory is not shared.
    fn is_private(&mut self, dma: Dma, result: &Result<Vec<u8>, Errno>) -> bool {
        let Some(session) = self.server.session_mut() else { return false };
        let held = |address, to: &mut [u8]| match self.mapped.get(&address) {
            Some((_, Some(memory))) => memory.read(0, to),
            _ => false,
        };
        self.sharing.answer(session, dma, result, held)
    }

    /// It has gone, and its memory with it.
    pub(super) fn leave(&mut self, memories: &mut Memories<'_>) {
        let mapped: Vec<u64> = self.mapped.keys().copied().collect();
        mapped.into_iter().for_each(|address| self.unmap(memories, address));
        self.messages.clear();
        (self.sharing, self.is_there) = (Sharing::default(), false);
    }
}
