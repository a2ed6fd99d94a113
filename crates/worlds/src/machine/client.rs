// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One client of a virtual machine: its socket, and the memory that it has mapped for its device.

use super::counters::VmCounters;
use super::event::VmEvent;
use super::messages::Messages;
use super::placing::{self, Placed, Recovery, Resetting};
use guest::function::Facts;
use guest::memory::GuestMemory;
use guest::net::{ListenError, Server};
use guest::sharing::Sharing;
use guest::vfio_device::VfioDevice;
use guest::vfio_user::{Dma, DmaMap, Errno, Event, Session, Token};
use host::Cpu;
use session::external::host::{Backing, HostPlace, HostRequest, MAP_BYTES, Map, MapAccess, MapError};
use session::external::{Driver, Handle};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use tlp::{AtomicOp, Bdf, Time};

/// Memory of the machine, in the form in which the root complex reaches it.
struct Mapped(Rc<GuestMemory>);

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

/// Size of the largest 64-bit address range that a map may have.
const ALL_BYTES: u64 = u64::MAX - (MAP_BYTES - 1);

/// A device's client.
pub(super) struct Client {
    /// The name of the machine; `None` for the machine that is the host.
    pub(super) machine: Option<String>,
    /// The name of the device.
    pub(super) name: String,
    pub(super) device: Box<dyn VfioDevice<Token>>,
    /// How the device is reset and found again, if the device is a function.
    pub(super) recovery: Recovery,
    pub(super) server: Server,
    /// The client has joined and has not left.
    pub(super) is_there: bool,
    /// Mapped ranges by address: the size in bytes, and the memory if it is reached without messages.
    mapped: BTreeMap<u64, (u64, Option<Rc<GuestMemory>>)>,
    messages: Messages,
    /// All addresses are reached by messages, mapped or not.
    by_messages: bool,
    sharing: Sharing,
    pub(super) counters: VmCounters,
}

/// The addresses that a client maps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DmaScope {
    /// Host memory, for all functions that share its address space.
    Host,
    /// Address space of one function.
    Function(Bdf),
    /// No addresses: the function has no place.
    None,
}

/// The lab in which a client maps memory.
pub(super) struct DmaMemory<'a> {
    pub(super) lab: &'a mut Driver,
    pub(super) handle: &'a Handle<HostPlace>,
    pub(super) scope: DmaScope,
    pub(super) now: Time,
}

impl DmaMemory<'_> {
    fn check(&self, map: &Map) -> Result<(), MapError> {
        match self.scope {
            DmaScope::Host => self.handle.place.check_map(map),
            DmaScope::Function(function) => self.handle.place.check_map_of(Some(function), map),
            DmaScope::None => Ok(()),
        }
    }

    fn change(&mut self, request: impl FnOnce(Option<Bdf>) -> HostRequest) {
        let of = match self.scope {
            DmaScope::Host => None,
            DmaScope::Function(function) => Some(function),
            DmaScope::None => return,
        };
        self.lab.inject(self.now, self.handle, request(of));
    }
}

impl Client {
    /// Listens for the client of `device` at `path`.
    pub(super) fn bind(
        machine: Option<String>,
        name: String,
        device: Box<dyn VfioDevice<Token>>,
        path: &Path,
    ) -> Result<Client, ListenError> {
        let server = Server::bind(path, device.shape())?;
        let (recovery, mapped, messages, sharing, counters) = Default::default();
        let (is_there, by_messages) = (false, false);
        Ok(Client {
            machine,
            name,
            device,
            recovery,
            server,
            is_there,
            mapped,
            messages,
            by_messages,
            sharing,
            counters,
        })
    }

    /// Returns true if the device has a whole hierarchy below it.
    pub(super) fn is_hierarchy(&self) -> bool {
        self.device.function().is_none()
    }

    /// Returns the address space that the client maps.
    pub(super) fn scope(&self) -> DmaScope {
        match self.device.function() {
            None => DmaScope::Host,
            Some(function) if function.is_there() => DmaScope::Function(function.facts().function),
            Some(_) => DmaScope::None,
        }
    }

    /// Resets the device. Returns host code that resets the function, if the device is a function with a place.
    pub(super) fn reset(&mut self) -> Option<impl FnOnce(Cpu) -> Resetting + use<>> {
        self.device.reset();
        let function = self.device.function().filter(|function| function.is_there())?;
        Some(placing::reset(function.facts(), &self.recovery))
    }

    /// Records where firmware has placed the function.
    pub(super) fn place_function(&mut self, placed: Placed) {
        self.recovery = placed.recovery;
        self.move_function(placed.facts);
    }

    /// Records where the function was found.
    pub(super) fn move_function(&mut self, facts: Facts) {
        if let Some(function) = self.device.function_mut() {
            function.moved(facts);
        }
    }

    /// Records that the function is lost until it is found again.
    pub(super) fn lose_function(&mut self) {
        if let Some(function) = self.device.function_mut() {
            function.lost();
        }
    }

    /// Sends each DMA as a message from now on. The machine decides which memory the device may reach.
    pub(super) fn use_messages_alone(&mut self) {
        self.by_messages = true;
    }

    /// Records that the client has joined. If its memory is reached only by messages, maps all addresses that way.
    pub(super) fn join(&mut self, memories: &mut DmaMemory<'_>) {
        self.is_there = true;
        if self.by_messages && memories.scope != DmaScope::None {
            let all = Map { address: 0, bytes: ALL_BYTES, access: MapAccess::ReadWrite };
            memories.change(|of| HostRequest::map_of(of, all, self.messages.map(0)));
            self.server.session_mut().into_iter().for_each(Session::ask_beyond_maps);
            self.mapped.insert(0, (ALL_BYTES, None));
        }
    }

    /// Handles an event of memory. Returns an event for the supervisor.
    pub(super) fn memory(&mut self, event: Event, memories: &mut DmaMemory<'_>) -> Option<VmEvent> {
        match event {
            Event::Map { token, map, fd, fd_offset } => {
                self.counters.maps_without_descriptor += u64::from(fd.is_none());
                let (result, event) = match self.map(memories, map, fd, fd_offset) {
                    Ok(()) => (Ok(&[][..]), None),
                    Err((errno, event)) => (Err(errno), event),
                };
                self.counters.maps += u64::from(result.is_ok());
                self.server.complete(token, result);
                return event;
            }
            Event::Unmap { token, maps } => {
                if !self.by_messages {
                    maps.iter().for_each(|map| self.unmap(memories, map.address));
                }
                self.server.complete(token, Ok(&[]));
            }
            Event::Dma { dma, result } if self.messages.answer(dma, &result) => {}
            Event::Dma { dma, result } if self.is_private(dma, &result) => return Some(VmEvent::Private),
            _ => {}
        }
        None
    }

    fn map(
        &mut self,
        memories: &mut DmaMemory<'_>,
        map: DmaMap,
        fd: Option<OwnedFd>,
        fd_offset: u64,
    ) -> Result<(), (Errno, Option<VmEvent>)> {
        if self.by_messages {
            return Ok(());
        }
        let memory = fd.map(|fd| GuestMemory::new(fd, fd_offset, map.size, map.access)).transpose();
        let memory = memory.map_err(|why| (why.errno(), Some(VmEvent::Unreachable(why))))?.map(Rc::new);
        let access = if map.access.write { MapAccess::ReadWrite } else { MapAccess::Read };
        let asked = Map { address: map.address, bytes: map.size, access };
        memories.check(&asked).map_err(|why| (Errno::INVAL, Some(VmEvent::Unmappable(why))))?;
        memories.change(|of| match &memory {
            Some(memory) => HostRequest::map_of(of, asked, Mapped(memory.clone())),
            None => HostRequest::map_of(of, asked, self.messages.map(map.address)),
        });
        self.mapped.insert(map.address, (map.size, memory));
        Ok(())
    }

    fn unmap(&mut self, memories: &mut DmaMemory<'_>, address: u64) {
        if let Some((bytes, _)) = self.mapped.remove(&address) {
            memories.change(|of| HostRequest::unmap_of(of, address, bytes));
        }
    }

    /// Returns the memory that is reached by messages.
    pub(super) fn messages(&self) -> &Messages {
        &self.messages
    }

    /// Sends messages, and signals the interrupts that waited for them. Returns the numbers of signalled and lost
    /// interrupts.
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

    /// Asks whether the mapped memory is the memory that the machine sees.
    pub(super) fn ask_whether_shared(&mut self) {
        if let Some(session) = self.server.session_mut() {
            self.sharing.ask(session);
        }
    }

    /// Returns whether the answer shows that the machine's memory is not shared.
    fn is_private(&mut self, dma: Dma, result: &Result<Vec<u8>, Errno>) -> bool {
        let Some(session) = self.server.session_mut() else { return false };
        let held = |address, to: &mut [u8]| match self.mapped.get(&address) {
            Some((_, Some(memory))) => memory.read(0, to),
            _ => false,
        };
        self.sharing.answer(session, dma, result, held)
    }

    /// Unmaps the memory of a client that has left.
    pub(super) fn leave(&mut self, memories: &mut DmaMemory<'_>) {
        let mapped: Vec<u64> = self.mapped.keys().copied().collect();
        mapped.into_iter().for_each(|address| self.unmap(memories, address));
        self.messages.clear();
        (self.sharing, self.is_there) = (Sharing::default(), false);
        self.device.leave();
    }
}
