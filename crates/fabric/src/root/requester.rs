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
    Access, Bdf, Body, Completion, ConfigKind, ConfigRequest, Data, Duration, MemoryOp, MemoryRequest,
    PayloadPool, Repr, Span, Status, Tag, Time, Tlp,
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expects {
    Bytes(u32),
    NoData,
}

/// Bytes of a configuration register.
const REGISTER: Expects = Expects::Bytes(4);

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
        TagSlot { state: TagState::Free, id: HostReadId(0), expects: REGISTER, deadline: Time::MAX, bytes }
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
            let tlp = Tlp::new(Repr::new(Body::Memory(request)), Data::NONE).with_carry(true);
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
        root.send(port, now, Tlp::new(Repr::new(Body::Memory(request)), data), queue);
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
    let expects = if ask.write.is_some() { Expects::NoData } else { REGISTER };
    let tag = root.requester.take_tag(port, now, ask.id, expects, queue)?;
    let request = ConfigRequest {
        op: if ask.write.is_some() { Access::Write } else { Access::Read },
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
    root.send(port, now, Tlp::new(Repr::new(Body::Config(request)), data).with_carry(true), queue);
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
    let (tag, ours) = (c.tag.bits(), c.requester == ROOT_ID);
    match root.requester.ports[port].tags.get_mut(usize::from(tag)).filter(|_| ours) {
        Some(slot) if slot.state == TagState::Open => {
            let Some(result) = slot.take(&c, tlp, &root.payloads) else { return };
            let (id, over) = (slot.id, result.is_ok() || is_last(&c));
            slot.state = TagState::Resting;
            if over {
                root.requester.release(port, tag);
            }
            let at = now + root.profile.root_complex_latency;
            root.tell_host(at, HostInput::Done { id, result }, queue);
        }
        Some(slot) if slot.state == TagState::Resting => {
            root.counters.unexpected_completions += 1;
            if is_last(&c) {
                root.requester.release(port, tag);
                // The program may have waited for the tag.
                queue.push(now, Event::Host);
            }
        }
        _ => root.counters.unexpected_completions += 1,
    }
}

/// Whether no completion of the same request can follow.
fn is_last(c: &Completion) -> bool {
    let bytes = u32::from(c.length_dw.unwrap_or(0)) * 4;
    c.status != Status::Success
        || c.length_dw.is_none()
        || bytes >= u32::from(c.lower_address & 3) + u32::from(c.byte_count)
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
            Status::ConfigRetry => return Some(Err(HostError::ConfigRetry)),
        }
        if tlp.repr.ep {
            return Some(Err(HostError::BadCompletion));
        }
        match (self.expects, c.length_dw) {
            (Expects::NoData, None) => Some(Ok(Data::NONE)),
            (Expects::Bytes(len), Some(_)) => self.gather(c, &tlp.data, len, pool),
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
