// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A raw-TLP device, below the seam: sends what it was told, records what arrives. Never answers and never checks, so
//! that whoever studies the protocol, or replays a capture with its tags, has every bit in hand.

use crate::port::{CreditReturn, TlpPort};
use std::collections::VecDeque;
use tlp::{Attributes, Bdf, Body, Class, Completion, Data, MemoryOp, Repr, Status, TcSet, Time, Tlp};

/// Sends scripted TLPs at their times, records those that arrive. TLPs of one class leave in the order of the script,
/// each when its time has come and the link has room.
#[derive(Debug, Default)]
pub struct RawDevice {
    script: [VecDeque<(Time, Tlp)>; 3],
    received: Vec<(Time, Tlp)>,
    record_limit: usize,
    unrecorded: u64,
    credits: VecDeque<CreditReturn>,
    now: Time,
}

impl RawDevice {
    /// A device that keeps the first `record_limit` TLPs that arrive, and only counts those behind them.
    #[must_use]
    pub fn new(record_limit: usize) -> RawDevice {
        RawDevice { record_limit, ..RawDevice::default() }
    }

    /// Adds a TLP to the script, behind those of its class: to be sent at `at`, or as soon as it can be.
    pub fn send(&mut self, at: Time, tlp: Tlp) {
        self.script[tlp.class().index()].push_back((at, tlp));
    }

    /// What has arrived, with its time of arrival.
    #[must_use]
    pub fn received(&self) -> &[(Time, Tlp)] {
        &self.received
    }

    /// TLPs that arrived and were not kept.
    #[must_use]
    pub fn unrecorded(&self) -> u64 {
        self.unrecorded
    }

    /// TLPs not yet sent.
    #[must_use]
    pub fn unsent(&self) -> usize {
        self.script.iter().map(VecDeque::len).sum()
    }
}

/// What a device that knows no request answers: UR to one that asks for an answer (`PCIe 5.0 §2.3.1`), nothing to
/// others. In the name of the function asked, where the request has one.
#[must_use]
pub fn refusal(request: &Tlp) -> Option<Tlp> {
    if request.class() != Class::NonPosted {
        return None;
    }
    let (requester, tag) = request.repr.transaction();
    // Byte Count and Lower Address of what answers no read are 4 and 0 (`PCIe 5.0 §2.2.9`).
    let (completer, byte_count, lower_address, locked) = match &request.repr.body {
        Body::Memory(m) if m.op.is_read() => {
            let (bytes, first) = (m.span.byte_count() as u16, (m.span.first_byte() & 0x7f) as u8);
            (Bdf::default(), bytes, first, m.op == MemoryOp::ReadLocked)
        }
        Body::Config(c) => (c.completer, 4, 0, false),
        _ => (Bdf::default(), 4, 0, false),
    };
    let body = Completion {
        locked,
        completer,
        requester,
        tag,
        status: Status::UnsupportedRequest,
        bcm: false,
        byte_count,
        lower_address,
        length_dw: None,
    };
    let mut repr = Repr::new(Body::Completion(body));
    (repr.tc, repr.attr) = (request.repr.tc, request.repr.attr & Attributes::COMPLETED);
    Some(Tlp { account: request.account, ..Tlp::new(repr, Data::NONE) })
}

impl TlpPort for RawDevice {
    fn handle_tlp(&mut self, now: Time, tlp: Tlp) {
        self.now = self.now.max(now);
        self.credits.push_back(CreditReturn::of(&tlp));
        if self.received.len() < self.record_limit {
            self.received.push((now, tlp));
        } else {
            self.unrecorded += 1;
        }
    }

    fn poll_tlp(&mut self, now: Time, class: Class, _room: TcSet) -> Option<Tlp> {
        self.now = self.now.max(now);
        let script = &mut self.script[class.index()];
        if script.front()?.0 > now {
            return None;
        }
        script.pop_front().map(|(_, tlp)| tlp)
    }

    fn poll_credits(&mut self) -> Option<CreditReturn> {
        self.credits.pop_front()
    }

    /// The next time in the script; a TLP whose time has come only waits for the link.
    fn poll_timeout(&self) -> Option<Time> {
        let next = self.script.iter().filter_map(|s| s.front()).map(|(at, _)| *at);
        next.filter(|&at| at > self.now).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    fn waits_for(&self) -> Option<String> {
        let unsent = self.unsent();
        (unsent > 0).then(|| format!("raw device: {unsent} TLPs of its script not sent"))
    }
}
