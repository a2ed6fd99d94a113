// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs from one root port to another: the permission checks (`PCIe 5.0 §6.12`, §2.2.4), and the path. This module does
//! not handle requests to memory.
//!
//! A forwarded TLP keeps its credits until it is sent, so that the number of waiting TLPs is bounded. A split read
//! ([`PeerToPeer::Split`]) returns its credits at once, and takes a place in the memory system. Reads of the host
//! beyond Max_Read_Request_Size are split in the same way.

use super::completer::Job;
use super::requester::{Asker, memory};
use super::{Base, Outbound, PeerToPeer, RootComplex};
use crate::bridge::refusals::violation;
use crate::bridge::{self, DownReasons, answers};
use crate::effects::Effect;
use crate::stages::Stage;
use crate::topology::MSI_WINDOW;
use config::{Side, Uncorrectable};
use endpoint::CreditReturn;
use host::{HostError, HostInput, HostReadId};
use std::collections::VecDeque;
use tlp::rules::reasons::{beyond_mps, poisoned};
use tlp::split::request_piece;
use tlp::{
    Account, Attributes, Body, Class, Data, MemoryOp, MemoryRequest, Repr, RuleId, Span, Status, Time, Tlp,
    Violation,
};

/// Size and alignment in bytes of the parts of a split read: one cache line, as in the root complex of NetTLP's capture
/// `root-complex/mrd-512byte-rc.pcap`.
pub const SPLIT_BYTES: u32 = 64;

/// The verdict on a request from below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Memory answers the request, or it has no target.
    Here,
    /// The request is forwarded through this root port.
    Peer(usize),
    /// The function of this root port refuses the request.
    Refused(usize, Uncorrectable),
    /// The link of this root port is down.
    Closed(usize),
    /// The request came in through a contained port, and is dropped.
    Dropped,
}

use Verdict::{Closed, Dropped, Here, Peer, Refused};

/// The read that was split, and the size of its parts.
#[derive(Clone, Copy)]
enum Whole {
    /// The job of a device's read, split into lines.
    Device(u32),
    /// A read of the host, split into requests of `mrrs` bytes, with its time of issue.
    Host { id: HostReadId, mrrs: u32, asked: Time },
}

/// A read that was split.
struct Split {
    whole: Whole,
    egress: usize,
    /// When its first part is at the root port.
    at: Time,
    /// Header and prefixes of its parts, except for the span and the transaction ID.
    part: Tlp,
    address: u64,
    byte_count: u32,
    issued: u32,
    done: u32,
    failed: Option<HostError>,
    bytes: Vec<u8>,
}

impl Split {
    /// Bytes of the part that begins at `offset`.
    fn part_len(&self, offset: u32) -> u32 {
        let (address, left) = (self.address + u64::from(offset), self.byte_count - offset);
        match self.whole {
            Whole::Device(_) => part_len(address, left),
            Whole::Host { mrrs, .. } => request_piece(address, left, mrrs),
        }
    }
}

/// Returns the header and prefixes for the parts of `read`. The parts keep the read's Traffic Class (`PCIe 5.0
/// §2.2.6.6`), so that they push earlier writes (§2.4.1). They also keep No Snoop, Relaxed Ordering, hint and prefixes.
/// They do not keep ID-based Ordering. Their Requester ID differs from the Requester ID of the writes, so they could
/// pass the writes.
fn part_of(read: &Tlp) -> Tlp {
    let attr = read.repr.attr & Attributes::COMPLETED;
    let repr = Repr { attr, td: false, ..read.repr };
    Tlp { prefixes: read.prefixes.clone(), ..Tlp::new(repr, Data::NONE).with_carry(read.carry) }
}

/// Traffic between root ports: its rule, and the split reads by number. Numbers are reused.
#[derive(Default)]
pub(super) struct Peers {
    pub(super) mode: PeerToPeer,
    splits: Vec<Split>,
    free: Vec<u32>,
    /// Split reads that wait for a tag.
    waiting: VecDeque<u32>,
}

/// Bytes of the part that begins at `address`, with `left` bytes of the read left.
const fn part_len(address: u64, left: u32) -> u32 {
    let to_line = SPLIT_BYTES - (address % SPLIT_BYTES as u64) as u32;
    if left < to_line { left } else { to_line }
}

impl Base {
    /// Counts and logs a request or completion that ends here. Returns the completion status for a non-posted request.
    #[cold]
    pub(super) fn turn_away(
        &mut self,
        port: usize,
        now: Time,
        tlp: &Tlp,
        verdict: Verdict,
    ) -> Option<Status> {
        let (by, error) = match verdict {
            Here | Peer(_) => return Some(Status::UnsupportedRequest),
            Dropped => {
                let why = Violation::new(RuleId::Containment, 1);
                self.refused(|b| &mut b.function_counters.link_down, port, now, why, tlp);
                return None;
            }
            Closed(by) => return Some(self.refuse_closed(by, now, tlp)),
            Refused(by, error) => (by, error),
        };
        let side = if by == port { Side::Secondary } else { Side::Primary };
        let advisory = tlp.refusal_is_advisory() && error != Uncorrectable::MalformedTlp;
        self.log(by, now, error, advisory, side, tlp);
        let routes = |port: usize| self.ports[port].function.as_ref().map(|function| &function.routes);
        let why = match (error, routes(by)) {
            (Uncorrectable::MalformedTlp, Some(to)) => beyond_mps(tlp, to.mps.bytes()),
            _ => violation(error, tlp, routes(port)),
        };
        match error {
            Uncorrectable::MalformedTlp => {
                self.refused(|b| &mut b.counters.malformed, by, now, why, tlp);
                None
            }
            Uncorrectable::AcsViolation => {
                self.refused(|b| &mut b.function_counters.acs_violations, by, now, why, tlp);
                Some(Status::CompleterAbort)
            }
            _ => {
                self.refused(|b| &mut b.counters.unsupported_requests, by, now, why, tlp);
                Some(Status::UnsupportedRequest)
            }
        }
    }

    /// Queues a TLP after everything already queued for `egress`.
    fn pass(&mut self, egress: usize, now: Time, tlp: Tlp, credit: Option<(u32, CreditReturn)>) {
        let at = now + self.profile.root_complex_latency * 2;
        self.effects.charge(tlp.account, Stage::RootComplex, at);
        self.function_counters.peer_to_peer += 1;
        let stamp = self.stamp();
        let p = &mut self.ports[egress];
        if tlp.repr.ep
            && tlp.class() != Class::Completion
            && let Some(to) = &mut p.function
        {
            to.bridge.space_mut().note_poisoned_sent(Side::Secondary);
        }
        let lane = match tlp.class() {
            Class::Posted => &mut p.posted_out,
            Class::NonPosted => &mut p.non_posted_out,
            Class::Completion => &mut p.passing,
        };
        lane.push(tlp.repr.tc, Outbound { stamp, at, asked: None, tlp, credit });
        self.effects.wake_port(egress, at);
    }

    /// Splits a write that exceeds Max_Payload_Size of `egress` into pieces that do not (`PCIe 5.0 §1.3.1`). The last
    /// piece has the account and the credits.
    fn cut(&mut self, port: usize, egress: usize, now: Time, tlp: &Tlp) {
        let Body::Memory(m) = tlp.repr.body else { return };
        let (first, len) = (m.span.first_byte(), m.span.byte_count());
        let limit = self.ports[egress].config.mps.bytes();
        let mut sent = 0;
        while sent < len {
            let piece = request_piece(first + u64::from(sent), len - sent, limit);
            // A piece never crosses 4 KiB, so it always has a span.
            let Ok(span) = Span::covering(first + u64::from(sent), piece) else { break };
            let mut part = Tlp { data: tlp.data.slice(sent as usize, piece as usize), ..tlp.clone() };
            part.repr.body = Body::Memory(MemoryRequest { span, ..m });
            sent += piece;
            let last = sent == len;
            part.account = if last { tlp.account } else { Account::NONE };
            self.pass(egress, now, part, last.then(|| (port as u32, CreditReturn::of(tlp))));
        }
    }
}

impl RootComplex {
    /// The verdict on the request `tlp` that has come in at root port `port`.
    pub(super) fn judge(&self, port: usize, tlp: &Tlp) -> Verdict {
        let Some(from) = &self.base.ports[port].function else { return Here };
        if from.held.contains(DownReasons::CONTAINED) {
            return Dropped;
        }
        let (address, len) = match &tlp.repr.body {
            Body::Memory(m) => (m.span.first_byte(), m.span.byte_count()),
            Body::Atomic(a) => (a.address, a.operand.bytes()),
            _ => return Here,
        };
        if !from.routes.windows.bus_master_enable {
            return Refused(port, Uncorrectable::UnsupportedRequest);
        }
        if !from.routes.lets_up(tlp) {
            return Refused(port, Uncorrectable::AcsViolation);
        }
        let requester = tlp.repr.transaction().0;
        if self.base.memory.contains(requester, address, len) || MSI_WINDOW.contains(address, u64::from(len))
        {
            return Here;
        }
        // Addresses of a function with its own memory have no meaning for the windows of root ports.
        if self.peers.mode == PeerToPeer::Refuse || self.base.memory.is_granted(requester) {
            return Here;
        }
        self.judge_peer(port, tlp, address)
    }

    fn judge_peer(&self, port: usize, tlp: &Tlp, address: u64) -> Verdict {
        let Some(from) = &self.base.ports[port].function else { return Here };
        let egress = match self.base.port_of_address(address) {
            // The request would go back down, which only ACS Upstream Forwarding permits (`PCIe 5.0 §6.12.1.1`).
            Some(own) if own == port && !from.routes.forwards_upstream() => return Here,
            Some(egress) => egress,
            None => return Here,
        };
        let Some(to) = &self.base.ports[egress].function else { return Here };
        // Redirected requests come here as well. They were validated above.
        let blocked = bridge::PeerToPeer::Blocked;
        if egress != port && from.routes.request_to_peer(tlp, to.number) == blocked {
            return Refused(port, Uncorrectable::AcsViolation);
        }
        self.leave(egress, tlp)
    }

    /// The verdict of the egress port.
    fn leave(&self, egress: usize, tlp: &Tlp) -> Verdict {
        let Some(to) = &self.base.ports[egress].function else { return Here };
        if !to.is_open() {
            return Closed(egress);
        }
        let cut = self.peers.mode == PeerToPeer::Split && tlp.class() == Class::Posted;
        if tlp.repr.data_dw() * 4 > to.routes.mps.bytes() && !cut {
            return Refused(egress, Uncorrectable::MalformedTlp);
        }
        if to.routes.blocks_atomics && matches!(tlp.repr.body, Body::Atomic(_)) {
            return Refused(egress, Uncorrectable::AtomicOpEgressBlocked);
        }
        if to.routes.blocks_poisoned && tlp.repr.ep {
            return Refused(egress, Uncorrectable::PoisonedTlpEgressBlocked);
        }
        if to.routes.blocks_prefixes && tlp.prefixes.end_to_end() > 0 {
            return Refused(egress, Uncorrectable::TlpPrefixBlocked);
        }
        Peer(egress)
    }

    /// Forwards a request to `egress`. The request must have been checked.
    pub(super) fn pass_request(&mut self, port: usize, egress: usize, now: Time, tlp: &Tlp) {
        if tlp.repr.ep {
            self.base.refused(|b| &mut b.counters.poisoned, port, now, poisoned(), tlp);
            self.base.log(port, now, Uncorrectable::PoisonedTlp, true, Side::Secondary, tlp);
        }
        if self.peers.mode == PeerToPeer::Split
            && let Body::Memory(m) = &tlp.repr.body
            && !m.span.is_zero_length()
        {
            match m.op {
                MemoryOp::Read => return self.split(port, egress, now, tlp),
                MemoryOp::Write if tlp.repr.data_dw() * 4 > self.base.ports[egress].config.mps.bytes() => {
                    return self.base.cut(port, egress, now, tlp);
                }
                _ => {}
            }
        }
        let credit = Some((port as u32, CreditReturn::of(tlp)));
        self.base.pass(egress, now, tlp.clone(), credit);
    }

    /// Passes on a completion for a function downstream of another root port. Returns false if there is no such port,
    /// or the request may not reach it.
    pub(super) fn pass_completion(&mut self, port: usize, now: Time, tlp: &Tlp) -> bool {
        let Body::Completion(c) = tlp.repr.body else { return false };
        let Some(from) = &self.base.ports[port].function else { return false };
        let Some(egress) = self.base.port_of_bus(c.requester.bus()) else { return false };
        if egress == port && !from.routes.forwards_upstream() || self.peers.mode == PeerToPeer::Refuse {
            return false;
        }
        match self.leave(egress, tlp) {
            Here => return false,
            Peer(_) => {
                if tlp.repr.ep {
                    self.base.refused(|b| &mut b.counters.poisoned, port, now, poisoned(), tlp);
                    self.base.log(port, now, Uncorrectable::PoisonedTlp, true, Side::Secondary, tlp);
                }
                self.base.pass(egress, now, tlp.clone(), Some((port as u32, CreditReturn::of(tlp))));
            }
            verdict => {
                self.base.turn_away(port, now, tlp, verdict);
                self.base.effects.drop(tlp.account);
                self.base.return_credits(port, tlp);
            }
        }
        true
    }

    /// Splits a read into the root complex's own reads, of [`SPLIT_BYTES`] each.
    fn split(&mut self, port: usize, egress: usize, now: Time, tlp: &Tlp) {
        let Body::Memory(m) = tlp.repr.body else { return };
        self.base.return_credits(port, tlp);
        self.base.ports[port].reads_under_way[usize::from(tlp.repr.tc.bits())] += 1;
        let at = now + self.base.profile.root_complex_latency * 2;
        self.base.effects.charge(tlp.account, Stage::RootComplex, at);
        self.base.function_counters.split_reads += 1;
        let job = Job::passed(port, tlp, &m);
        let (address, byte_count) = (job.address, job.byte_count);
        let job = self.completer.insert(job);
        let (issued, done, failed) = (0, 0, None);
        let bytes = if tlp.carry { vec![0; byte_count as usize] } else { Vec::new() };
        let (part, whole) = (part_of(tlp), Whole::Device(job));
        let split = Split { whole, egress, at, part, address, byte_count, issued, done, failed, bytes };
        let number = self.peers.insert(split);
        self.issue_parts(number, now);
    }

    /// Splits a read of the host into requests of at most Max_Read_Request_Size (`PCIe 5.0 §7.5.3.4`). Returns `None`
    /// if no tag is free, because each split read must begin with an outstanding part.
    pub(super) fn split_of_host(
        &mut self,
        now: Time,
        id: HostReadId,
        egress: usize,
        read: &MemoryRequest,
    ) -> Option<Option<usize>> {
        let port = &self.base.ports[egress];
        if !port.tags.has_free() {
            return None;
        }
        let (address, byte_count) = (read.span.first_byte(), read.span.byte_count());
        let split = Split {
            whole: Whole::Host { id, mrrs: port.config.mrrs, asked: now },
            egress,
            at: now + self.base.profile.root_complex_latency,
            part: Tlp::new(Repr::new(Body::Memory(*read)), Data::NONE).with_carry(true),
            address,
            byte_count,
            issued: 0,
            done: 0,
            failed: None,
            bytes: vec![0; byte_count as usize],
        };
        let number = self.peers.insert(split);
        self.issue_parts(number, now);
        Some(Some(egress))
    }

    /// Sends parts while tags are free, then waits for a tag.
    fn issue_parts(&mut self, number: u32, now: Time) {
        loop {
            let split = &self.peers.splits[number as usize];
            let (egress, offset, at) = (split.egress, split.issued, split.at);
            let (address, len) = (split.address + u64::from(offset), split.part_len(offset));
            if len == 0 {
                return;
            }
            if !self.base.ports[egress].is_open() {
                self.peers.splits[number as usize].issued += len;
                // The last part frees the number.
                let over = self.part_done(number, offset, Err(HostError::NoDevice), now);
                if over { return } else { continue }
            }
            // A part never crosses 4 KiB, so it always has a span.
            let Ok(span) = Span::covering(address, len) else { return };
            let RootComplex { requester, base, .. } = self;
            let asker = Asker::Part { split: number, offset };
            let Body::Memory(MemoryRequest { op, .. }) = split.part.repr.body else { return };
            let request = Repr { body: memory(op, span), ..split.part.repr };
            let Some(repr) = requester.take_tag(base, egress, now, asker, request) else {
                return self.peers.waiting.push_back(number);
            };
            let tlp = Tlp { repr, ..split.part.clone() };
            let asked = match split.whole {
                Whole::Host { asked, .. } => Some(asked),
                Whole::Device(_) => {
                    self.base.function_counters.split_parts += 1;
                    None
                }
            };
            self.peers.splits[number as usize].issued += len;
            let stamp = self.base.stamp();
            let at = at.max(now);
            self.base.ports[egress]
                .non_posted_out
                .push(tlp.repr.tc, Outbound { stamp, at, asked, tlp, credit: None });
            self.base.effects.wake_port(egress, at);
        }
    }

    /// A tag has become free.
    pub(super) fn issue_waiting(&mut self, now: Time) {
        for _ in 0..self.peers.waiting.len() {
            let Some(number) = self.peers.waiting.pop_front() else { return };
            self.issue_parts(number, now);
        }
    }

    /// Handles the end of the part at `offset`. Returns true if this was the last part.
    pub(super) fn part_done(
        &mut self,
        number: u32,
        offset: u32,
        result: Result<Data, HostError>,
        now: Time,
    ) -> bool {
        let split = &mut self.peers.splits[number as usize];
        let len = split.part_len(offset);
        split.done += len;
        match result {
            Ok(data) => {
                let place = split.bytes.get_mut(offset as usize..(offset + len) as usize);
                if let (Some(place), Some(bytes)) = (place, data.bytes()) {
                    place.copy_from_slice(bytes);
                }
            }
            Err(error) => split.failed = split.failed.or(Some(error)),
        }
        let over = split.done == split.byte_count;
        if over {
            self.rebuild(number, now);
        }
        over
    }

    /// Ends a read with all its parts: the root complex completes it, or hands the host its data.
    fn rebuild(&mut self, number: u32, now: Time) {
        let split = &mut self.peers.splits[number as usize];
        let (failed, whole) = (split.failed, split.whole);
        let data = match split.part.carry {
            true => Data::Carried(self.base.payloads.copy(&std::mem::take(&mut split.bytes))),
            false => Data::Counted(split.byte_count),
        };
        self.peers.free.push(number);
        let latency = self.base.profile.root_complex_latency;
        let job = match whole {
            Whole::Device(job) => job,
            Whole::Host { id, .. } => {
                let result = failed.map_or(Ok(data), Err);
                return self.base.tell_host(now + latency, HostInput::Done { id, result });
            }
        };
        let ready = now + latency * 2;
        let account = self.completer.finish(job, data, failed.map(status_of));
        self.base.effects.charge(account, Stage::Completer, now);
        self.base.effects.charge(account, Stage::RootComplex, ready);
        self.completer.in_memory += 1;
        self.base.effects.push(Effect::Ready(ready, job));
    }
}

impl Peers {
    fn insert(&mut self, split: Split) -> u32 {
        if let Some(at) = self.free.pop() {
            self.splits[at as usize] = split;
            return at;
        }
        self.splits.push(split);
        (self.splits.len() - 1) as u32
    }

    /// True if no read waits for a tag.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

/// Completion Status of a read with a failed part: UR if the part was refused, CA otherwise (`PCIe 5.0 §2.3.1`).
fn status_of(error: HostError) -> Status {
    use device::CompletionError::UnsupportedRequest;
    match error {
        HostError::Completion(UnsupportedRequest) | HostError::NoDevice => Status::UnsupportedRequest,
        _ => Status::CompleterAbort,
    }
}

impl RootComplex {
    /// Answers a request from another root port that was to leave through `port`.
    pub(super) fn answer(&mut self, port: usize, now: Time, request: &Tlp, status: Status) {
        let id = self.base.ports[port].function.as_ref().map_or(super::ROOT_ID, |f| f.bridge.id());
        let to = self
            .base
            .port_of_bus(request.repr.transaction().0.bus())
            .filter(|&to| self.base.ports[to].is_open());
        match (answers::completion(request, id, status), to) {
            (Some(mut tlp), Some(to)) => {
                tlp.repr.td = self.base.ports[to].config.ecrc;
                self.base.pass(to, now, tlp, None);
            }
            _ => self.base.effects.drop(request.account),
        }
    }
}
