// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the host asks of devices: tags, matching of completions, and the completion timeout.

use super::{MAX_POSTED_OUT, Outbound, RootComplex};
use crate::profile::HostProfile;
use crate::queue::{Event, EventQueue, SortedQueue};
use crate::stages::Stage;
use crate::topology::Side;
use device::host::{HostError, HostInput, HostOutput, HostReadId};
use device::{CompletionError, OutMessage};
use std::collections::VecDeque;
use tlp::split::request_piece;
use tlp::{
    Access, AtomicOp, AtomicRequest, Bdf, Body, Completion, ConfigKind, ConfigRequest, Data, Duration,
    IoRequest, MemoryOp, MemoryRequest, Message, MessageRouting, PayloadPool, Repr, Span, Status, Tag, Time,
    Tlp, TrafficClass,
};

/// The root complex asks as 00:00.0.
const ROOT_ID: Bdf = Bdf::from_bits(0);

/// Host requests under way, by root port and tag.
pub(super) struct Requester {
    ports: Vec<TagPool>,
    timeout: Duration,
    /// When the timer event comes that was asked for; [`Time::MAX`]: none was.
    timer_at: Time,
}

struct TagPool {
    tags: Vec<TagSlot>,
    /// Free tags; the one that has been free for longest is taken first.
    free: VecDeque<u16>,
}

/// A tag, and the request that it names.
struct TagSlot {
    state: TagState,
    id: HostReadId,
    expects: Expects,
    /// When the request times out, or the tag has rested long enough.
    deadline: Time,
    /// What has come of an answer in several parts; keeps its room.
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TagState {
    Free,
    Open,
    /// Its request has failed, but completions may still come: the tag rests until the last has, or for one more period.
    Resting,
}

/// The completion that answers a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expects {
    /// Bytes of memory.
    Bytes(u32),
    /// A configuration register; CRS may answer too.
    Register,
    /// The same, locked.
    Locked(u32),
    /// The value before an AtomicOp.
    Value(u32),
    /// Of one DW, the bytes from this one on, and how many.
    Lanes(u8, u8),
    /// No data.
    Nothing,
    /// No data; CRS may answer too.
    NothingOrRetry,
}

/// The longest deferrable write (ECN "Deferrable Memory Write").
const MAX_DEFERRABLE_BYTES: usize = 128;

/// Bytes of a configuration register.
const REGISTER_BYTES: u32 = 4;

impl Requester {
    pub(super) fn new(profile: &HostProfile, ports: usize) -> Requester {
        let count = profile.max_host_requests_per_port;
        let pool =
            || TagPool { tags: (0..count).map(|_| TagSlot::free()).collect(), free: (0..count).collect() };
        Requester {
            ports: (0..ports).map(|_| pool()).collect(),
            timeout: profile.completion_timeout,
            timer_at: Time::MAX,
        }
    }

    /// Requests under way at `port`.
    pub(super) fn open(&self, port: usize) -> usize {
        self.ports[port].tags.iter().filter(|t| t.state == TagState::Open).count()
    }

    /// True while a completion timer runs, or a tag rests that the host may wait for.
    pub(super) fn is_watching(&self) -> bool {
        self.ports.iter().any(|pool| pool.free.len() < pool.tags.len())
    }

    fn take_tag(
        &mut self,
        port: usize,
        now: Time,
        id: HostReadId,
        expects: Expects,
        queue: &mut SortedQueue,
    ) -> Option<Tag> {
        let tag = self.ports[port].free.pop_front()?;
        let deadline = now + self.timeout;
        let slot = &mut self.ports[port].tags[usize::from(tag)];
        (slot.state, slot.id, slot.expects, slot.deadline) = (TagState::Open, id, expects, deadline);
        slot.bytes.clear();
        self.watch(deadline, queue);
        Some(Tag::from_bits(tag))
    }

    /// One event serves all tags: the earliest that was asked for.
    fn watch(&mut self, deadline: Time, queue: &mut SortedQueue) {
        if deadline < self.timer_at {
            self.timer_at = deadline;
            queue.push(deadline, Event::RootTimer);
        }
    }

    fn release(&mut self, port: usize, tag: u16) {
        let pool = &mut self.ports[port];
        pool.tags[usize::from(tag)].state = TagState::Free;
        pool.free.push_back(tag);
    }
}

impl TagSlot {
    fn free() -> TagSlot {
        let bytes = Vec::new();
        TagSlot {
            state: TagState::Free,
            id: HostReadId(0),
            expects: Expects::Nothing,
            deadline: Time::MAX,
            bytes,
        }
    }
}

/// Takes a request of the host program, or gives it back.
pub(super) fn accept(
    root: &mut RootComplex,
    now: Time,
    output: HostOutput,
    queue: &mut SortedQueue,
) -> Result<Option<usize>, HostOutput> {
    match &output {
        HostOutput::MmioWrite { .. } => {
            let HostOutput::MmioWrite { address, data } = output else { return Ok(None) };
            mmio_write(root, now, address, data, queue)
        }
        HostOutput::Message { toward, message } => {
            message_out(root, now, *toward, message, queue).ok_or(output)
        }
        HostOutput::MmioRead { id, address, len, locked } => {
            let expects = if *locked { Expects::Locked(*len) } else { Expects::Bytes(*len) };
            let op = if *locked { MemoryOp::ReadLocked } else { MemoryOp::Read };
            let body = Span::covering(*address, *len).ok().map(|span| memory(op, span));
            let ask = Ask { id: *id, port: root.port_of(Some(&output)), expects, body, data: Data::NONE };
            root.ask(now, ask, queue).ok_or(output)
        }
        HostOutput::WriteDeferrable { id, address, data } => {
            let span = Span::covering(*address, data.len() as u32).ok();
            let span = span.filter(|_| data.len() <= MAX_DEFERRABLE_BYTES);
            let body = span.map(|span| memory(MemoryOp::WriteDeferrable, span));
            let (expects, data) = (Expects::NothingOrRetry, data.clone());
            let ask = Ask { id: *id, port: root.port_of(Some(&output)), expects, body, data };
            root.ask(now, ask, queue).ok_or(output)
        }
        HostOutput::Atomic { id, address, op, operands } => {
            let body = atomic(*op, *address, operands.len() as u32);
            let len = operands.len() as u32 / op.operands();
            let (expects, data) = (Expects::Value(len), operands.clone());
            let ask = Ask { id: *id, port: root.port_of(Some(&output)), expects, body, data };
            root.ask(now, ask, queue).ok_or(output)
        }
        HostOutput::IoRead { id, address, len } => {
            let body = io(Access::Read, *address, *len);
            let expects = Expects::Lanes((*address & 3) as u8, *len as u8);
            let ask = Ask { id: *id, port: root.port_of(Some(&output)), expects, body, data: Data::NONE };
            root.ask(now, ask, queue).ok_or(output)
        }
        HostOutput::IoWrite { id, address, data } => {
            let body = io(Access::Write, *address, data.len() as u32);
            let (expects, data) = (Expects::Nothing, data.clone());
            let ask = Ask { id: *id, port: root.port_of(Some(&output)), expects, body, data };
            root.ask(now, ask, queue).ok_or(output)
        }
        HostOutput::ConfigRead { id, function, register_dw } => {
            let (op, expects) = (Access::Read, Expects::Register);
            let body = config(op, *function, *register_dw, 0xf);
            let ask = Ask { id: *id, port: root.port_of(Some(&output)), expects, body, data: Data::NONE };
            root.ask(now, ask, queue).ok_or(output)
        }
        HostOutput::ConfigWrite { id, function, register_dw, byte_enables, value } => {
            let body = config(Access::Write, *function, *register_dw, byte_enables & 0xf);
            let data = Data::Carried(root.payloads.copy(&value.to_le_bytes()));
            let expects = Expects::NothingOrRetry;
            let ask = Ask { id: *id, port: root.port_of(Some(&output)), expects, body, data };
            root.ask(now, ask, queue).ok_or(output)
        }
    }
}

/// A write that no root port claims ends here and is counted, as a posted write to nowhere does on real hosts.
fn mmio_write(
    root: &mut RootComplex,
    now: Time,
    address: u64,
    data: Data,
    queue: &mut SortedQueue,
) -> Result<Option<usize>, HostOutput> {
    let Some(port) = root.map.port_of_address(address, root.ports.len()) else {
        root.counters.unsupported_requests += 1;
        return Ok(None);
    };
    let limit = root.ports[port].config.mps.bytes();
    let (mut sent, len) = (0u32, data.len() as u32);
    while sent < len {
        if root.ports[port].posted_out.len_of(TrafficClass::default()) >= MAX_POSTED_OUT {
            let rest = data.slice(sent as usize, (len - sent) as usize);
            return Err(HostOutput::MmioWrite { address: address + u64::from(sent), data: rest });
        }
        let at = address + u64::from(sent);
        let piece = request_piece(at, len - sent, limit);
        // A piece never crosses 4 KiB, so it always has a span.
        let Ok(span) = Span::covering(at, piece) else { break };
        let request = MemoryRequest { op: MemoryOp::Write, requester: ROOT_ID, tag: Tag::default(), span };
        let data = data.slice(sent as usize, piece as usize);
        root.send(port, now, Tlp::new(Repr::new(Body::Memory(request)), data), queue);
        sent += piece;
    }
    Ok(Some(port))
}

/// A request that is answered.
struct Ask {
    id: HostReadId,
    /// The root port that leads there; `None`: nothing is there.
    port: Option<usize>,
    expects: Expects,
    /// Its header, its tag still missing; `None`: no such request can be made.
    body: Option<Body>,
    data: Data,
}

fn memory(op: MemoryOp, span: Span) -> Body {
    Body::Memory(MemoryRequest { op, requester: ROOT_ID, tag: Tag::default(), span })
}

fn atomic(op: AtomicOp, address: u64, len: u32) -> Option<Body> {
    let operand = if len.is_multiple_of(4) { op.operand_of_length(len / 4)? } else { return None };
    let aligned = address.is_multiple_of(u64::from(operand.bytes()));
    let request = AtomicRequest { op, operand, requester: ROOT_ID, tag: Tag::default(), address };
    aligned.then_some(Body::Atomic(request))
}

/// 1 to 4 bytes within one DW.
fn io(op: Access, address: u32, len: u32) -> Option<Body> {
    let first = address & 3;
    let legal = len >= 1 && first + len <= 4;
    let first_be = if legal { ((1u8 << len) - 1) << first } else { return None };
    let address = address & !3;
    Some(Body::Io(IoRequest { op, requester: ROOT_ID, tag: Tag::default(), address, first_be }))
}

/// A configuration request becomes type 0 on the bus right behind a root port. Device numbers above 0 are not on such a
/// bus (`PCIe 5.0 §7.3.1`).
fn config(op: Access, completer: Bdf, register_dw: u16, first_be: u8) -> Option<Body> {
    let (kind, requester, tag) = (ConfigKind::Type0, ROOT_ID, Tag::default());
    let register_dw = register_dw & 0x3ff;
    let request = ConfigRequest { op, kind, requester, tag, completer, register_dw, first_be };
    (completer.device() == 0).then_some(Body::Config(request))
}

fn with_tag(mut body: Body, tag: Tag) -> Body {
    match &mut body {
        Body::Memory(m) => m.tag = tag,
        Body::Io(io) => io.tag = tag,
        Body::Atomic(a) => a.tag = tag,
        Body::Config(c) => c.tag = tag,
        Body::Completion(_) | Body::Message(_) => {}
    }
    body
}

/// Sends a message where its routing says; `None` where there is no room for it yet. One that leads nowhere ends here and
/// is counted.
fn message_out(
    root: &mut RootComplex,
    now: Time,
    toward: Bdf,
    message: &OutMessage,
    queue: &mut SortedQueue,
) -> Option<Option<usize>> {
    let OutMessage { routing, code, header, data, options } = message;
    let ports = match (root.port_of_message(toward, message), routing) {
        (Some(port), _) => port..port + 1,
        (None, MessageRouting::Broadcast) => 0..root.ports.len(),
        (None, _) => 0..0,
    };
    if ports.clone().any(|port| root.ports[port].posted_out.len_of(options.tc) >= MAX_POSTED_OUT) {
        return None;
    }
    let fits = |port: usize| data.len() <= root.ports[port].config.mps.bytes() as usize;
    if ports.is_empty() || !data.len().is_multiple_of(4) || !ports.clone().all(fits) {
        root.counters.unsupported_requests += 1;
        return Some(None);
    }
    let length_dw = (!data.is_empty()).then_some((data.len() / 4) as u16);
    let (requester, tag) = (ROOT_ID, Tag::default());
    let body = Message { routing: *routing, requester, tag, code: *code, header: *header, length_dw };
    let repr = Repr { tc: options.tc, attr: options.attr, ..Repr::new(Body::Message(body)) };
    let tlp = Tlp { prefixes: options.prefixes.clone(), ..Tlp::new(repr, data.clone()) };
    for port in ports {
        root.send(port, now, tlp.clone(), queue);
        queue.push(now, Event::RootPort(port as u32));
    }
    Some(None)
}

impl RootComplex {
    /// Gives a request a tag and sends it. The root port that it leaves through; the outer `None` where there is no tag
    /// for it. One that cannot be made, or leads nowhere, ends at once.
    fn ask(&mut self, now: Time, ask: Ask, queue: &mut SortedQueue) -> Option<Option<usize>> {
        let Ask { id, port, expects, body, data } = ask;
        let (Some(port), Some(body)) = (port, body) else {
            self.tell_host(now, HostInput::Done { id, result: Err(HostError::NoDevice) }, queue);
            return Some(None);
        };
        let tag = self.requester.take_tag(port, now, id, expects, queue)?;
        let repr = Repr::new(with_tag(body, tag));
        self.send(port, now, Tlp::new(repr, data).with_carry(true), queue);
        Some(Some(port))
    }

    /// The root port through which a message leaves that does not go to all.
    pub(super) fn port_of_message(&self, toward: Bdf, message: &OutMessage) -> Option<usize> {
        let header = &message.header;
        match message.routing {
            MessageRouting::Local => self.map.port_of_bus(toward.bus(), self.ports.len()),
            MessageRouting::ById => self.map.port_of_bus(header[0], self.ports.len()),
            MessageRouting::ByAddress => {
                self.map.port_of_address(u64::from_be_bytes(*header), self.ports.len())
            }
            _ => None,
        }
    }

    /// Puts a request of the host in its place behind all earlier ones.
    fn send(&mut self, port: usize, now: Time, mut tlp: Tlp, queue: &mut SortedQueue) {
        let at = now + self.profile.root_complex_latency;
        tlp.account = self.ledger.open(now, self.ports[port].config.link as usize, Side::Root, &tlp);
        self.ledger.charge(tlp.account, Stage::RootComplex, at);
        let stamp = self.reads.stamp();
        let posted = tlp.class() == tlp::Class::Posted;
        let p = &mut self.ports[port];
        let out = if posted { &mut p.posted_out } else { &mut p.non_posted_out };
        out.push(tlp.repr.tc, Outbound { stamp, at, tlp });
        if at > now {
            queue.push(at, Event::RootPort(port as u32));
        }
    }
}

/// A completion has come in: it belongs to an open request, or is unexpected.
pub(super) fn complete(root: &mut RootComplex, port: usize, now: Time, tlp: &Tlp, queue: &mut SortedQueue) {
    let Body::Completion(c) = tlp.repr.body else { return };
    root.ledger.close(tlp, Stage::RootComplex, now + root.profile.root_complex_latency);
    let (tag, ours) = (c.tag.bits(), c.requester == ROOT_ID);
    match root.requester.ports[port].tags.get_mut(usize::from(tag)).filter(|_| ours) {
        Some(slot) if slot.state == TagState::Open => {
            let Some(result) = slot.take(&c, tlp, &root.payloads) else { return };
            let (id, over) = (slot.id, result.is_ok() || c.is_last());
            slot.state = TagState::Resting;
            if over {
                root.requester.release(port, tag);
            }
            let at = now + root.profile.root_complex_latency;
            root.tell_host(at, HostInput::Done { id, result }, queue);
        }
        Some(slot) if slot.state == TagState::Resting => {
            root.counters.unexpected_completions += 1;
            if c.is_last() {
                root.requester.release(port, tag);
                // The program may have waited for the tag.
                queue.push(now, Event::Host);
            }
        }
        _ => root.counters.unexpected_completions += 1,
    }
}

/// A request of the host was never sent: it ends as one that the other end refuses does.
pub(super) fn refuse(root: &mut RootComplex, port: usize, now: Time, tlp: &Tlp, queue: &mut SortedQueue) {
    let (requester, tag) = tlp.repr.transaction();
    root.ledger.drop(tlp.account);
    let slot =
        root.requester.ports[port].tags.get_mut(usize::from(tag.bits())).filter(|_| requester == ROOT_ID);
    let Some(id) = slot.filter(|slot| slot.state == TagState::Open).map(|slot| slot.id) else { return };
    root.requester.release(port, tag.bits());
    let refused = HostError::Completion(CompletionError::UnsupportedRequest);
    root.tell_host(now, HostInput::Done { id, result: Err(refused) }, queue);
}

impl TagSlot {
    /// Takes a completion; the result, once the request is served or has failed.
    fn take(&mut self, c: &Completion, tlp: &Tlp, pool: &PayloadPool) -> Option<Result<Data, HostError>> {
        match c.status {
            Status::Success => {}
            Status::UnsupportedRequest => {
                return Some(Err(HostError::Completion(CompletionError::UnsupportedRequest)));
            }
            Status::CompleterAbort => {
                return Some(Err(HostError::Completion(CompletionError::CompleterAbort)));
            }
            // Only configuration requests and deferrable writes are told to come again (`PCIe 5.0 §2.3.1`).
            Status::ConfigRetry if matches!(self.expects, Expects::Register | Expects::NothingOrRetry) => {
                return Some(Err(HostError::ConfigRetry));
            }
            Status::ConfigRetry => return Some(Err(HostError::BadCompletion)),
        }
        if tlp.repr.ep || c.locked != matches!(self.expects, Expects::Locked(_)) {
            return Some(Err(HostError::BadCompletion));
        }
        match (self.expects, c.length_dw) {
            (Expects::Nothing | Expects::NothingOrRetry, None) => Some(Ok(Data::NONE)),
            (Expects::Bytes(len) | Expects::Locked(len) | Expects::Value(len), Some(_)) => {
                self.gather(c, &tlp.data, len, pool)
            }
            (Expects::Register, Some(_)) => self.gather(c, &tlp.data, REGISTER_BYTES, pool),
            (Expects::Lanes(first, len), Some(1)) if tlp.data.len() == 4 => Some(Ok(match &tlp.data {
                Data::Carried(_) => tlp.data.slice(first.into(), len.into()),
                Data::Counted(_) => Data::Carried(pool.fill(len.into(), |_| {})),
            })),
            _ => Some(Err(HostError::BadCompletion)),
        }
    }

    /// Adds the part that has come. Data that the device only counts reads as zeros.
    fn gather(
        &mut self,
        c: &Completion,
        data: &Data,
        len: u32,
        pool: &PayloadPool,
    ) -> Option<Result<Data, HostError>> {
        let (left, here) = (len - self.bytes.len() as u32, data.len() as u32);
        if u32::from(c.byte_count) != left || here == 0 || here > left {
            return Some(Err(HostError::BadCompletion));
        }
        match data {
            Data::Carried(_) if here == len => return Some(Ok(data.clone())),
            Data::Carried(bytes) => self.bytes.extend_from_slice(bytes),
            Data::Counted(_) => self.bytes.resize(self.bytes.len() + data.len(), 0),
        }
        (here == left).then(|| Ok(Data::Carried(pool.copy(&self.bytes))))
    }
}

/// The completion timers have come to `now`.
pub(super) fn timeout(root: &mut RootComplex, now: Time, queue: &mut SortedQueue) {
    root.requester.timer_at = Time::MAX;
    let mut next = Time::MAX;
    for port in 0..root.requester.ports.len() {
        for tag in 0..root.requester.ports[port].tags.len() {
            expire(root, now, port, tag, queue);
            let slot = &root.requester.ports[port].tags[tag];
            if slot.state != TagState::Free {
                next = next.min(slot.deadline);
            }
        }
    }
    root.requester.watch(next, queue);
}

fn expire(root: &mut RootComplex, now: Time, port: usize, tag: usize, queue: &mut SortedQueue) {
    let timeout = root.requester.timeout;
    let slot = &mut root.requester.ports[port].tags[tag];
    match slot.state {
        _ if slot.deadline > now => {}
        TagState::Open => {
            slot.state = TagState::Resting;
            slot.deadline = now + timeout;
            let id = slot.id;
            root.counters.completion_timeouts += 1;
            root.tell_host(now, HostInput::Done { id, result: Err(HostError::CompletionTimeout) }, queue);
        }
        TagState::Resting => root.requester.release(port, tag as u16),
        TagState::Free => {}
    }
}
