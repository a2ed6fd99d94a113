// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests of the host to devices, with their tags and timers. [`endings`] handles the end of requests.

mod endings;

use super::function::config_header;
use super::links::host_error;
use super::{Base, MAX_POSTED_OUT, MAX_READ_BYTES, Outbound, ROOT_ID, RootComplex, RootPort};
use crate::effects::{Due, Effects};
use crate::timer::TimerEvents;
use device::OutMessage;
use host::{HostError, HostInput, HostOutput, HostReadId};
use tlp::rules::reasons::{unclaimed, unrouted};
use tlp::split::request_piece;
use tlp::{
    Access, AtomicOp, AtomicRequest, Awaited, Bdf, Body, CompletedRequest, ConfigRequest, Data, IoRequest,
    MemoryOp, MemoryRequest, Message, MessageRouting, Repr, RuleId, Span, Tag, TagState, TaggedRequests,
    Time, Tlp, TrafficClass, Violation,
};

/// Issues requests of the host. The tags in use are stored in the [root ports](super::RootPort).
pub(super) struct Requester {
    /// Whether completions may have another Traffic Class and other attributes than their request.
    lenient_completions: bool,
    /// Timer for the earliest deadline of all tags.
    timer: TimerEvents,
}

impl Default for Requester {
    fn default() -> Requester {
        Requester { lenient_completions: false, timer: TimerEvents::none() }
    }
}

/// The request of a tag of a root port. The tag of a failed request stays unused until the last completion has arrived,
/// or for one more timeout period.
pub(super) struct Pending {
    asker: Asker,
    /// The request's header, and the data of a configuration request in case it must be repeated.
    request: Repr,
    data: Data,
    /// Whether CRS has answered the request, which is repeated at its deadline.
    retrying: bool,
    /// Time until which the request is repeated, if a completion had CRS.
    retry_until: Option<Time>,
    /// The bytes of the answer that have not arrived yet.
    awaited: Awaited,
    /// Data of an answer in several parts. The buffer is reused.
    bytes: Vec<u8>,
}

/// The recipient of a request's result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asker {
    /// The host program.
    Host(HostReadId),
    /// A read that was split, of which this request is a part.
    Part {
        /// Number of the split read.
        split: u32,
        /// Offset of the part in bytes.
        offset: u32,
    },
}

/// The longest deferrable write (ECN "Deferrable Memory Write").
const MAX_DEFERRABLE_BYTES: usize = 128;

/// Makes `count` free tags.
pub(super) fn tags(count: u16) -> TaggedRequests<Pending> {
    let mut tags = TaggedRequests::default();
    tags.set_range(0, count);
    tags
}

impl RootPort {
    /// Number of open requests.
    pub(super) fn open_requests(&self) -> usize {
        let is_open =
            |(state, pending): &(TagState, &Pending)| *state == TagState::Waiting && !pending.retrying;
        self.tags.requests().filter(is_open).count()
    }

    /// Returns when a request issued at `now` times out; [`Time::MAX`]: never.
    fn deadline(&self, now: Time) -> Time {
        self.config.completion_timeout.map_or(Time::MAX, |timeout| now + timeout)
    }

    /// The open request with this tag.
    fn open_request(&mut self, tag: Tag) -> Option<&mut Pending> {
        match self.tags.get(tag) {
            Some((TagState::Waiting, pending)) if !pending.retrying => Some(pending),
            _ => None,
        }
    }
}

impl Requester {
    /// Gives `request` a tag; returns its header with Requester ID and tag.
    pub(super) fn take_tag(
        &mut self,
        base: &mut Base,
        port: usize,
        now: Time,
        asker: Asker,
        mut request: Repr,
    ) -> Option<Repr> {
        let deadline = base.ports[port].deadline(now);
        request.td = base.ports[port].config.ecrc;
        let (tag, pending) = base.ports[port].tags.take(deadline)?;
        request.set_transaction(ROOT_ID, tag);
        (pending.asker, pending.request) = (asker, request);
        (pending.retrying, pending.retry_until) = (false, None);
        pending.begin();
        self.watch(deadline, &mut base.effects);
        Some(request)
    }

    /// Schedules one call for all tags, at the earliest deadline.
    fn watch(&mut self, deadline: Time, effects: &mut Effects) {
        if self.timer.request(deadline) {
            effects.wake(deadline, Due::Timer);
        }
    }
}

impl Default for Pending {
    fn default() -> Pending {
        Pending {
            asker: Asker::Host(HostReadId(0)),
            request: Repr::new(memory(MemoryOp::Read, Span::zero_length(0))),
            data: Data::NONE,
            retrying: false,
            retry_until: None,
            awaited: Awaited::default(),
            bytes: Vec::new(),
        }
    }
}

impl Pending {
    /// Resets the answer of a request that is issued or repeated.
    fn begin(&mut self) {
        self.bytes.clear();
        self.awaited = CompletedRequest::of_non_posted(&self.request).bytes;
    }
}

impl RootComplex {
    /// See [`Fabric::set_lenient_completions`](crate::Fabric::set_lenient_completions).
    pub(crate) fn set_lenient_completions(&mut self, lenient: bool) {
        self.requester.lenient_completions = lenient;
    }

    /// Accepts a request of the host program. Returns the request if there is no room for it yet. Returns the root port
    /// through which the request goes, if any. The caller must pump this port.
    pub(crate) fn accept(&mut self, now: Time, output: HostOutput) -> Result<Option<usize>, HostOutput> {
        let (id, body, data) = match &output {
            HostOutput::MmioWrite { .. } => {
                let HostOutput::MmioWrite { address, data } = output else { return Ok(None) };
                return self.mmio_write(now, address, data);
            }
            HostOutput::Message { toward, message } => {
                return self.message_out(now, *toward, message).ok_or(output);
            }
            HostOutput::Extension(request) => {
                match request.downcast_ref() {
                    Some(preparation) => self.prepare_cache(preparation),
                    None => self.base.counters.unsupported_requests += 1,
                }
                return Ok(None);
            }
            HostOutput::TakeMessages(codes) => {
                self.base.program_messages = self.base.program_messages.or(*codes);
                return Ok(None);
            }
            HostOutput::MmioRead { id, address, len, locked } => {
                let op = if *locked { MemoryOp::ReadLocked } else { MemoryOp::Read };
                (id, Span::covering(*address, *len).ok().map(|span| memory(op, span)), Data::NONE)
            }
            HostOutput::WriteDeferrable { id, address, data } => {
                let span = Span::covering(*address, data.len() as u32).ok();
                let span = span.filter(|_| data.len() <= MAX_DEFERRABLE_BYTES);
                (id, span.map(|span| memory(MemoryOp::WriteDeferrable, span)), data.clone())
            }
            HostOutput::Atomic { id, address, op, operands } => {
                (id, atomic(*op, *address, operands.len() as u32), operands.clone())
            }
            HostOutput::IoRead { id, address, len } => (id, io(Access::Read, *address, *len), Data::NONE),
            HostOutput::IoWrite { id, address, data } => {
                (id, io(Access::Write, *address, data.len() as u32), data.clone())
            }
            HostOutput::ConfigRead { id, function, register_dw, byte_enables } => {
                let header = config_header(Access::Read, *function, *register_dw, byte_enables & 0xf);
                return self.configure(now, *id, header, Data::NONE).ok_or(output);
            }
            HostOutput::ConfigWrite { id, function, register_dw, byte_enables, value } => {
                let header = config_header(Access::Write, *function, *register_dw, byte_enables & 0xf);
                let data = Data::Carried(self.base.payloads.copy(&value.to_le_bytes()));
                return self.configure(now, *id, header, data).ok_or(output);
            }
            _ => {
                self.base.counters.unsupported_requests += 1;
                return Ok(None);
            }
        };
        let port = self.port_of(Some(&output));
        self.ask(now, *id, port, body, data).ok_or(output)
    }

    /// A configuration request of the host, for a function of bus 0 or for one below.
    fn configure(
        &mut self,
        now: Time,
        id: HostReadId,
        mut header: ConfigRequest,
        data: Data,
    ) -> Option<Option<usize>> {
        if self.base.is_own_bus(header.completer.bus()) {
            let result = self.base.configure(now, header, data);
            self.base.tell_after_both_ways(now, HostInput::Done { id, result });
            return Some(None);
        }
        let (port, kind) = self.base.way_to_function(header.completer).unzip();
        header.kind = kind.unwrap_or(header.kind);
        self.ask(now, id, port, Some(Body::Config(header)), data)
    }

    /// Sends a write of the host. A write that no root port claims ends here and is counted. Real hosts drop it too.
    fn mmio_write(&mut self, now: Time, address: u64, data: Data) -> Result<Option<usize>, HostOutput> {
        let Some(port) = self.base.port_of_address(address) else {
            let piece = request_piece(address, data.len() as u32, MAX_READ_BYTES);
            let span = Span::covering(address, piece).unwrap_or(Span::zero_length(address));
            self.base.nowhere(now, Repr::new(memory(MemoryOp::Write, span)), unclaimed(address));
            return Ok(None);
        };
        let is_open = self.base.ports[port].is_open();
        let limit = self.base.ports[port].config.mps.bytes();
        let (mut sent, len) = (0u32, data.len() as u32);
        while sent < len {
            if self.base.ports[port].posted_out.len_of(TrafficClass::default()) >= MAX_POSTED_OUT {
                let rest = data.slice(sent as usize, (len - sent) as usize);
                return Err(HostOutput::MmioWrite { address: address + u64::from(sent), data: rest });
            }
            let at = address + u64::from(sent);
            let piece = request_piece(at, len - sent, limit);
            // A piece never crosses 4 KiB, so it always has a span.
            let Ok(span) = Span::covering(at, piece) else { break };
            let data = data.slice(sent as usize, piece as usize);
            let tlp = Tlp::new(Repr::new(memory(MemoryOp::Write, span)), data);
            if is_open {
                self.base.send(port, now, tlp);
            } else {
                self.base.refuse_unsent(port, now, &tlp);
            }
            sent += piece;
        }
        Ok(Some(port))
    }
}

/// A memory request of the root complex itself.
pub(super) fn memory(op: MemoryOp, span: Span) -> Body {
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

impl RootComplex {
    /// Sends a message according to its routing; `None` if there is no room for it yet. A message without a route ends
    /// here and is counted.
    fn message_out(&mut self, now: Time, toward: Bdf, message: &OutMessage) -> Option<Option<usize>> {
        let OutMessage { routing, code, header, data, options, .. } = message;
        let ports = match (self.base.port_of_message(toward, message), routing) {
            (Some(port), _) => port..port + 1,
            (None, MessageRouting::Broadcast) => 0..self.base.ports.len(),
            (None, _) => 0..0,
        };
        if ports.clone().any(|port| self.base.ports[port].posted_out.len_of(options.tc) >= MAX_POSTED_OUT) {
            return None;
        }
        let fits = |port: usize| data.len() <= self.base.ports[port].config.mps.bytes() as usize;
        let length_dw = (!data.is_empty()).then_some(data.len().div_ceil(4).min(1024) as u16);
        let (requester, tag) = (ROOT_ID, Tag::default());
        let body = Message { routing: *routing, requester, tag, code: *code, header: *header, length_dw };
        let repr = Repr { tc: options.tc, ..Repr::new(Body::Message(body)) };
        let why = match data.len() as u64 {
            _ if ports.is_empty() => Some(unrouted(&repr)),
            len if !len.is_multiple_of(4) => Some(Violation::new(RuleId::Length, len)),
            len if !ports.clone().all(fits) => Some(Violation::new(RuleId::MaxPayloadSize, len)),
            _ => None,
        };
        if let Some(why) = why {
            self.base.nowhere(now, repr, why);
            return Some(None);
        }
        let tlp = Tlp { prefixes: options.prefixes.clone(), ..Tlp::new(repr, data.clone()) };
        for port in ports {
            if !self.base.ports[port].is_open() {
                self.base.refuse_unsent(port, now, &tlp);
                continue;
            }
            let mut tlp = tlp.clone();
            tlp.repr.attr = options.attr & self.base.ports[port].config.request_attributes;
            self.base.send(port, now, tlp);
            self.base.effects.wake_port(port, now);
        }
        Some(None)
    }
}

impl RootComplex {
    /// Gives a request a tag and sends it. Returns the root port through which the request goes. The outer `None` means
    /// that no tag is free. A request that cannot be made, or has no route, ends at once.
    fn ask(
        &mut self,
        now: Time,
        id: HostReadId,
        port: Option<usize>,
        body: Option<Body>,
        data: Data,
    ) -> Option<Option<usize>> {
        let (Some(port), Some(body)) = (port, body) else {
            // Software uses configuration requests to find out whether a function exists.
            if let Some(body) = body.filter(|body| !matches!(body, Body::Config(_))) {
                let repr = Repr::new(body);
                self.base.nowhere(now, repr, unrouted(&repr));
            }
            self.base.tell_host(now, HostInput::Done { id, result: Err(HostError::NoDevice) });
            return Some(None);
        };
        if !self.base.ports[port].may_issue(&body) {
            self.base.tell_host(now, HostInput::Done { id, result: Err(HostError::AtomicsDisabled) });
            return Some(None);
        }
        if self.base.ports[port].is_blocked(&body) {
            let status = self.base.refuse_unsent(port, now, &Tlp::new(Repr::new(body), data));
            let result = Err(host_error(status));
            self.base.tell_after_both_ways(now, HostInput::Done { id, result });
            return Some(None);
        }
        let mrrs = self.base.ports[port].config.mrrs;
        if let Body::Memory(m) = &body
            && m.op.is_read()
            && request_piece(m.span.first_byte(), m.span.byte_count(), mrrs) < m.span.byte_count()
        {
            return self.split_of_host(now, id, port, m);
        }
        let repr = self.requester.take_tag(&mut self.base, port, now, Asker::Host(id), Repr::new(body))?;
        if let Body::Config(c) = repr.body
            && let Some(pending) = self.base.ports[port].open_request(c.tag)
        {
            pending.data = data.clone();
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
    pub(super) fn send(&mut self, port: usize, now: Time, mut tlp: Tlp) {
        let at = now + self.profile.root_complex_latency;
        let stamp = self.stamp();
        let posted = tlp.class() == tlp::Class::Posted;
        let p = &mut self.ports[port];
        tlp.repr.td = p.config.ecrc;
        let out = if posted { &mut p.posted_out } else { &mut p.non_posted_out };
        out.push(tlp.repr.tc, Outbound { stamp, at, asked: Some(now), tlp, credit: None });
        if at > now {
            self.effects.wake_port(port, at);
        }
    }
}
