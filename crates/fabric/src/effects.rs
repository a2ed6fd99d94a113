// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The effects of a call to a root complex or a switch: the time and reason of the next call, actions of links, and the
//! time that transactions spent in stages. The caller takes all effects after each call.

use crate::bridge::Action;
use crate::ledger::{Note, Turn, ended_with};
use crate::stages::Stage;
use tlp::{Account, Time, Tlp};

/// Reason for a call of the root complex at a certain time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// Memory has drained posted data of this root port: see `drained`.
    Drained(u32),
    /// A TLP may be sent through this root port.
    Port(u32),
    /// A completion timer: see `handle_timeout`.
    Timer,
    /// Something reaches the host, or the host may go on.
    Host,
}

/// One effect of a call. A switch has only actions and notes.
#[derive(Clone, Copy, Debug)]
pub enum Effect {
    /// Memory serves a request. If that takes time, call `read_ready` for its job when the answer is at the root port.
    Served(Turn),
    /// Memory has served a write of a transaction.
    Written {
        /// The account of the transaction.
        account: Account,
        /// When the write reached the memory system.
        asked: Time,
        /// When it is visible to reads.
        visible: Time,
    },
    /// Call `read_ready` for this job at this time.
    Ready(Time, u32),
    /// Call the root complex at this time.
    Wake(Time, Due),
    /// A further note on a transaction.
    Note(Note),
    /// The link of this port must do this.
    Act(u32, Action),
}

/// The effects of calls, in order.
#[derive(Default)]
pub(crate) struct Effects {
    pub(crate) all: Vec<Effect>,
}

impl Effects {
    /// Has the root complex called at `at`.
    pub(crate) fn wake(&mut self, at: Time, due: Due) {
        self.all.push(Effect::Wake(at, due));
    }

    /// Has the link of `port` do `action`.
    pub(crate) fn act(&mut self, port: usize, action: Action) {
        self.all.push(Effect::Act(port as u32, action));
    }

    /// A TLP may be sent through `port` at `at`.
    pub(crate) fn wake_port(&mut self, port: usize, at: Time) {
        self.wake(at, Due::Port(port as u32));
    }

    pub(crate) fn push(&mut self, effect: Effect) {
        self.all.push(effect);
    }

    fn note(&mut self, note: Note) {
        self.all.push(Effect::Note(note));
    }

    /// The transaction is in `stage` until `until`.
    pub(crate) fn charge(&mut self, account: Account, stage: Stage, until: Time) {
        self.note(Note::Charge { account, stage, until });
    }

    /// The transaction of `tlp` has ended at `end`; until then it is in `stage`.
    pub(crate) fn close(&mut self, tlp: &Tlp, stage: Stage, end: Time) {
        self.note(Note::Close { account: tlp.account, status: ended_with(tlp), stage, end });
    }

    /// The transaction is an interrupt, and reaches the host at `end`.
    pub(crate) fn interrupt(&mut self, account: Account, end: Time) {
        self.note(Note::Interrupt { account, end });
    }

    /// Notes that the transaction has no effect.
    pub(crate) fn drop(&mut self, account: Account) {
        self.note(Note::Drop { account });
    }
}
