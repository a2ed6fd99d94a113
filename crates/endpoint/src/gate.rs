// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Holds a raw-TLP device back until the host has set up its path: TLPs sent earlier could not be routed.

use crate::{CreditReturn, TlpPort};
use device::Ready;
use link::Notice;
use std::collections::VecDeque;
use tlp::message::VENDOR_DEFINED_TYPE_1;
use tlp::rules::Refusal;
use tlp::{Body, Class, TcSet, Time, Tlp};

/// Makes a raw-TLP device in its state after power-on. Returns `None` if this is impossible; then the old device stays.
pub type MakeRaw = Box<dyn Fn() -> Option<Box<dyn TlpPort>>>;

/// A raw-TLP device that sends only completions until the host sends it a Vendor_Defined message of Type 1.
pub struct Gate {
    again: MakeRaw,
    device: Box<dyn TlpPort>,
    open: bool,
    /// Credits that the device held when its link went down; bounded by the receive buffer.
    credits: VecDeque<CreditReturn>,
}

impl Gate {
    /// Holds `device` back. `again` makes a new device each time the link goes down.
    pub fn new(device: Box<dyn TlpPort>, again: MakeRaw) -> Gate {
        Gate { device, again, open: false, credits: VecDeque::new() }
    }

    /// Replaces the device by a new one after the link went down, and returns the credits that the old one held.
    fn replace_device(&mut self, now: Time) {
        self.open = false;
        while self.device.poll_tlp(now, Class::Completion, TcSet::ALL).is_some() {}
        self.credits.extend(std::iter::from_fn(|| self.device.poll_credits()));
        if let Some(device) = (self.again)() {
            self.device = device;
        }
    }
}

impl TlpPort for Gate {
    fn handle_tlp(&mut self, now: Time, tlp: &Tlp) {
        self.open |= matches!(tlp.repr.body, Body::Message(m) if m.code == VENDOR_DEFINED_TYPE_1);
        self.device.handle_tlp(now, tlp);
    }

    fn poll_tlp(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        if self.open || class == Class::Completion { self.device.poll_tlp(now, class, room) } else { None }
    }

    fn ready(&self) -> Ready {
        let earlier = if self.credits.is_empty() { Ready::NONE } else { Ready::TAKEN };
        self.device.ready().or(earlier)
    }

    fn poll_credits(&mut self) -> Option<CreditReturn> {
        if self.credits.is_empty() { self.device.poll_credits() } else { self.credits.pop_front() }
    }

    fn poll_timeout(&self) -> Option<Time> {
        if self.open { self.device.poll_timeout() } else { None }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.device.handle_timeout(now);
    }

    fn handle_notice(&mut self, now: Time, notice: Notice) {
        if matches!(notice, Notice::Down { .. }) {
            self.replace_device(now);
        }
        self.device.handle_notice(now, notice);
    }

    fn longest_non_posted(&self) -> u32 {
        self.device.longest_non_posted()
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        self.device.counts()
    }

    fn errors(&self) -> Vec<(&'static str, u64)> {
        self.device.errors()
    }

    fn refusals(&self) -> Vec<Refusal> {
        self.device.refusals()
    }

    fn waits_for(&self) -> Option<String> {
        self.device.waits_for()
    }
}
