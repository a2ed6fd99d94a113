// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the host asks of devices: tags, matching of completions, and the completion timeout.

use super::{MAX_POSTED_OUT, Outbound, RootComplex};
use crate::profile::HostProfile;
use crate::queue::{Event, EventQueue, SortedQueue};
use device::CompletionError;
use device::host::{HostError, HostInput, HostOutput, HostReadId};
use std::collections::VecDeque;
use tlp::split::request_piece;
use tlp::{
    Bdf, Body, Completion, ConfigKind, ConfigRequest, Data, Duration, MemoryOp, MemoryRequest, Repr, Span, Status, Tag,
    Time, Tlp,
};

/// The root complex asks as 00:00.0.
const ROOT_ID: Bdf = Bdf::from_bits(0);

/// Host requests under way, by root port and tag.
pub(super) struct Requester {
    ports: Vec<TagPool>,
    timeout: Duration,
    deadlines: VecDeque<Deadline>,
    serial: u64,
}

struct TagPool {
    tags: Vec<TagState>,
    free: VecDeque<u16>,
}

enum TagState {
    Free,
    Open(Box<Open>),
    /// Timed out: a late completion may still come, so the tag rests for one more period.
    Expired(u64),
}

struct Open {
    id: HostReadId,
    serial: u64,
    expects: Expects,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Expects {
    Bytes(u32),
    Register,
    NoData,
}

struct Deadline {
    at: Time,
    port: usize,
    tag: u16,
    serial: u64,
}

impl Requester {
    pub(super) fn new(profile: &HostProfile, ports: usize) -> Requester {
        let count = profile.max_host_requests_per_port;
        let pool = || TagPool { tags: (0..count).map(|_| TagState::Free).collect(), free: (0..count).collect() };
        Requester {
            ports: (0..ports).map(|_| pool()).collect(),
            timeout: profile.completion_timeout,
            deadlines: VecDeque::new(),
            serial: 0,
        }
    }

    /// Requests under way at `port`.
    pub(super) fn open(&self, port: usize) -> usize {
        self.ports[port].tags.iter().filter(|t| matches!(t, TagState::Open(_))).count()
    }

    /// True while a completion timer runs.
    pub(super) fn is_watching(&self) -> bool {
        self.ports.iter().any(|pool| pool.tags.iter().any(|t| matches!(t, TagState::Open(_))))
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
        self.serial += 1;
        let open = Open { id, serial: self.serial, expects, bytes: Vec::new() };
        self.ports[port].tags[usize::from(tag)] = TagState::Open(Box::new(open));
        self.watch(now, port, tag, queue);
        Some(Tag::from_bits(tag))
    }

    fn watch(&mut self, now: Time, port: usize, tag: u16, queue: &mut SortedQueue) {
        let at = now + self.timeout;
        if self.deadlines.is_empty() {
            queue.push(at, Event::RootTimer);
        }
        self.deadlines.push_back(Deadline { at, port, tag, serial: self.serial });
    }

    fn release(&mut self, port: usize, tag: u16) {
        let pool = &mut self.ports[port];
        pool.tags[usize::from(tag)] = TagState::Free;
        pool.free.push_back(tag);
    }
}

/// Takes a request of the host program, or gives it back.
pub(super) fn accept(
    root: &mut RootComplex,
    now: Time,
    output: HostOutput,
    queue: &mut SortedQueue,
) -> Result<Option<usize>, HostOutput> {
    match output {
        HostOutput::MmioWrite { address, data } => mmio_write(root, now, address, data, queue),
        HostOutput::MmioRead { id, address, len } => {
            let port = root.map.port_of_address(address, root.ports.len());
            let (Some(port), Ok(span)) = (port, Span::covering(address, len)) else {
                root.tell_host(now, HostInput::Done { id, result: Err(HostError::NoDevice) }, queue);
                return Ok(None);
            };
            let Some(tag) = root.requester.take_tag(port, now, id, Expects::Bytes(len), queue) else {
                return Err(HostOutput::MmioRead { id, address, len });
            };
            let request = MemoryRequest { op: MemoryOp::Read, requester: ROOT_ID, tag, span };
            let tlp = Tlp { repr: Repr::new(Body::Memory(request)), data: Data::NONE, carry: true };
            root.send(port, now, tlp, queue);
            Ok(Some(port))
        }
        HostOutput::ConfigRead { id, function, register_dw } => {
            let ask = Ask { id, function, register_dw, first_be: 0xf, write: None };
            config(root, now, &ask, queue).ok_or(HostOutput::ConfigRead { id, function, register_dw })
        }
        HostOutput::ConfigWrite { id, function, register_dw, byte_enables, value } => {
            let ask = Ask { id, function, register_dw, first_be: byte_enables & 0xf, write: Some(value) };
            let again = HostOutput::ConfigWrite { id, function, register_dw, byte_enables, value };
            config(root, now, &ask, queue).ok_or(again)
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
        if root.ports[port].posted_out.len() >= MAX_POSTED_OUT {
            let rest = data.slice(sent as usize, (len - sent) as usize);
            return Err(HostOutput::MmioWrite { address: address + u64::from(sent), data: rest });
        }
        let at = address + u64::from(sent);
        let piece = request_piece(at, len - sent, limit);
        // A piece never crosses 4 KiB, so it always has a span.
        let Ok(span) = Span::covering(at, piece) else { break };
        let request = MemoryRequest { op: MemoryOp::Write, requester: ROOT_ID, tag: Tag::default(), span };
        let data = data.slice(sent as usize, piece as usize);
        root.send(port, now, Tlp { repr: Repr::new(Body::Memory(request)), data, carry: false }, queue);
        sent += piece;
    }
    Ok(Some(port))
}

struct Ask {
    id: HostReadId,
    function: Bdf,
    register_dw: u16,
    first_be: u8,
    write: Option<u32>,
}

/// A configuration request becomes type 0 on the bus right behind a root port. `None` where there is no tag for it.
/// Device numbers above 0 are not on such a bus (`PCIe 5.0 §7.3.1`).
fn config(root: &mut RootComplex, now: Time, ask: &Ask, queue: &mut SortedQueue) -> Option<Option<usize>> {
    let port = root.map.port_of_bus(ask.function.bus(), root.ports.len());
    let Some(port) = port.filter(|_| ask.function.device() == 0) else {
        root.tell_host(now, HostInput::Done { id: ask.id, result: Err(HostError::NoDevice) }, queue);
        return Some(None);
    };
    let expects = if ask.write.is_some() { Expects::NoData } else { Expects::Register };
    let tag = root.requester.take_tag(port, now, ask.id, expects, queue)?;
    let request = ConfigRequest {
        op: if ask.write.is_some() { MemoryOp::Write } else { MemoryOp::Read },
        kind: ConfigKind::Type0,
        requester: ROOT_ID,
        tag,
        completer: ask.function,
        register_dw: ask.register_dw & 0x3ff,
        first_be: ask.first_be,
    };
    let data = match ask.write {
        Some(value) => Data::Carried(root.payloads.copy(&value.to_le_bytes())),
        None => Data::NONE,
    };
    root.send(port, now, Tlp { repr: Repr::new(Body::Config(request)), data, carry: true }, queue);
    Some(Some(port))
}

impl RootComplex {
    /// Puts a request of the host in its place behind all earlier ones.
    fn send(&mut self, port: usize, now: Time, tlp: Tlp, queue: &mut SortedQueue) {
        let at = now + self.profile.root_complex_latency;
        let stamp = self.reads.stamp();
        let posted = tlp.class() == tlp::Class::Posted;
        let p = &mut self.ports[port];
        let out = if posted { &mut p.posted_out } else { &mut p.non_posted_out };
        out.push_back(Outbound { stamp, at, tlp });
        if at > now {
            queue.push(at, Event::RootPort(port as u32));
        }
    }
}

/// A completion has come in: it belongs to an open request, or is unexpected.
pub(super) fn complete(root: &mut RootComplex, port: usize, now: Time, tlp: &Tlp, queue: &mut SortedQueue) {
    let Body::Completion(c) = tlp.repr.body else { return };
    let tag = c.tag.bits();
    let state = root.requester.ports[port].tags.get_mut(usize::from(tag));
    match state {
        Some(TagState::Open(open)) if c.requester == ROOT_ID => {
            let Some(result) = open.take(&c, tlp) else { return };
            let id = open.id;
            root.requester.release(port, tag);
            let result = result.map(|bytes| Data::Carried(root.payloads.copy(&bytes)));
            let at = now + root.profile.root_complex_latency;
            root.tell_host(at, HostInput::Done { id, result }, queue);
        }
        Some(TagState::Expired(_)) if c.requester == ROOT_ID => {
            root.counters.unexpected_completions += 1;
            root.requester.release(port, tag);
        }
        _ => root.counters.unexpected_completions += 1,
    }
}

impl Open {
    /// Takes a completion; the result, once the request is served or has failed.
    fn take(&mut self, c: &Completion, tlp: &Tlp) -> Option<Result<Vec<u8>, HostError>> {
        match c.status {
            Status::Success => {}
            Status::UnsupportedRequest => return Some(Err(HostError::Completion(CompletionError::UnsupportedRequest))),
            Status::CompleterAbort => return Some(Err(HostError::Completion(CompletionError::CompleterAbort))),
            Status::ConfigRetry => return Some(Err(HostError::ConfigRetry)),
        }
        if tlp.repr.ep {
            return Some(Err(HostError::BadCompletion));
        }
        match (self.expects, c.length_dw) {
            (Expects::NoData, None) => Some(Ok(Vec::new())),
            (Expects::Register, Some(1)) => Some(self.gather(tlp, 4)),
            (Expects::Bytes(len), Some(_)) => {
                let left = len - self.bytes.len() as u32;
                if u32::from(c.byte_count) != left || tlp.data.len() as u32 > left {
                    return Some(Err(HostError::BadCompletion));
                }
                let result = self.gather(tlp, len);
                (self.bytes.len() as u32 == len || result.is_err()).then_some(result)
            }
            _ => Some(Err(HostError::BadCompletion)),
        }
    }

    /// Data that the device only counts reads as zeros.
    fn gather(&mut self, tlp: &Tlp, len: u32) -> Result<Vec<u8>, HostError> {
        match tlp.data.bytes() {
            Some(bytes) => self.bytes.extend_from_slice(bytes),
            None => self.bytes.resize(self.bytes.len() + tlp.data.len(), 0),
        }
        if self.bytes.len() as u32 > len {
            return Err(HostError::BadCompletion);
        }
        Ok(self.bytes.clone())
    }
}

/// The completion timers have come to `now`.
pub(super) fn timeout(root: &mut RootComplex, now: Time, queue: &mut SortedQueue) {
    while let Some(due) = root.requester.deadlines.front().filter(|d| d.at <= now) {
        let (port, tag, serial) = (due.port, due.tag, due.serial);
        root.requester.deadlines.pop_front();
        expire(root, now, port, tag, serial, queue);
    }
    if let Some(next) = root.requester.deadlines.front() {
        queue.push(next.at, Event::RootTimer);
    }
}

fn expire(root: &mut RootComplex, now: Time, port: usize, tag: u16, serial: u64, queue: &mut SortedQueue) {
    let state = &mut root.requester.ports[port].tags[usize::from(tag)];
    match state {
        TagState::Open(open) if open.serial == serial => {
            let id = open.id;
            *state = TagState::Expired(serial);
            root.counters.completion_timeouts += 1;
            let at = now + root.requester.timeout;
            root.requester.deadlines.push_back(Deadline { at, port, tag, serial });
            root.tell_host(now, HostInput::Done { id, result: Err(HostError::CompletionTimeout) }, queue);
        }
        TagState::Expired(expired) if *expired == serial => root.requester.release(port, tag),
        _ => {}
    }
}
