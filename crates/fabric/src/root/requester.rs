// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests of the host to devices, with their tags and timers. [`endings`] handles how they end.

mod endings;

pub(super) use endings::{complete, refuse, timeout};

use super::effects::{Due, Effects};
use super::function::config_header;
use super::links::host_error;
use super::{Base, MAX_POSTED_OUT, Outbound, ROOT_ID, RootComplex};
use crate::profile::HostProfile;
use device::OutMessage;
use host::{HostError, HostInput, HostOutput, HostReadId};
use std::collections::VecDeque;
use tlp::split::request_piece;
use tlp::{
    Access, AtomicOp, AtomicRequest, Bdf, Body, ConfigRequest, Data, Duration, IoRequest, MemoryOp,
    MemoryRequest, Message, MessageRouting, Repr, Span, Tag, Time, Tlp, TrafficClass,
};

/// Issues requests for the host; the tags in use belong to [root ports](super::RootPort).
pub(super) struct Requester {
    timeout: Duration,
    /// When the scheduled call comes; [`Time::MAX`]: none is scheduled.
    timer_at: Time,
}

/// The tags of a root port.
pub(super) struct TagPool {
    tags: Vec<TagSlot>,
    /// Free tags; the one that has been free the longest is taken first.
    free: VecDeque<u16>,
}

/// A tag and its request.
struct TagSlot {
    state: TagState,
    asker: Asker,
    expects: Expects,
    /// The request's header, and the data of a configuration request in case it must be repeated.
    request: Repr,
    data: Data,
    /// Until when the request is repeated because of CRS, once it is.
    retry_until: Option<Time>,
    /// When the request times out, or the tag has rested long enough.
    deadline: Time,
    /// Data of an answer in several parts; keeps its allocation.
    bytes: Vec<u8>,
}

/// The recipient of a request's result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asker {
    /// The host program.
    Host(HostReadId),
    /// A read between root ports, of which this request is a part.
    Part {
        /// Number of the split read.
        split: u32,
        /// Offset of the part in bytes.
        offset: u32,
    },
}

/// Who makes a request, and the answer that it expects.
pub(super) struct Whose {
    pub(super) asker: Asker,
    pub(super) expects: Expects,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TagState {
    Free,
    Open,
    /// CRS has answered the request, which is repeated at its deadline.
    Retrying,
    /// The request has failed, but completions may still come: the tag rests until the last has, or for one more period.
    Resting,
}

/// The completion that a request expects.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Expects {
    /// This many bytes of memory.
    Bytes(u32),
    /// A configuration register; CRS is possible too.
    Register,
    /// This many bytes of memory, locked.
    Locked(u32),
    /// The value before an AtomicOp, of this many bytes.
    Value(u32),
    /// Bytes of one DW: the first one, and how many.
    Lanes(u8, u8),
    /// No data.
    Nothing,
    /// No data; CRS is possible too.
    NothingOrRetry,
}

/// The longest deferrable write (ECN "Deferrable Memory Write").
const MAX_DEFERRABLE_BYTES: usize = 128;

/// Bytes of a configuration register.
const REGISTER_BYTES: u32 = 4;

impl TagPool {
    /// A pool of `count` tags, all free.
    pub(super) fn new(count: u16) -> TagPool {
        TagPool { tags: (0..count).map(|_| TagSlot::free()).collect(), free: (0..count).collect() }
    }

    /// Number of open requests.
    pub(super) fn open(&self) -> usize {
        self.tags.iter().filter(|t| t.state == TagState::Open).count()
    }

    /// True while a completion timer runs, or a tag rests that the host may wait for.
    pub(super) fn is_watching(&self) -> bool {
        self.free.len() < self.tags.len()
    }

    /// Keeps the data of a configuration request, in case it must be repeated.
    fn keep(&mut self, tag: Tag, data: Data) {
        self.tags[usize::from(tag.bits())].data = data;
    }

    fn release(&mut self, tag: u16) {
        let slot = &mut self.tags[usize::from(tag)];
        (slot.state, slot.data) = (TagState::Free, Data::NONE);
        self.free.push_back(tag);
    }
}

impl Requester {
    pub(super) fn new(profile: &HostProfile) -> Requester {
        Requester { timeout: profile.completion_timeout, timer_at: Time::MAX }
    }

    /// Gives a request a tag; returns its header with the tag.
    pub(super) fn take_tag(
        &mut self,
        base: &mut Base,
        port: usize,
        now: Time,
        whose: Whose,
        body: Body,
    ) -> Option<Repr> {
        let pool = &mut base.ports[port].tags;
        let tag = pool.free.pop_front()?;
        let deadline = now + self.timeout;
        let slot = &mut pool.tags[usize::from(tag)];
        (slot.state, slot.deadline) = (TagState::Open, deadline);
        (slot.asker, slot.expects) = (whose.asker, whose.expects);
        slot.request = Repr::new(with_tag(body, Tag::from_bits(tag)));
        slot.retry_until = None;
        slot.bytes.clear();
        let request = slot.request;
        self.watch(deadline, &mut base.effects);
        Some(request)
    }

    /// Schedules one call for all tags, at the earliest deadline.
    fn watch(&mut self, deadline: Time, effects: &mut Effects) {
        if deadline < self.timer_at {
            self.timer_at = deadline;
            effects.wake(deadline, Due::Timer);
        }
    }
}

impl TagSlot {
    fn free() -> TagSlot {
        let bytes = Vec::new();
        TagSlot {
            state: TagState::Free,
            asker: Asker::Host(HostReadId(0)),
            expects: Expects::Nothing,
            request: Repr::new(config_body(Access::Read, ROOT_ID, 0)),
            data: Data::NONE,
            retry_until: None,
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
) -> Result<Option<usize>, HostOutput> {
    match &output {
        HostOutput::MmioWrite { .. } => {
            let HostOutput::MmioWrite { address, data } = output else { return Ok(None) };
            mmio_write(root, now, address, data)
        }
        HostOutput::Message { toward, message } => message_out(root, now, *toward, message).ok_or(output),
        HostOutput::Extension(request) => {
            match request.downcast_ref() {
                Some(preparation) => root.prepare_cache(*preparation),
                None => root.base.counters.unsupported_requests += 1,
            }
            Ok(None)
        }
        HostOutput::TakeMessages(codes) => {
            root.base.program_messages = root.base.program_messages.or(*codes);
            Ok(None)
        }
        HostOutput::MmioRead { id, address, len, locked } => {
            let expects = if *locked { Expects::Locked(*len) } else { Expects::Bytes(*len) };
            let op = if *locked { MemoryOp::ReadLocked } else { MemoryOp::Read };
            let body = Span::covering(*address, *len).ok().map(|span| memory(op, span));
            let ask = Ask { id: *id, port: root.port_of(Some(&output)), expects, body, data: Data::NONE };
            root.ask(now, ask).ok_or(output)
        }
        HostOutput::WriteDeferrable { id, address, data } => {
            let span = Span::covering(*address, data.len() as u32).ok();
            let span = span.filter(|_| data.len() <= MAX_DEFERRABLE_BYTES);
            let body = span.map(|span| memory(MemoryOp::WriteDeferrable, span));
            let (expects, data) = (Expects::NothingOrRetry, data.clone());
            let ask = Ask { id: *id, port: root.port_of(Some(&output)), expects, body, data };
            root.ask(now, ask).ok_or(output)
        }
        HostOutput::Atomic { id, address, op, operands } => {
            let body = atomic(*op, *address, operands.len() as u32);
            let len = operands.len() as u32 / op.operands();
            let (expects, data) = (Expects::Value(len), operands.clone());
            let ask = Ask { id: *id, port: root.port_of(Some(&output)), expects, body, data };
            root.ask(now, ask).ok_or(output)
        }
        HostOutput::IoRead { id, address, len } => {
            let body = io(Access::Read, *address, *len);
            let expects = Expects::Lanes((*address & 3) as u8, *len as u8);
            let ask = Ask { id: *id, port: root.port_of(Some(&output)), expects, body, data: Data::NONE };
            root.ask(now, ask).ok_or(output)
        }
        HostOutput::IoWrite { id, address, data } => {
            let body = io(Access::Write, *address, data.len() as u32);
            let (expects, data) = (Expects::Nothing, data.clone());
            let ask = Ask { id: *id, port: root.port_of(Some(&output)), expects, body, data };
            root.ask(now, ask).ok_or(output)
        }
        HostOutput::ConfigRead { id, function, register_dw } => {
            let header = config_header(Access::Read, *function, *register_dw, 0xf);
            let what = (*id, Expects::Register);
            configure(root, now, what, (header, Data::NONE)).ok_or(output)
        }
        HostOutput::ConfigWrite { id, function, register_dw, byte_enables, value } => {
            let header = config_header(Access::Write, *function, *register_dw, byte_enables & 0xf);
            let data = Data::Carried(root.base.payloads.copy(&value.to_le_bytes()));
            configure(root, now, (*id, Expects::NothingOrRetry), (header, data)).ok_or(output)
        }
        _ => {
            root.base.counters.unsupported_requests += 1;
            Ok(None)
        }
    }
}

/// A configuration request of the host, for a function of bus 0 or for one below.
fn configure(
    root: &mut RootComplex,
    now: Time,
    (id, expects): (HostReadId, Expects),
    (mut header, data): (ConfigRequest, Data),
) -> Option<Option<usize>> {
    if root.base.is_own_bus(header.completer.bus()) {
        let result = root.base.configure(now, header, data);
        root.base.tell_after_both_ways(now, HostInput::Done { id, result });
        return Some(None);
    }
    let (port, kind) = root.base.way_to_function(header.completer).unzip();
    header.kind = kind.unwrap_or(header.kind);
    root.ask(now, Ask { id, port, expects, body: Some(Body::Config(header)), data })
}

/// A write that no root port claims ends here and is counted, like a posted write to nowhere on real hosts.
fn mmio_write(
    root: &mut RootComplex,
    now: Time,
    address: u64,
    data: Data,
) -> Result<Option<usize>, HostOutput> {
    let Some(port) = root.base.port_of_address(address) else {
        root.base.counters.unsupported_requests += 1;
        return Ok(None);
    };
    let is_open = root.base.ports[port].is_open();
    let limit = root.base.ports[port].config.mps.bytes();
    let (mut sent, len) = (0u32, data.len() as u32);
    while sent < len {
        if root.base.ports[port].posted_out.len_of(TrafficClass::default()) >= MAX_POSTED_OUT {
            let rest = data.slice(sent as usize, (len - sent) as usize);
            return Err(HostOutput::MmioWrite { address: address + u64::from(sent), data: rest });
        }
        let at = address + u64::from(sent);
        let piece = request_piece(at, len - sent, limit);
        // A piece never crosses 4 KiB, so it always has a span.
        let Ok(span) = Span::covering(at, piece) else { break };
        let request = MemoryRequest { op: MemoryOp::Write, requester: ROOT_ID, tag: Tag::default(), span };
        let data = data.slice(sent as usize, piece as usize);
        let tlp = Tlp::new(Repr::new(Body::Memory(request)), data);
        if is_open {
            root.base.send(port, now, tlp);
        } else {
            root.base.refuse_unsent(port, now, &tlp);
        }
        sent += piece;
    }
    Ok(Some(port))
}

/// A request that needs an answer.
struct Ask {
    id: HostReadId,
    /// The root port to send it through; `None`: nothing is there.
    port: Option<usize>,
    expects: Expects,
    /// Its header without a tag; `None`: no such request can be made.
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

/// An I/O request for 1 to 4 bytes within one DW.
fn io(op: Access, address: u32, len: u32) -> Option<Body> {
    let first = address & 3;
    let legal = len >= 1 && first + len <= 4;
    let first_be = if legal { ((1u8 << len) - 1) << first } else { return None };
    let address = address & !3;
    Some(Body::Io(IoRequest { op, requester: ROOT_ID, tag: Tag::default(), address, first_be }))
}

fn config_body(op: Access, completer: Bdf, register_dw: u16) -> Body {
    Body::Config(config_header(op, completer, register_dw, 0xf))
}

/// A memory read by the root complex itself.
pub(super) fn memory_read(span: Span) -> Body {
    memory(MemoryOp::Read, span)
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

/// Sends a message as its routing says; `None` if there is no room for it yet. A message that leads nowhere ends here
/// and is counted.
fn message_out(
    root: &mut RootComplex,
    now: Time,
    toward: Bdf,
    message: &OutMessage,
) -> Option<Option<usize>> {
    let OutMessage { routing, code, header, data, options, .. } = message;
    let ports = match (root.base.port_of_message(toward, message), routing) {
        (Some(port), _) => port..port + 1,
        (None, MessageRouting::Broadcast) => 0..root.base.ports.len(),
        (None, _) => 0..0,
    };
    if ports.clone().any(|port| root.base.ports[port].posted_out.len_of(options.tc) >= MAX_POSTED_OUT) {
        return None;
    }
    let fits = |port: usize| data.len() <= root.base.ports[port].config.mps.bytes() as usize;
    if ports.is_empty() || !data.len().is_multiple_of(4) || !ports.clone().all(fits) {
        root.base.counters.unsupported_requests += 1;
        return Some(None);
    }
    let length_dw = (!data.is_empty()).then_some((data.len() / 4) as u16);
    let (requester, tag) = (ROOT_ID, Tag::default());
    let body = Message { routing: *routing, requester, tag, code: *code, header: *header, length_dw };
    let repr = Repr { tc: options.tc, attr: options.attr, ..Repr::new(Body::Message(body)) };
    let tlp = Tlp { prefixes: options.prefixes.clone(), ..Tlp::new(repr, data.clone()) };
    for port in ports {
        if !root.base.ports[port].is_open() {
            root.base.refuse_unsent(port, now, &tlp);
            continue;
        }
        root.base.send(port, now, tlp.clone());
        root.base.effects.wake_port(port, now);
    }
    Some(None)
}

impl RootComplex {
    /// Gives a request a tag and sends it. Returns the root port that it leaves through; the outer `None` means that no
    /// tag is free. A request that cannot be made, or leads nowhere, ends at once.
    fn ask(&mut self, now: Time, ask: Ask) -> Option<Option<usize>> {
        let Ask { id, port, expects, body, data } = ask;
        let (Some(port), Some(body)) = (port, body) else {
            self.base.tell_host(now, HostInput::Done { id, result: Err(HostError::NoDevice) });
            return Some(None);
        };
        if self.base.ports[port].is_blocked(&body) {
            let status = self.base.refuse_unsent(port, now, &Tlp::new(Repr::new(body), data));
            let result = Err(host_error(status));
            self.base.tell_after_both_ways(now, HostInput::Done { id, result });
            return Some(None);
        }
        let whose = Whose { asker: Asker::Host(id), expects };
        let repr = self.requester.take_tag(&mut self.base, port, now, whose, body)?;
        if let Body::Config(c) = repr.body {
            self.base.ports[port].tags.keep(c.tag, data.clone());
        }
        self.base.send(port, now, Tlp::new(repr, data).with_carry(true));
        Some(Some(port))
    }
}

impl Base {
    /// The root port through which a message leaves, unless it goes to all.
    pub(super) fn port_of_message(&self, toward: Bdf, message: &OutMessage) -> Option<usize> {
        let header = &message.header;
        match message.routing {
            MessageRouting::Local => self.port_of_bus(toward.bus()),
            MessageRouting::ById => self.port_of_bus(header[0]),
            MessageRouting::ByAddress => self.port_of_address(u64::from_be_bytes(*header)),
            _ => None,
        }
    }

    /// Queues a request of the host after all earlier ones.
    pub(super) fn send(&mut self, port: usize, now: Time, tlp: Tlp) {
        let at = now + self.profile.root_complex_latency;
        let stamp = self.stamp();
        let posted = tlp.class() == tlp::Class::Posted;
        let p = &mut self.ports[port];
        let out = if posted { &mut p.posted_out } else { &mut p.non_posted_out };
        out.push(tlp.repr.tc, Outbound { stamp, at, asked: Some(now), tlp, credit: None });
        if at > now {
            self.effects.wake_port(port, at);
        }
    }
}
