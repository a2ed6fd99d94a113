// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A traffic generator: flows of raw TLPs, each with its type, size, Traffic Class, attributes and rate. It measures
//! the share of the link that each flow gets.
//!
//! The device is below the seam: it creates every request as one TLP, and handles its completions. It has no
//! configuration space and starts when its link is up. It completes every request of the host with UR, and raises an
//! interrupt when all flows have ended. It does not check the data that it reads, and allocates no memory while it runs.

mod model;
mod settings;
mod stats;

pub use model::{FlowSettings, Flows};
pub use settings::{Flow, FlowKind, MAX_FLOWS, MAX_TAGS, SettingsError, TrafficSettings};
pub use stats::{FlowReport, Latencies, MAX_LATENCIES, TrafficReport};

use crate::raw_end::RawEnd;
use device::Ready;
use endpoint::{CreditReturn, TlpPort};
use plug::Shared;
use std::collections::VecDeque;
use tlp::message::VENDOR_DEFINED_TYPE_1;
use tlp::{
    AtomicOp, AtomicRequest, Bdf, Body, Class, Completion, Data, Duration, MemoryOp, MemoryRequest, Message,
    MessageRouting, OperandSize, PayloadPool, Repr, Span, Status, Tag, TcSet, Time, Tlp,
};

/// A request that waits for completions.
#[derive(Clone, Copy, Debug)]
struct Open {
    flow: u8,
    /// Bytes still to come.
    left: u32,
    sent: Time,
}

/// A running flow.
struct Running {
    flow: Flow,
    /// Data of its requests.
    data: Data,
    /// Requests sent, and ended: completed, or sent if posted.
    sent: u64,
    ended: u64,
    next_at: Time,
    /// Offset of the next request in the window.
    offset: u64,
    /// Free tags, in the order in which they became free.
    tags: VecDeque<u16>,
}

/// Generates flows.
pub struct Traffic {
    id: Bdf,
    flows: Vec<Running>,
    /// First flow to poll, by class.
    turn: [usize; 3],
    open: Vec<Option<Open>>,
    report: Shared<TrafficReport>,
    delay: Duration,
    started: bool,
    now: Time,
    end: RawEnd,
    /// Classes of the flows that have requests to send, due or not.
    unsent: Ready,
}

impl Traffic {
    /// Creates a device that generates these flows and fills `report`.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn new(
        settings: &TrafficSettings,
        pool: &PayloadPool,
        report: &Shared<TrafficReport>,
    ) -> Result<Traffic, SettingsError> {
        settings.check()?;
        let mut next_tag = 0;
        let flows: Vec<Running> = settings
            .flows
            .iter()
            .map(|flow| {
                let first = next_tag;
                next_tag += flow.tags();
                Running::new(flow, first, pool)
            })
            .collect();
        report.change(|r| *r = TrafficReport::new(settings));
        let mut traffic = Traffic {
            id: settings.id,
            flows,
            turn: [0; 3],
            open: vec![None; usize::from(next_tag)],
            report: report.clone(),
            delay: settings.delay,
            started: false,
            now: Time::ZERO,
            end: RawEnd::new(settings.id, settings.done_vector, pool),
            unsent: Ready::NONE,
        };
        traffic.note_unsent();
        Ok(traffic)
    }

    /// Updates `unsent` after requests were sent or tags became free.
    fn note_unsent(&mut self) {
        let has_more = |flow: &&Running| flow.has_more();
        let ready = self.flows.iter().filter(has_more).map(|flow| Ready::output(flow.class()));
        self.unsent = ready.fold(Ready::NONE, Ready::or);
    }

    fn start(&mut self, now: Time) {
        self.now = self.now.max(now);
        if !self.started {
            self.started = true;
            let first = now + self.delay;
            self.report.change(|r| r.start = first);
            self.flows.iter_mut().for_each(|f| f.next_at = first);
        }
    }

    /// Returns the next flow of `class` that has something to send at `now`.
    fn next_flow(&self, now: Time, class: Class, room: TcSet) -> Option<usize> {
        let count = self.flows.len();
        let first = self.turn[class.index()];
        let may_send = |f: &Running| f.class() == class && f.is_due(now) && room.contains(f.flow.tc);
        (first..count).chain(0..first).find(|&at| may_send(&self.flows[at]))
    }

    fn send(&mut self, now: Time, at: usize) -> Tlp {
        let id = self.id;
        let running = &mut self.flows[at];
        let tag = running.tags.pop_front();
        if let Some(tag) = tag {
            let left = running.flow.answer_bytes();
            self.open[usize::from(tag)] = Some(Open { flow: at as u8, left, sent: now });
        }
        let tlp = running.next_tlp(now, id, Tag::from_bits(tag.unwrap_or(0)));
        let (bytes, posted) = (u64::from(running.flow.size_bytes), tag.is_none());
        self.report.change(|r| r.sent(at, if posted { bytes } else { 0 }));
        if posted {
            self.end(now, at);
        }
        self.note_unsent();
        tlp
    }

    /// Counts the end of a request of flow `at`.
    fn end(&mut self, now: Time, at: usize) {
        let running = &mut self.flows[at];
        running.ended += 1;
        if running.ended == running.flow.count {
            self.report.change(|r| r.flow_ended(at, now));
        }
    }

    fn is_done(&self) -> bool {
        self.flows.iter().all(|f| f.ended == f.flow.count)
    }

    fn take_completion(&mut self, now: Time, tlp: &Tlp, c: &Completion) {
        let slot = self.open.get_mut(usize::from(c.tag.bits())).filter(|_| c.requester == self.id);
        let Some(slot) = slot else { return self.report.change(|r| r.unexpected += 1) };
        let Some(open) = slot else { return self.report.change(|r| r.unexpected += 1) };
        let failed = c.status != Status::Success || tlp.repr.ep;
        open.left = open.left.saturating_sub(tlp.data.len() as u32);
        if open.left > 0 && !failed {
            return;
        }
        let Open { flow, sent, .. } = *open;
        *slot = None;
        let at = usize::from(flow);
        let running = &mut self.flows[at];
        running.tags.push_back(c.tag.bits());
        self.unsent = self.unsent.or(Ready::when(running.has_more(), Ready::output(Class::NonPosted)));
        let bytes = if failed { 0 } else { u64::from(running.flow.answer_bytes()) };
        self.report.change(|r| r.answered(at, now.since(sent), bytes));
        self.end(now, at);
    }
}

impl Running {
    fn new(flow: &Flow, first_tag: u16, pool: &PayloadPool) -> Running {
        // FetchAdd of one. The bytes of writes and messages do not matter.
        let data = match flow.kind {
            FlowKind::Read => Data::NONE,
            FlowKind::Write | FlowKind::Message => Data::Counted(flow.size_bytes),
            FlowKind::Atomic => Data::Carried(pool.fill(flow.size_bytes as usize, |bytes| {
                if let Some(low) = bytes.first_mut() {
                    *low = 1;
                }
            })),
        };
        let tags = (first_tag..first_tag + flow.tags()).collect();
        Running { flow: flow.clone(), data, sent: 0, ended: 0, next_at: Time::ZERO, offset: 0, tags }
    }

    fn class(&self) -> Class {
        self.flow.class()
    }

    /// Returns whether the flow has a request left to send, due or not.
    fn has_more(&self) -> bool {
        self.sent < self.flow.count && (self.class() == Class::Posted || !self.tags.is_empty())
    }

    fn is_due(&self, now: Time) -> bool {
        self.has_more() && self.next_at <= now
    }

    fn next_tlp(&mut self, now: Time, requester: Bdf, tag: Tag) -> Tlp {
        let Flow { kind, size_bytes, tc, attr, address, window_bytes, interval, .. } = self.flow;
        let at = address + self.offset;
        let stride = u64::from(size_bytes.next_power_of_two());
        self.offset += stride;
        if self.offset + stride > window_bytes {
            self.offset = 0;
        }
        self.sent += 1;
        // A delayed flow does not catch up: its rate never exceeds its setting.
        self.next_at = now + interval;
        let span = Span::covering(at, size_bytes).unwrap_or(Span::zero_length(at));
        let body = match kind {
            FlowKind::Read => Body::Memory(MemoryRequest { op: MemoryOp::Read, requester, tag, span }),
            FlowKind::Write => Body::Memory(MemoryRequest { op: MemoryOp::Write, requester, tag, span }),
            FlowKind::Atomic => {
                let operand = if size_bytes == 4 { OperandSize::Bits32 } else { OperandSize::Bits64 };
                Body::Atomic(AtomicRequest { op: AtomicOp::FetchAdd, operand, requester, tag, address: at })
            }
            FlowKind::Message => {
                let length_dw = (size_bytes > 0).then_some((size_bytes / 4) as u16);
                let (routing, code) = (MessageRouting::ToRootComplex, VENDOR_DEFINED_TYPE_1);
                Body::Message(Message { routing, requester, tag, code, header: [0; 8], length_dw })
            }
        };
        Tlp::new(Repr { tc, attr, ..Repr::new(body) }, self.data.clone())
    }
}

impl TlpPort for Traffic {
    fn handle_tlp(&mut self, now: Time, tlp: &Tlp) {
        self.now = self.now.max(now);
        let Some(tlp) = self.end.receive(tlp) else { return };
        if let Body::Completion(c) = tlp.repr.body {
            self.take_completion(now, tlp, &c);
        }
    }

    fn poll_tlp(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        self.start(now);
        if class == Class::Completion {
            return self.end.next_refusal(room);
        }
        let Some(at) = self.next_flow(now, class, room) else {
            return if class == Class::Posted && self.is_done() {
                self.end.done_interrupt(room)
            } else {
                None
            };
        };
        self.turn[class.index()] = if at + 1 < self.flows.len() { at + 1 } else { 0 };
        Some(self.send(now, at))
    }

    fn ready(&self) -> Ready {
        let done = Ready::when(self.end.has_interrupt() && self.is_done(), Ready::output(Class::Posted));
        self.unsent.or(done).or(self.end.ready())
    }

    fn poll_credits(&mut self) -> Option<CreditReturn> {
        self.end.poll_credits()
    }

    /// Returns when the next request is due. Requests that are due already only wait for the link.
    fn poll_timeout(&self) -> Option<Time> {
        self.flows.iter().filter(|f| f.next_at > self.now && f.has_more()).map(|f| f.next_at).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let report = self.report.get();
        let failed = report.flows.iter().map(|f| f.failed).sum();
        [("failed_requests", failed), ("unexpected_completions", report.unexpected)]
            .into_iter()
            .filter(|(_, n)| *n > 0)
            .collect()
    }

    fn errors(&self) -> Vec<(&'static str, u64)> {
        self.counts()
    }

    fn waits_for(&self) -> Option<String> {
        let open = self.open.iter().flatten().count();
        let left: u64 = self.flows.iter().map(|f| f.flow.count - f.sent).sum();
        let text = format!("traffic: {left} requests not sent, {open} not completed");
        (left > 0 || open > 0).then_some(text)
    }
}
