// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a call to the root complex leads to elsewhere: when it is to be called again and why, what links are to do, and where
//! transactions have spent their time. Whoever drives the root complex takes all of it after each call.

use crate::bridge::Action;
use crate::ledger::{Note, ended_with};
use crate::stages::Stage;
use std::collections::VecDeque;
use tlp::{Account, Time, Tlp};

/// Why the root complex is to be called at a time that it names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Due {
    /// Memory has answered this job: see `read_ready`.
    ReadReady(u32),
    /// Memory has drained posted data of this root port: see `drained`.
    Drained(u32),
    /// A TLP may leave through this root port.
    Port(u32),
    /// A completion timer: see `handle_timeout`.
    Timer,
    /// Something reaches the host, or the host may go on.
    Host,
}

/// What has come of calls, each list in its order.
#[derive(Default)]
pub(super) struct Effects {
    pub(super) wakes: Vec<(Time, Due)>,
    pub(super) notes: Vec<Note>,
    pub(super) actions: VecDeque<(usize, Action)>,
}

impl Effects {
    /// The root complex is to be called at `at`.
    #[inline]
    pub(super) fn wake(&mut self, at: Time, due: Due) {
        self.wakes.push((at, due));
    }

    /// A TLP may leave through `port` at `at`.
    pub(super) fn wake_port(&mut self, port: usize, at: Time) {
        self.wake(at, Due::Port(port as u32));
    }

    /// The transaction is in `stage` until `until`.
    pub(super) fn charge(&mut self, account: Account, stage: Stage, until: Time) {
        self.notes.push(Note::Charge { account, stage, until });
    }

    /// The transaction of `tlp` has ended at `end`; until then it is in `stage`.
    pub(super) fn close(&mut self, tlp: &Tlp, stage: Stage, end: Time) {
        self.notes.push(Note::Close { account: tlp.account, status: ended_with(tlp), stage, end });
    }

    /// Memory has served the request of a transaction, in these steps.
    #[inline]
    pub(super) fn served(&mut self, account: Account, now: Time, asked: Time, answered: Time, ready: Time) {
        self.notes.push(Note::Served { account, now, asked, answered, ready });
    }

    /// A write of a transaction reaches the memory system at `asked`, and what it has written is seen from `visible` on.
    #[inline]
    pub(super) fn written(&mut self, account: Account, asked: Time, visible: Time) {
        self.notes.push(Note::Written { account, asked, visible });
    }

    /// The transaction is an interrupt, and reaches the host at `end`.
    pub(super) fn interrupt(&mut self, account: Account, end: Time) {
        self.notes.push(Note::Interrupt { account, end });
    }

    /// The transaction comes to nothing.
    pub(super) fn drop(&mut self, account: Account) {
        self.notes.push(Note::Drop { account });
    }
}
