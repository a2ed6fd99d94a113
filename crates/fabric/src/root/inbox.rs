// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Inputs in transit from the root complex to the host. Their number needs no limit: completions answer requests, and
//! interrupts and messages arrive no faster than links carry them.

use crate::effects::{Due, Effects};
use host::HostInput;
use std::collections::VecDeque;
use tlp::Time;

/// Each input has the time at which it reaches the host; times never decrease within either queue.
#[derive(Default)]
pub(super) struct Inbox {
    inputs: VecDeque<(Time, HostInput)>,
    /// Interrupts take longer than other inputs.
    interrupts: VecDeque<(Time, HostInput)>,
}

impl Inbox {
    /// `input` reaches the host at `at`. An input that skips the root complex overtakes inputs in transit.
    pub(super) fn tell(&mut self, at: Time, input: HostInput, effects: &mut Effects) {
        let later = self.inputs.iter().rev().take_while(|(other, _)| *other > at).count();
        self.inputs.insert(self.inputs.len() - later, (at, input));
        effects.wake(at, Due::Host);
    }

    /// An interrupt that reaches the host at `at`.
    pub(super) fn interrupt(&mut self, at: Time, input: HostInput, effects: &mut Effects) {
        self.interrupts.push_back((at, input));
        effects.wake(at, Due::Host);
    }

    /// The next input that reaches the host by `now`, oldest first.
    pub(super) fn poll(&mut self, now: Time) -> Option<HostInput> {
        let due = |q: &VecDeque<(Time, HostInput)>| q.front().map(|(at, _)| *at).filter(|at| *at <= now);
        let from = match (due(&self.inputs), due(&self.interrupts)) {
            (Some(done), Some(interrupt)) if interrupt < done => &mut self.interrupts,
            (Some(_), _) => &mut self.inputs,
            (None, Some(_)) => &mut self.interrupts,
            (None, None) => return None,
        };
        from.pop_front().map(|(_, input)| input)
    }

    /// True if an input comes after `now`.
    pub(super) fn is_coming(&self, now: Time) -> bool {
        [&self.inputs, &self.interrupts].iter().any(|q| q.back().is_some_and(|(at, _)| *at > now))
    }
}
