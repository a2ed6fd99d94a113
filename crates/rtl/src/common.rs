// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts shared by all blocks: time and reset, findings, and the queue for the link.

use crate::findings::{DesignStatus, Rule};
use device::seam::Ready;
use endpoint::hard_block::{DesignRequest, RefusedTlp, Target};
use plug::Shared;
use std::collections::VecDeque;
use tlp::{Class, Time, Tlp};

/// Maximum number of packets of one design stream that wait for the link.
pub(crate) const TX_BUFFERS: usize = 32;
/// Number of cycles of the user reset.
const RESET_CYCLES: u64 = 64;
/// Cycles after the reset before the design receives a packet: the design has its own resets, and on hardware the link
/// comes up milliseconds later.
const TRAINING_CYCLES: u64 = 64;

/// Time, reset and findings.
pub(crate) struct Common {
    pub(crate) status: Shared<DesignStatus>,
    pub(crate) cycle: u64,
    pub(crate) now: Time,
    latency: u64,
    /// Cycle in which the design leaves reset.
    ready_from: u64,
    /// Errors that the design reported in the previous cycle, as bits.
    errors: u32,
}

impl Common {
    pub(crate) fn new(latency: u32, status: Shared<DesignStatus>) -> Common {
        let latency = latency.into();
        Common { status, cycle: 0, now: Time::ZERO, latency, ready_from: RESET_CYCLES, errors: 0 }
    }

    /// Returns the cycle in which a TLP that enters the block now leaves it.
    pub(crate) fn from(&self) -> u64 {
        self.cycle + self.latency
    }

    /// Holds the design in reset.
    pub(crate) fn reset(&mut self) {
        self.ready_from = self.cycle + RESET_CYCLES;
    }

    pub(crate) fn in_reset(&self) -> bool {
        self.cycle < self.ready_from
    }

    /// Returns true if the link is up, which requires that the design is not in reset.
    pub(crate) fn is_up(&self, in_reset: bool) -> bool {
        !in_reset && self.cycle >= self.ready_from + TRAINING_CYCLES
    }

    pub(crate) fn found(&self, rule: &Rule, bytes: &[u8]) {
        self.status.change(|status| status.found(self.now, self.cycle, rule, bytes));
    }

    /// Reports that a TLP of the design was not sent.
    pub(crate) fn refused(&self, tlp: &Tlp, why: &RefusedTlp) {
        self.found_in(tlp, &Rule::Refused(why.to_string()));
    }

    /// Reports that a wrong TLP of the design was sent.
    pub(crate) fn sent_wrong(&self, tlp: &Tlp, why: &RefusedTlp) {
        self.found_in(tlp, &Rule::SentWrong(why.to_string()));
    }

    fn found_in(&self, tlp: &Tlp, rule: &Rule) {
        let mut bytes = Vec::new();
        emit(tlp, &mut bytes);
        self.found(rule, &bytes);
    }

    /// Reports errors that the design signals, each with its port's name, when they begin.
    pub(crate) fn errors(&mut self, all: impl Iterator<Item = (bool, &'static str)>) {
        let mut now = 0;
        for (n, (is, name)) in all.enumerate() {
            now |= u32::from(is) << n;
            if is && self.errors >> n & 1 == 0 {
                self.found(&Rule::Error(name), &[]);
            }
        }
        self.errors = now;
    }
}

/// Writes the bytes of a TLP to a reused buffer.
pub(crate) fn emit(tlp: &Tlp, bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.resize(tlp.wire_len(), 0);
    tlp.emit(bytes);
}

/// Returns the BAR of a request, if it addresses one.
pub(crate) fn bar_of(request: &DesignRequest) -> Option<u8> {
    match request.target {
        Target::Bar { bar, .. } => Some(bar.0),
        _ => None,
    }
}

/// Outputs that wait for the link, by class.
pub(crate) struct Leaving<T> {
    queues: [VecDeque<Waiting<T>>; 3],
    stamps: u64,
}

struct Waiting<T> {
    from: u64,
    /// Position in the order of all outputs that must not pass posted outputs.
    stamp: u64,
    what: T,
}

impl<T> Default for Leaving<T> {
    fn default() -> Leaving<T> {
        Leaving { queues: Default::default(), stamps: 0 }
    }
}

impl<T> Leaving<T> {
    /// Adds an output that may be sent from cycle `from`, after all earlier posted outputs.
    pub(crate) fn push(&mut self, class: Class, from: u64, what: T) {
        self.stamps += 1;
        self.queues[class.index()].push_back(Waiting { from, stamp: self.stamps, what });
    }

    /// Adds an output like [`push`](Self::push), but unordered with other classes.
    pub(crate) fn push_free(&mut self, class: Class, from: u64, what: T) {
        self.queues[class.index()].push_back(Waiting { from, stamp: 0, what });
    }

    /// Returns true if an output of the class may be sent: it must not pass an earlier posted output (`PCIe 5.0
    /// §2.4.1`).
    pub(crate) fn is_due(&self, class: Class, cycle: u64) -> bool {
        let posted = self.queues[Class::Posted.index()].front().map_or(u64::MAX, |first| first.stamp);
        let first = self.queues[class.index()].front();
        first.is_some_and(|first| first.from <= cycle && first.stamp <= posted)
    }

    /// Returns the classes that have an output to send.
    pub(crate) fn ready(&self, cycle: u64) -> Ready {
        let of = |class: &Class| Ready::when(self.is_due(*class, cycle), Ready::output(*class));
        Class::ALL.iter().fold(Ready::NONE, |all, class| all.or(of(class)))
    }

    pub(crate) fn pop(&mut self, class: Class, cycle: u64) -> Option<T> {
        if !self.is_due(class, cycle) {
            return None;
        }
        self.queues[class.index()].pop_front().map(|first| first.what)
    }

    pub(crate) fn waiting(&self, class: Class) -> usize {
        self.queues[class.index()].len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    /// Returns all waiting outputs for changes in place.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.queues.iter_mut().flatten().map(|waiting| &mut waiting.what)
    }

    pub(crate) fn clear(&mut self) {
        self.queues.iter_mut().for_each(VecDeque::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_do_not_pass_earlier_posted_ones() {
        let mut leaving = Leaving::default();
        leaving.push(Class::NonPosted, 0, 'a');
        leaving.push(Class::Posted, 5, 'b');
        leaving.push(Class::NonPosted, 0, 'c');
        leaving.push(Class::Completion, 0, 'd');
        leaving.push_free(Class::Completion, 0, 'e');
        assert_eq!(leaving.pop(Class::NonPosted, 0), Some('a'));
        assert_eq!(leaving.pop(Class::NonPosted, 0), None);
        assert_eq!(leaving.pop(Class::Completion, 0), None);
        assert_eq!(leaving.pop(Class::Posted, 5), Some('b'));
        assert_eq!([Class::Completion, Class::Completion].map(|c| leaving.pop(c, 5)), [Some('d'), Some('e')]);
        assert_eq!(leaving.pop(Class::NonPosted, 5), Some('c'));
        assert!(leaving.is_empty());
    }
}
