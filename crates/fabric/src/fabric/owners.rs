// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The owners of ports: root ports, devices in slots and ports of switches supply TLPs and return credits.

use super::FabricSlot;
use crate::ledger::Ledger;
use crate::root::RootComplex;
use crate::stages::Stage;
use crate::switch::Switch;
use crate::topology::LinkId;
use crate::wire::PortState;
use device::Ready;
use endpoint::{CreditReturn, PortStatus};
use link::Port;
use tlp::{Account, Body, Class, MemoryOp, TcSet, Time, Tlp};

/// The owner of a port: it supplies TLPs to send and returns credits.
pub(super) trait PortOwner {
    /// The classes of the TLPs that it has to send, bits by [`Class::index`].
    fn outputs(&self) -> u8;

    /// Returns the Traffic Classes of `class` that may be polled.
    fn room(&self, class: Class, port: &Port) -> TcSet {
        port.room(class)
    }

    /// Its next TLP of `class`, of one of the Traffic Classes in `room`.
    fn poll_tlp(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp>;

    /// Returns the account of the TLP that `poll_tlp` has just returned. Opens one if it begins a transaction.
    fn open_account(&mut self, ledger: &mut Ledger, now: Time, class: Class, tlp: &Tlp) -> Account;

    /// Returns the credits that are due. Returns true if `outputs` may have changed by that.
    fn return_credits(&mut self, port: &mut Port, now: Time) -> bool;

    /// Moves the owner's TLPs to `port` as far as there is room, and returns credits. Returns false if the owner has no
    /// more TLPs.
    // Inlined into its callers, which know the owner.
    #[inline(always)]
    fn refill(&mut self, port: &mut PortState, now: Time, ledger: &mut Ledger) -> bool {
        let (mut outputs, mut done) = (self.outputs(), 0);
        // Usually most classes are empty. Sending a posted TLP may unblock the classes after it. A device in which a poll
        // of one class leads to output of an earlier one asks for a call by its timeout.
        while let Some(class) = first_class(outputs & port.port.open_classes() & !done) {
            let bit = 1 << class.index();
            done |= bit - 1;
            if !self.refill_one(class, port, now, ledger) {
                done |= bit;
            }
            outputs = self.outputs();
        }
        if self.return_credits(&mut port.port, now) {
            outputs = self.outputs();
        }
        port.note_outputs(outputs);
        outputs != 0
    }

    /// Moves one TLP of `class`. Returns false if there is no TLP or no room.
    #[inline(always)]
    fn refill_one(&mut self, class: Class, port: &mut PortState, now: Time, ledger: &mut Ledger) -> bool {
        let room = self.room(class, &port.port);
        if room.is_empty() {
            return false;
        }
        // The TLP moves only once more, into the port: each move of a freshly written TLP waits for the writes.
        let Some(tlp) = self.poll_tlp(now, class, room) else { return false };
        let account = self.open_account(ledger, now, class, &tlp);
        port.port.enqueue(now, tlp, account);
        true
    }
}

#[inline(always)]
fn return_credit(port: &mut Port, now: Time, credit: CreditReturn) {
    port.return_credits(now, credit.tc, credit.class, credit.data_credits);
}

/// The first of a set of classes, bits by [`Class::index`].
fn first_class(set: u8) -> Option<Class> {
    Class::ALL.get(set.trailing_zeros() as usize).copied()
}

/// Root port `port` of a host.
pub(super) struct RootPortOwner<'a> {
    root: &'a mut RootComplex,
    port: usize,
    link: usize,
    /// Whether it has handed over a TLP.
    pub(super) moved: bool,
}

impl<'a> RootPortOwner<'a> {
    pub(super) fn of(root: &'a mut RootComplex, port: usize, link: LinkId) -> RootPortOwner<'a> {
        RootPortOwner { root, port, link: link.0 as usize, moved: false }
    }
}

impl PortOwner for RootPortOwner<'_> {
    fn outputs(&self) -> u8 {
        self.root.outputs(self.port)
    }

    #[inline]
    fn poll_tlp(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        let tlp = self.root.poll_tlp(self.port, now, class, room);
        self.moved |= tlp.is_some();
        tlp
    }

    fn open_account(&mut self, ledger: &mut Ledger, _now: Time, class: Class, tlp: &Tlp) -> Account {
        match self.root.poll_asked(class) {
            None => tlp.account,
            Some(asked) => ledger.open_asked(asked, self.link, tlp),
        }
    }

    fn return_credits(&mut self, port: &mut Port, now: Time) -> bool {
        for credit in self.root.owed_credits(self.port).drain(..) {
            return_credit(port, now, credit);
        }
        false
    }
}

/// The device in slot `number`. The fabric polls its readiness whenever it may have changed, because the device may
/// continue after a TLP was accepted or refused.
pub(super) struct SlotOwner<'a> {
    slot: &'a mut FabricSlot,
    number: usize,
    /// The device's status after its last call.
    pub(super) status: PortStatus,
    /// Whether accounts of its writes are opened only if they leave the fast path.
    defers_accounts: bool,
}

impl<'a> SlotOwner<'a> {
    #[inline(always)]
    pub(super) fn of(slot: &'a mut FabricSlot, number: usize, port: &Port) -> SlotOwner<'a> {
        let (status, defers_accounts) = (slot.device.status(), slot.is_below_root && port.rare().is_empty());
        SlotOwner { slot, number, status, defers_accounts }
    }
}

impl PortOwner for SlotOwner<'_> {
    fn outputs(&self) -> u8 {
        self.status.ready.outputs() | self.slot.holds
    }

    fn room(&self, class: Class, port: &Port) -> TcSet {
        self.slot.room(class, port)
    }

    #[inline]
    fn poll_tlp(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        if self.slot.holds(class) {
            return self.slot.next_held(class, room);
        }
        let mut given = self.slot.device.poll_tlp_and_status(now, class, room, &mut self.status);
        if !given.as_ref().is_none_or(|tlp| room.contains(tlp.repr.tc)) {
            self.slot.hold(class, given.take());
        }
        given
    }

    #[inline(always)]
    fn open_account(&mut self, ledger: &mut Ledger, now: Time, class: Class, tlp: &Tlp) -> Account {
        if self.defers_accounts && matches!(&tlp.repr.body, Body::Memory(m) if m.op == MemoryOp::Write) {
            return ledger.defer();
        }
        ledger.leaving(now, self.number, class, tlp)
    }

    // A device may have more to send when its credits are returned.
    fn return_credits(&mut self, port: &mut Port, now: Time) -> bool {
        while self.status.ready.contains(Ready::TAKEN) {
            let Some(credit) = self.slot.device.poll_credits() else {
                // Even a call without a result may change when the device is to be called next.
                self.status.timeout = self.slot.device.poll_timeout();
                break;
            };
            return_credit(port, now, credit);
            self.status = self.slot.device.status();
        }
        true
    }
}

/// Port `port` of a switch.
pub(super) struct SwitchPortOwner<'a> {
    pub(super) switch: &'a mut Switch,
    pub(super) port: usize,
}

impl PortOwner for SwitchPortOwner<'_> {
    fn outputs(&self) -> u8 {
        self.switch.outputs(self.port)
    }

    #[inline]
    fn poll_tlp(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        self.switch.poll_tlp(self.port, now, class, room)
    }

    fn open_account(&mut self, ledger: &mut Ledger, now: Time, _class: Class, tlp: &Tlp) -> Account {
        ledger.charge(tlp.account, Stage::Switch, now);
        tlp.account
    }

    #[inline(always)]
    fn return_credits(&mut self, port: &mut Port, now: Time) -> bool {
        while let Some(credit) = self.switch.poll_credits(self.port) {
            return_credit(port, now, credit);
        }
        false
    }
}
