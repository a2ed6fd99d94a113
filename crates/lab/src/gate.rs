// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Holds a raw-TLP device back until the host says that its path is set up: nothing a device sends before has a way.
//! Never looks into what the device sends.

use device::{OutMessage, Ready};
use endpoint::{CreditReturn, TlpPort};
use link::Notice;
use plug::RawEnd;
use plug::plugged::MakeRaw;
use std::collections::VecDeque;
use tlp::message::VENDOR_DEFINED_TYPE_1;
use tlp::{Bdf, Body, Class, MessageRouting, TcSet, Time, Tlp};

/// The message with which the host starts the device of function `id`.
pub(crate) fn start(id: Bdf) -> OutMessage {
    let [high, low] = id.bits().to_be_bytes();
    let mut message = OutMessage::new(MessageRouting::ById, VENDOR_DEFINED_TYPE_1);
    message.header[..2].copy_from_slice(&[high, low]);
    message
}

/// A raw-TLP device that sends nothing but completions before the host's message.
pub(crate) struct Gate {
    again: MakeRaw,
    device: Box<dyn TlpPort>,
    open: bool,
    /// Credits that the device held when its link went down; bounded by the receive buffer.
    credits: VecDeque<CreditReturn>,
}

impl Gate {
    pub(crate) fn new(device: RawEnd) -> Gate {
        Gate { device: device.first, again: device.again, open: false, credits: VecDeque::new() }
    }

    /// The link is down: replaces the device by a new one, and returns the credits that the old one held.
    fn begin_anew(&mut self, now: Time) {
        self.open = false;
        while self.device.poll_tlp(now, Class::Completion, TcSet::ALL).is_some() {}
        self.credits.extend(std::iter::from_fn(|| self.device.poll_credits()));
        if let Some(device) = (self.again)() {
            self.device = device;
        }
    }
}

impl TlpPort for Gate {
    fn handle_tlp(&mut self, now: Time, tlp: Tlp) {
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
            self.begin_anew(now);
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

    fn waits_for(&self) -> Option<String> {
        self.device.waits_for()
    }
}
