// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A raw-TLP device in place of an endpoint: sends scripted TLPs, records arriving ones. It never answers and never
//! checks TLPs. So protocol studies, and replays of a capture with its tags, control every bit.

use crate::port::{CreditReturn, TlpPort};
use std::collections::VecDeque;
use tlp::{Bdf, Body, Class, CompletedRequest, Data, Status, TcSet, Time, Tlp};

/// Sends scripted TLPs at their times and records arriving ones. TLPs of one class are sent in the order of the script.
/// Each is sent when its time has come and the link has room.
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
    /// Makes a device that stores the first `record_limit` arriving TLPs, and only counts further ones.
    pub fn new(record_limit: usize) -> RawDevice {
        RawDevice { record_limit, ..RawDevice::default() }
    }

    /// Adds a TLP to the script, after the other TLPs of its class. It is sent at `at`, or as soon as possible
    /// afterwards.
    pub fn send(&mut self, at: Time, tlp: Tlp) {
        self.script[tlp.class().index()].push_back((at, tlp));
    }

    /// Returns the stored TLPs, each with its time of arrival.
    pub fn received(&self) -> &[(Time, Tlp)] {
        &self.received
    }

    /// Returns the number of TLPs that arrived and were not stored.
    pub fn unrecorded(&self) -> u64 {
        self.unrecorded
    }

    /// Returns the number of TLPs not yet sent.
    pub fn unsent(&self) -> usize {
        self.script.iter().map(VecDeque::len).sum()
    }
}

/// Returns the completion of a device that takes no requests: UR if the request needs a completion (`PCIe 5.0 §2.3.1`),
/// else `None`. Its Completer ID is the ID of the function that the request addresses, if any.
pub fn refusal(request: &Tlp) -> Option<Tlp> {
    let asked = CompletedRequest::of(&request.repr)?;
    let completer = match &request.repr.body {
        Body::Config(c) => c.completer,
        _ => Bdf::default(),
    };
    let repr = asked.without_data(completer, Status::UnsupportedRequest);
    Some(Tlp { account: request.account, ..Tlp::new(repr, Data::NONE) })
}

impl TlpPort for RawDevice {
    fn handle_tlp(&mut self, now: Time, tlp: &Tlp) {
        self.now = self.now.max(now);
        self.credits.push_back(CreditReturn::of(tlp));
        if self.received.len() < self.record_limit {
            self.received.push((now, tlp.clone()));
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

    /// Returns the next time in the script. TLPs whose time has come wait only for the link and do not count.
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
