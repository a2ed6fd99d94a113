// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waves around a TLP. Runs of a lab are identical, so the lab runs once to find the time of the TLP, and again with waves around that time. Writes
//! no waves itself.

use crate::common::emit;
use crate::shown::TlpDirection;
use capture::{Direction, Filter, Interface, Origin, Outcome, Record, Timestamp};
use plug::Shared;
use tlp::{Time, Tlp};

/// State of both runs of a lab, with its designs in plug-in order.
#[derive(Default)]
struct Runs {
    is_second: bool,
    /// Time of the first matching TLP, per design.
    found: Vec<Shared<Option<Time>>>,
    next: usize,
}

/// The two runs of a lab whose designs write waves around a TLP (`waves_when`). The caller puts a clone into the context of each run. In the first
/// run, designs search for their TLPs and write no waves.
#[derive(Clone, Default)]
pub struct Triggers(Shared<Runs>);

impl Triggers {
    /// Returns true if a design that was plugged in searches for a TLP. Then run the lab to its end, and build it [again](Self::again).
    pub fn are_wanted(&self) -> bool {
        !self.0.get().found.is_empty()
    }

    /// Starts the second run: the same designs, when plugged in again, write waves around the found time.
    pub fn again(&self) {
        self.0.change(|runs| runs.is_second = true);
    }

    /// Returns what a design with this filter does in this run.
    pub(crate) fn part(&self, filter: Filter) -> Part {
        self.0.change(|runs| {
            if runs.is_second {
                runs.next += 1;
                return Part::Write(runs.found.get(runs.next - 1).and_then(|found| *found.get()));
            }
            let found = Shared::default();
            runs.found.push(found.clone());
            let interfaces = TlpDirection::ALL.map(|way| Interface::of_link(0, direction(way), ""));
            Part::Search(Box::new(Trigger { filter, found, interfaces, bytes: Vec::new() }))
        })
    }
}

/// Role of a design that is being plugged in.
pub(crate) enum Part {
    /// Search for its TLP.
    Search(Box<Trigger>),
    /// Writes waves around this time, or no waves if no TLP was found.
    Write(Option<Time>),
}

/// Searches for the first TLP that matches a filter of `riser trace`.
pub(crate) struct Trigger {
    filter: Filter,
    found: Shared<Option<Time>>,
    interfaces: [Interface; 2],
    bytes: Vec<u8>,
}

impl Trigger {
    /// Checks a TLP.
    pub(crate) fn see(&mut self, way: TlpDirection, now: Time, tlp: &Tlp) {
        if self.found.get().is_some() {
            return;
        }
        emit(tlp, &mut self.bytes);
        let origin = Origin::of(direction(way), tlp.class());
        let time = Timestamp::from_ps(now.as_ps().into());
        let record = Record::of_tlp(&self.interfaces[way as usize], time, &self.bytes, origin);
        if self.filter.holds(&record, &Outcome::default()) {
            self.found.change(|found| *found = Some(now));
        }
    }
}

/// Returns the direction as in captures.
fn direction(way: TlpDirection) -> Direction {
    match way {
        TlpDirection::In => Direction::Downstream,
        TlpDirection::Out => Direction::Upstream,
    }
}
