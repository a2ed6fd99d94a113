// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One client of a device, from its first byte to the end.

use super::check;
use super::dma::{Dma, DmaError, Requests};
use super::irqs::{self, IRQS, Irq, IrqEvent, Irqs};
use super::maps::{DmaMap, MAP_BYTES, Maps, UNMAP_BYTES};
use super::refusal::{HangUp, Refusal, VersionError};
use super::regions::{self, ACCESS_BYTES, Access, IO_FDS_BYTES, REGIONS, Region};
use super::stream::{Input, Message, Output};
use super::version::{Peer, agree};
use super::wire::command as c;
use super::wire::{ERROR, HEADER_BYTES, Header, NO_REPLY, REPLY, TYPE, longs, words};
use super::{MAX_FDS, Shape};
use crate::accesses::Bytes;
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of uncompleted events at which the session stops reading commands.
pub const MAX_PENDING: usize = 1024;
/// Maximum number of writes of one REGION_WRITE_MULTI; QEMU sends up to 200.
const MAX_WRITES: usize = 1024;
/// Bytes of pending and expected replies at which the session stops reading commands.
const MAX_REPLIES: usize = 4 << 20;

/// Identifies an event that must be completed. It is unique among all sessions of a process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(u64);

/// A client's request or state change. An event with a token must be completed with it, once: [`Session::complete`].
#[derive(Debug)]
pub enum Event {
    /// Version and capabilities are agreed.
    Joined,
    /// The client reads a region. Complete it with `len` bytes.
    Read {
        /// Identifier.
        token: Token,
        /// Index of the region.
        region: usize,
        /// Offset of the first byte in it.
        offset: u64,
        /// Number of bytes: at least one, at most [`Shape::max_transfer`], all within the region.
        len: usize,
    },
    /// The client writes a region. Complete it without data.
    Write {
        /// Identifier.
        token: Token,
        /// Index of the region.
        region: usize,
        /// Offset of the first byte in it.
        offset: u64,
        /// The bytes: at least one, all within the region.
        data: Bytes,
        /// Whether the client does not wait for the completion.
        posted: bool,
    },
    /// DMA may access a range of addresses from now on. Complete it without data; after an error, the range is not mapped.
    Map {
        /// Identifier.
        token: Token,
        /// The range. It overlaps no other.
        map: DmaMap,
        /// Descriptor of the memory. If `None`, DMA goes by messages ([`Session::dma_read`]).
        fd: Option<OwnedFd>,
        /// Offset of the range in `fd` in bytes, a multiple of the page size; plus the range's size at most `i64::MAX`.
        fd_offset: u64,
    },
    /// DMA must stop accessing these ranges. Complete it, without data, when no access is left.
    Unmap {
        /// Identifier.
        token: Token,
        /// The ranges, as they were mapped. Empty if all maps were to be removed and there were none.
        maps: Vec<DmaMap>,
    },
    /// The client resets the device. Complete it without data.
    Reset {
        /// Identifier.
        token: Token,
    },
    /// The client set up, masked, unmasked or triggered interrupts.
    Irqs(IrqEvent),
    /// DMA by message has ended.
    Dma {
        /// Identifier.
        dma: Dma,
        /// Data of a read, no bytes for a write, or the client's error.
        result: Result<Vec<u8>, Errno>,
    },
    /// A command was refused. The client has got the error; this event is for logging.
    Refused(Refusal),
    /// The connection is over; no event follows. Send the rest of [`outgoing`](Session::outgoing) and close the socket. All maps are
    /// removed.
    HangUp(HangUp),
}

/// A command with uncompleted events.
#[derive(Debug)]
struct Pending {
    header: Header,
    kind: Kind,
    /// Number of its events; `left` counts the uncompleted ones.
    events: usize,
    left: usize,
    /// First error of its events.
    error: Option<Errno>,
}

#[derive(Debug)]
enum Kind {
    Read(Access),
    Write(Access),
    /// This number of writes.
    Writes(u64),
    Map(DmaMap),
    /// The payload, which the reply repeats.
    Unmap([u8; UNMAP_BYTES]),
    Reset,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SessionState {
    /// The version is not agreed yet.
    New,
    Open(Peer),
    Over,
}

/// One client of a device.
#[derive(Debug)]
pub struct Session {
    shape: Shape,
    state: SessionState,
    input: Input,
    output: Output,
    events: VecDeque<Event>,
    /// By the token of each command's first event; the tokens of its other events follow.
    pending: BTreeMap<u64, Pending>,
    next_token: u64,
    /// Number of events in `pending`, and bytes of its replies.
    open: (usize, usize),
    maps: Maps,
    irqs: Irqs,
    requests: Requests,
    /// Whether DMA outside all maps may be requested.
    asks_beyond_maps: bool,
    /// How the session ends after all complete messages are handled.
    end: Option<Option<Errno>>,
}

/// Number of tokens per session.
const TOKENS: u64 = 1 << 40;

impl Session {
    /// Creates a session with a client that has just connected. Values above the limits of `shape` are clamped.
    #[must_use]
    pub fn new(shape: &Shape) -> Session {
        static SESSIONS: AtomicU64 = AtomicU64::new(0);
        let shape = Shape {
            max_transfer: shape.max_transfer.clamp(8, Shape::MAX_TRANSFER),
            max_maps: shape.max_maps.min(Shape::MAX_MAPS),
            irqs: shape.irqs.map(|count| count.min(Shape::MAX_IRQS)),
            regions: shape.regions,
        };
        Session {
            state: SessionState::New,
            input: Input::new(HEADER_BYTES + ACCESS_BYTES + (shape.max_transfer as usize).max(64 << 10)),
            output: Output::default(),
            events: VecDeque::new(),
            pending: BTreeMap::new(),
            next_token: SESSIONS.fetch_add(1, Ordering::Relaxed).wrapping_mul(TOKENS),
            open: (0, 0),
            maps: Maps::new(shape.max_maps),
            irqs: Irqs::new(shape.irqs),
            requests: Requests::default(),
            asks_beyond_maps: false,
            end: None,
            shape,
        }
    }

    /// Passes on the result of one receive call: bytes, and the descriptors that came with them. The descriptors belong to the message
    /// with the last byte: one receive call never returns bytes sent after the descriptors (`unix(7)`).
    pub fn receive(&mut self, bytes: &[u8], fds: impl IntoIterator<Item = OwnedFd>) {
        if self.state != SessionState::Over {
            self.input.receive(bytes, fds);
        }
    }

    /// Returns how many bytes [`receive`](Self::receive) should get at most; zero while enough work is pending. More bytes are accepted
    /// and buffered.
    #[must_use]
    pub fn room(&self) -> usize {
        let takes = self.state != SessionState::Over && self.end.is_none() && self.may_go_on();
        if takes { self.input.room() } else { 0 }
    }

    /// Signals that the peer closed the connection, or that it failed. Earlier messages are still handled.
    pub fn closed(&mut self, failure: Option<Errno>) {
        self.end.get_or_insert(failure);
    }

    /// Ends the session for a reason of the caller. Drops pending events.
    pub fn hang_up(&mut self, why: HangUp) {
        if self.state != SessionState::Over {
            self.events.clear();
            self.end_with(why);
        }
    }

    /// Returns the next event. `None` until more is received, completed or sent.
    pub fn poll(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if self.state == SessionState::Over || !self.may_go_on() {
                return None;
            }
            match self.input.next() {
                Ok(Some(message)) => self.message(message),
                Ok(None) => match self.end {
                    None => return None,
                    Some(Some(errno)) => self.end_with(HangUp::Failed(errno)),
                    Some(None) if self.input.is_within_message() => self.end_with(HangUp::ClosedWithin),
                    Some(None) => self.end_with(HangUp::Closed),
                },
                Err(why) => self.end_with(why),
            }
        }
    }

    /// Completes an event: a read with its data, any other with none. Ignores unknown tokens and tokens of other sessions. A read with
    /// a wrong number of bytes fails with `EIO`.
    pub fn complete(&mut self, token: Token, result: Result<&[u8], Errno>) {
        let Some((&first, pending)) = self.pending.range_mut(..=token.0).next_back() else { return };
        if token.0 - first >= pending.events as u64 {
            return;
        }
        let result = match (&pending.kind, result) {
            (Kind::Read(access), Ok(data)) if data.len() != access.count as usize => Err(Errno::IO),
            (_, result) => result,
        };
        pending.error = pending.error.or(result.err());
        pending.left -= 1;
        self.open.0 -= 1;
        if pending.left == 0
            && let Some(pending) = self.pending.remove(&first)
        {
            self.open.1 -= pending.reply_bytes();
            self.answer(pending, result.unwrap_or_default());
        }
    }

    /// Returns the client's event descriptor for an interrupt.
    #[must_use]
    pub fn vector(&self, irq: Irq, n: u32) -> Option<BorrowedFd<'_>> {
        self.irqs.eventfd(irq, n)
    }

    /// Returns whether an interrupt is masked, by the client or because a wire was signalled.
    #[must_use]
    pub fn is_masked(&self, irq: Irq, n: u32) -> bool {
        self.irqs.is_masked(irq, n)
    }

    /// Returns the descriptor to signal now for an interrupt; `None` if it has none or is masked. This masks a wire until the client
    /// unmasks it ([`super::IrqChange::Unmasked`]).
    pub fn signal(&mut self, irq: Irq, n: u32) -> Option<BorrowedFd<'_>> {
        self.irqs.signal(irq, n)
    }

    /// Returns the ranges that DMA may access, by address.
    pub fn maps(&self) -> impl Iterator<Item = &DmaMap> {
        self.maps.all()
    }

    /// Returns the maximum number of bytes of one [`dma_read`](Self::dma_read) or [`dma_write`](Self::dma_write); zero without a
    /// client.
    #[must_use]
    pub fn max_dma(&self) -> u64 {
        match self.state {
            SessionState::Open(peer) => peer.max_transfer.min(self.shape.max_transfer.into()),
            _ => 0,
        }
    }

    /// Allows DMA by message outside all maps. The client's IOMMU then decides whether it is legal.
    pub fn ask_beyond_maps(&mut self) {
        self.asks_beyond_maps = true;
    }

    /// Reads memory of the client by message; [`Event::Dma`] delivers the data.
    ///
    /// # Errors
    /// If the range does not fit in one message or is not within one readable map.
    pub fn dma_read(&mut self, address: u64, len: u64) -> Result<Dma, DmaError> {
        self.check_dma(address, len, |map| map.access.read)?;
        self.dma(c::DMA_READ, address, len as usize, &[])
    }

    /// Writes memory of the client by message; [`Event::Dma`] signals the end.
    ///
    /// # Errors
    /// If the range does not fit in one message or is not within one writable map.
    pub fn dma_write(&mut self, address: u64, data: &[u8]) -> Result<Dma, DmaError> {
        self.check_dma(address, data.len() as u64, |map| map.access.write)?;
        self.dma(c::DMA_WRITE, address, 0, data)
    }

    /// Returns the bytes to send in one call: whole messages, unless one is very long. Empty if there is nothing to send.
    #[must_use]
    pub fn outgoing(&self) -> &[u8] {
        self.output.next()
    }

    /// Removes sent bytes from [`outgoing`](Self::outgoing).
    pub fn sent(&mut self, bytes: usize) {
        self.output.sent(bytes);
    }

    /// Returns whether a client is connected and has agreed on a version.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.state, SessionState::Open(_))
    }

    /// Returns whether the session has ended and all events were polled.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.is_over() && self.events.is_empty()
    }

    /// Returns whether the session has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state == SessionState::Over
    }

    fn may_go_on(&self) -> bool {
        self.open.0 < MAX_PENDING && self.open.1 + self.output.len() < MAX_REPLIES
    }

    fn end_with(&mut self, why: HangUp) {
        self.state = SessionState::Over;
        self.pending.clear();
        self.open = (0, 0);
        self.input = Input::new(0);
        self.maps = Maps::new(0);
        self.irqs = Irqs::new([0; IRQS]);
        self.requests = Requests::default();
        self.events.push_back(Event::HangUp(why));
    }

    fn message(&mut self, message: Message) {
        let Message { header, payload, fds } = message;
        let bytes = self.input.take_bytes();
        let payload = &bytes[payload];
        if header.flags & TYPE == REPLY {
            match self.requests.answer(header, payload) {
                Ok((dma, result)) => self.events.push_back(Event::Dma { dma, result }),
                Err(why) => self.end_with(why),
            }
        } else if self.state == SessionState::New {
            self.join(header, payload, &fds);
        } else if let Err(refusal) = self.command(header, payload, fds) {
            self.error(header, refusal.errno());
            self.events.push_back(Event::Refused(refusal));
        }
        if self.state != SessionState::Over {
            self.input.put_bytes(bytes);
        }
    }

    fn join(&mut self, header: Header, payload: &[u8], fds: &[OwnedFd]) {
        if header.command != c::VERSION {
            return self.end_with(HangUp::NoVersion(header.command));
        }
        let agreed = if header.flags != 0 || !fds.is_empty() {
            Err(VersionError::Flags(header.flags))
        } else {
            agree(&self.shape, payload)
        };
        match agreed {
            Ok(agreed) => {
                self.state = SessionState::Open(agreed.peer);
                self.reply(header, |out| out.extend(agreed.reply));
                self.events.push_back(Event::Joined);
            }
            Err(error) => {
                self.error(header, Errno::INVAL);
                self.end_with(HangUp::Version(error));
            }
        }
    }

    fn command(&mut self, header: Header, payload: &[u8], fds: Vec<OwnedFd>) -> Result<(), Refusal> {
        let command = header.command;
        if header.flags & !NO_REPLY != 0 {
            return Err(Refusal::HeaderFlags { command, flags: header.flags });
        }
        let most = match command {
            c::DMA_MAP => 1,
            c::DEVICE_SET_IRQS => MAX_FDS,
            _ => 0,
        };
        if fds.len() > most {
            return Err(Refusal::Descriptors { command, fds: fds.len(), most });
        }
        match command {
            c::VERSION => Err(Refusal::Again),
            c::DMA_MAP => self.map(header, payload, fds),
            c::DMA_UNMAP => self.unmap(header, payload),
            c::DEVICE_GET_INFO => self.device_info(header, payload),
            c::DEVICE_GET_REGION_INFO => self.region_info(header, payload),
            c::DEVICE_GET_REGION_IO_FDS => self.region_io_fds(header, payload),
            c::DEVICE_GET_IRQ_INFO => self.irq_info(header, payload),
            c::DEVICE_SET_IRQS => self.set_irqs(header, payload, fds),
            c::REGION_READ => self.read(header, payload),
            c::REGION_WRITE => self.write(header, payload),
            c::REGION_WRITE_MULTI => self.write_multi(header, payload),
            c::DEVICE_RESET => self.reset(header, payload),
            c::DMA_READ | c::DMA_WRITE => Err(Refusal::Direction(command)),
            c::DIRTY_PAGES | c::DEVICE_FEATURE | c::MIG_DATA_READ | c::MIG_DATA_WRITE => {
                Err(Refusal::Migration(command))
            }
            _ => Err(Refusal::Unknown(command)),
        }
    }

    fn map(&mut self, header: Header, payload: &[u8], mut fds: Vec<OwnedFd>) -> Result<(), Refusal> {
        check::length(header.command, payload, MAP_BYTES)?;
        let fd = fds.pop();
        let (map, fd_offset) = self.maps.map(payload, fd.is_some())?;
        let token = self.pend(header, Kind::Map(map));
        self.events.push_back(Event::Map { token, map, fd, fd_offset });
        Ok(())
    }

    fn unmap(&mut self, header: Header, payload: &[u8]) -> Result<(), Refusal> {
        check::length(header.command, payload, UNMAP_BYTES)?;
        let maps = self.maps.unmap(payload)?;
        let mut echo = [0; UNMAP_BYTES];
        echo.copy_from_slice(payload);
        let token = self.pend(header, Kind::Unmap(echo));
        self.events.push_back(Event::Unmap { token, maps });
        Ok(())
    }

    fn device_info(&mut self, header: Header, payload: &[u8]) -> Result<(), Refusal> {
        const BYTES: usize = 16;
        /// `VFIO_DEVICE_FLAGS_RESET` and `PCI`.
        const FLAGS: u32 = 0x3;
        check::length(header.command, payload, BYTES)?;
        let [argsz, flags, regions, irqs] = words(payload, 0);
        check::argsz(header.command, argsz, BYTES)?;
        let zeros = [("flags", flags.into()), ("num_regions", regions.into()), ("num_irqs", irqs.into())];
        check::zeros(header.command, &zeros)?;
        self.reply_words(header, [BYTES as u32, FLAGS, REGIONS as u32, IRQS as u32]);
        Ok(())
    }

    fn region_info(&mut self, header: Header, payload: &[u8]) -> Result<(), Refusal> {
        check::length(header.command, payload, regions::INFO_BYTES)?;
        let (index, flags, size) = regions::info(&self.shape.regions, payload)?;
        self.reply(header, |out| {
            for field in [regions::INFO_BYTES as u32, flags, index, 0] {
                out.extend_from_slice(&field.to_ne_bytes());
            }
            out.extend_from_slice(&size.to_ne_bytes());
            out.extend_from_slice(&0u64.to_ne_bytes());
        });
        Ok(())
    }

    /// Regions have no descriptors, because every access must come through the session.
    fn region_io_fds(&mut self, header: Header, payload: &[u8]) -> Result<(), Refusal> {
        check::length(header.command, payload, IO_FDS_BYTES)?;
        let index = regions::io_fds(&self.shape.regions, payload)?;
        self.reply_words(header, [IO_FDS_BYTES as u32, 0, index, 0]);
        Ok(())
    }

    fn irq_info(&mut self, header: Header, payload: &[u8]) -> Result<(), Refusal> {
        check::length(header.command, payload, irqs::INFO_BYTES)?;
        let [flags, index, count] = self.irqs.info(payload)?;
        self.reply_words(header, [irqs::INFO_BYTES as u32, flags, index, count]);
        Ok(())
    }

    fn set_irqs(&mut self, header: Header, payload: &[u8], fds: Vec<OwnedFd>) -> Result<(), Refusal> {
        let events = &mut self.events;
        self.irqs.set(payload, fds, |change| events.push_back(Event::Irqs(change)))?;
        self.reply(header, |_| {});
        Ok(())
    }

    fn read(&mut self, header: Header, payload: &[u8]) -> Result<(), Refusal> {
        check::length(header.command, payload, ACCESS_BYTES)?;
        let access = self.access(header, payload)?;
        if access.count == 0 {
            self.reply(header, |out| access.write(out));
            return Ok(());
        }
        let token = self.pend(header, Kind::Read(access));
        let (region, offset, len) = (access.region as usize, access.offset, access.count as usize);
        self.events.push_back(Event::Read { token, region, offset, len });
        Ok(())
    }

    fn write(&mut self, header: Header, payload: &[u8]) -> Result<(), Refusal> {
        if payload.len() < ACCESS_BYTES {
            check::length(header.command, payload, ACCESS_BYTES)?;
        }
        let access = self.access(header, payload)?;
        check::length(header.command, payload, ACCESS_BYTES + access.count as usize)?;
        if access.count == 0 {
            self.reply(header, |out| access.write(out));
            return Ok(());
        }
        let token = self.pend(header, Kind::Write(access));
        self.push_write(token, access, &payload[ACCESS_BYTES..], header);
        Ok(())
    }

    fn write_multi(&mut self, header: Header, payload: &[u8]) -> Result<(), Refusal> {
        let entries = regions::entries(&self.shape.regions, payload, MAX_WRITES)?;
        let entries = entries.filter(|(access, _)| access.count > 0);
        let count = entries.clone().count();
        let [all] = longs(payload, 0);
        if count == 0 {
            self.reply(header, |out| out.extend_from_slice(&all.to_ne_bytes()));
            return Ok(());
        }
        let first = self.pend_all(header, Kind::Writes(all), count);
        for (n, (access, data)) in entries.enumerate() {
            self.push_write(Token(first.0 + n as u64), access, data, header);
        }
        Ok(())
    }

    fn reset(&mut self, header: Header, payload: &[u8]) -> Result<(), Refusal> {
        check::length(header.command, payload, 0)?;
        let token = self.pend(header, Kind::Reset);
        self.events.push_back(Event::Reset { token });
        Ok(())
    }

    fn access(&self, header: Header, payload: &[u8]) -> Result<Access, Refusal> {
        let access = Access::read(payload);
        let regions: &[Region; REGIONS] = &self.shape.regions;
        access.check(regions, header.command, self.shape.max_transfer)?;
        Ok(access)
    }

    fn push_write(&mut self, token: Token, access: Access, data: &[u8], header: Header) {
        let (region, offset, data) = (access.region as usize, access.offset, Bytes::from_slice(data));
        let posted = !header.wants_reply();
        self.events.push_back(Event::Write { token, region, offset, data, posted });
    }

    fn pend(&mut self, header: Header, kind: Kind) -> Token {
        self.pend_all(header, kind, 1)
    }

    fn pend_all(&mut self, header: Header, kind: Kind, events: usize) -> Token {
        let token = self.next_token;
        self.next_token += events as u64;
        let pending = Pending { header, kind, events, left: events, error: None };
        self.open = (self.open.0 + events, self.open.1 + pending.reply_bytes());
        self.pending.insert(token, pending);
        Token(token)
    }

    /// Sends the reply to a finished command.
    fn answer(&mut self, pending: Pending, data: &[u8]) {
        let Pending { header, kind, error, .. } = pending;
        if let Some(error) = error {
            if let Kind::Map(map) = kind {
                self.maps.remove(map.address);
            }
            return self.error(header, error);
        }
        self.reply(header, |out| match kind {
            Kind::Read(access) => {
                access.write(out);
                out.extend_from_slice(data);
            }
            Kind::Write(access) => access.write(out),
            Kind::Writes(count) => out.extend_from_slice(&count.to_ne_bytes()),
            Kind::Unmap(echo) => out.extend_from_slice(&echo),
            Kind::Map(_) | Kind::Reset => {}
        });
    }

    fn reply(&mut self, to: Header, fill: impl FnOnce(&mut Vec<u8>)) {
        if to.wants_reply() {
            self.output.message(Header { size: 0, flags: REPLY, error: 0, ..to }, fill);
        }
    }

    fn reply_words(&mut self, to: Header, words: [u32; 4]) {
        self.reply(to, |out| words.iter().for_each(|word| out.extend_from_slice(&word.to_ne_bytes())));
    }

    fn error(&mut self, to: Header, errno: Errno) {
        if to.wants_reply() {
            let error = errno.raw_os_error() as u32;
            self.output.message(Header { size: 0, flags: REPLY | ERROR, error, ..to }, |_| {});
        }
    }

    fn check_dma(&self, address: u64, len: u64, allows: impl Fn(&DmaMap) -> bool) -> Result<(), DmaError> {
        if !self.is_open() {
            return Err(DmaError::NotOpen);
        }
        let most = self.max_dma();
        if len == 0 || len > most {
            return Err(DmaError::Length { bytes: len, most });
        }
        match self.asks_beyond_maps || self.maps.of(address, len).is_some_and(allows) {
            true => Ok(()),
            false => Err(DmaError::NotMapped { address, bytes: len }),
        }
    }

    fn dma(&mut self, command: u16, address: u64, reads: usize, data: &[u8]) -> Result<Dma, DmaError> {
        let count = reads.max(data.len());
        let (dma, id) = self.requests.ask(address, reads, count)?;
        let header = Header { id, command, size: 0, flags: 0, error: 0 };
        self.output.message(header, |out| self.requests.write(address, count as u64, data, out));
        Ok(dma)
    }
}

impl Pending {
    /// Returns the approximate size of the reply in bytes.
    fn reply_bytes(&self) -> usize {
        match self.kind {
            Kind::Read(access) => HEADER_BYTES + ACCESS_BYTES + access.count as usize,
            _ => HEADER_BYTES + UNMAP_BYTES,
        }
    }
}
