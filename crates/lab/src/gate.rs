// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Holds a raw-TLP device back until the host says that its path is set up: nothing a device sends before has a way.
//! Never looks into what the device sends.

use device::{CreditReturn, OutMessage, Ready, TlpPort};
use link::Notice;
use tlp::{Bdf, Body, Class, MessageRouting, TcSet, Time, Tlp};

/// Message Code of Vendor_Defined Type 1, which whoever does not know it drops (`PCIe 5.0 §2.2.8.6`).
const VENDOR_DEFINED_1: u8 = 0x7f;

/// The message with which the host starts the device of function `id`.
pub(crate) fn start(id: Bdf) -> OutMessage {
    let [high, low] = id.bits().to_be_bytes();
    let mut message = OutMessage::new(MessageRouting::ById, VENDOR_DEFINED_1);
    message.header[..2].copy_from_slice(&[high, low]);
    message
}

/// A raw-TLP device that sends nothing but completions before the host's message.
pub(crate) struct Gate {
    device: Box<dyn TlpPort>,
    open: bool,
}

impl Gate {
    pub(crate) fn new(device: Box<dyn TlpPort>) -> Gate {
        Gate { device, open: false }
    }
}

impl TlpPort for Gate {
    fn handle_tlp(&mut self, now: Time, tlp: Tlp) {
        self.open |= matches!(tlp.repr.body, Body::Message(m) if m.code == VENDOR_DEFINED_1);
        self.device.handle_tlp(now, tlp);
    }

    #[inline]
    fn poll_tlp(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        if self.open || class == Class::Completion { self.device.poll_tlp(now, class, room) } else { None }
    }

    #[inline]
    fn ready(&self) -> Ready {
        self.device.ready()
    }

    #[inline]
    fn poll_credits(&mut self) -> Option<CreditReturn> {
        self.device.poll_credits()
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Time> {
        if self.open { self.device.poll_timeout() } else { None }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.device.handle_timeout(now);
    }

    fn handle_notice(&mut self, now: Time, notice: Notice) {
        self.open &= !matches!(notice, Notice::Down { .. });
        self.device.handle_notice(now, notice);
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        self.device.counts()
    }

    fn waits_for(&self) -> Option<String> {
        self.device.waits_for()
    }
}
