// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The effects of a call to the root complex: the time and reason of the next call, actions of links, and the time that
//! transactions spent in stages. The driver of the root complex takes all effects after each call.

use crate::bridge::Action;
use crate::ledger::{Note, Turn, ended_with};
use crate::stages::Stage;
use tlp::{Account, Time, Tlp};

/// Reason for a call of the root complex at a certain time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Due {
    /// Memory has drained posted data of this root port: see `drained`.
    Drained(u32),
    /// A TLP may be sent through this root port.
    Port(u32),
    /// A completion timer: see `handle_timeout`.
    Timer,
    /// Something reaches the host, or the host may go on.
    Host,
}

/// One effect of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    /// Memory serves a request. If that takes time, call `read_ready` for its job when the answer is at the root port.
    Served(Turn),
    /// Memory has served a write of a transaction: see `Ledger::written`.
    Written { account: Account, asked: Time, visible: Time },
    /// Call `read_ready` for this job at this time.
    Ready(Time, u32),
    /// Call the root complex at this time.
    Wake(Time, Due),
    /// A further note on a transaction.
    Note(Note),
    /// The link of this root port must do this.
    Act(u32, Action),
}

/// The effects of calls, in order.
#[derive(Default)]
pub(super) struct Effects {
    pub(super) all: Vec<Effect>,
}

impl Effects {
    /// Has the root complex called at `at`.
    pub(super) fn wake(&mut self, at: Time, due: Due) {
        self.all.push(Effect::Wake(at, due));
    }

    /// Has the link of `port` do `action`.
    pub(super) fn act(&mut self, port: usize, action: Action) {
        self.all.push(Effect::Act(port as u32, action));
    }

    /// A TLP may be sent through `port` at `at`.
    pub(super) fn wake_port(&mut self, port: usize, at: Time) {
        self.wake(at, Due::Port(port as u32));
    }

    pub(super) fn push(&mut self, effect: Effect) {
        self.all.push(effect);
    }

    fn note(&mut self, note: Note) {
        self.all.push(Effect::Note(note));
    }

    /// The transaction is in `stage` until `until`.
    pub(super) fn charge(&mut self, account: Account, stage: Stage, until: Time) {
        self.note(Note::Charge { account, stage, until });
    }

    /// The transaction of `tlp` has ended at `end`; until then it is in `stage`.
    pub(super) fn close(&mut self, tlp: &Tlp, stage: Stage, end: Time) {
        self.note(Note::Close { account: tlp.account, status: ended_with(tlp), stage, end });
    }

    /// The transaction is an interrupt, and reaches the host at `end`.
    pub(super) fn interrupt(&mut self, account: Account, end: Time) {
        self.note(Note::Interrupt { account, end });
    }

    /// Notes that the transaction has no effect.
    pub(super) fn drop(&mut self, account: Account) {
        self.note(Note::Drop { account });
    }
}
