// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waves from a TLP on: a run does the same each time, so a lab is run once to find when the TLP comes, and again with waves around that time. Writes
//! no waves itself.

use crate::common::emit;
use crate::shown::Way;
use capture::{Direction, Filter, Interface, Origin, Outcome, Record, Timestamp};
use plug::Shared;
use tlp::{Time, Tlp};

/// What both runs of a lab know of its designs, in the order in which they are plugged in.
#[derive(Default)]
struct Runs {
    is_second: bool,
    /// When the TLP of each came first.
    found: Vec<Shared<Option<Time>>>,
    next: usize,
}

/// The two runs of a lab whose designs write waves from a TLP on (`waves_when`). The caller puts a clone into the context of each run. In
/// the first run, designs look for their TLPs and write no waves.
#[derive(Clone, Default)]
pub struct Triggers(Shared<Runs>);

impl Triggers {
    /// Returns whether a design that was plugged in looks for a TLP: run the lab to its end, then build it [again](Self::again).
    pub fn are_wanted(&self) -> bool {
        !self.0.get().found.is_empty()
    }

    /// The same designs, plugged in once more, have waves around what was found.
    pub fn again(&self) {
        self.0.change(|runs| runs.is_second = true);
    }

    /// Returns what the design with this filter does in this run.
    pub(crate) fn part(&self, filter: Filter) -> Part {
        self.0.change(|runs| {
            if runs.is_second {
                runs.next += 1;
                return Part::Write(runs.found.get(runs.next - 1).and_then(|found| *found.get()));
            }
            let found = Shared::default();
            runs.found.push(found.clone());
            let interfaces = Way::ALL.map(|way| Interface::of_link(0, direction(way), ""));
            Part::Look(Box::new(Trigger { filter, found, interfaces, bytes: Vec::new() }))
        })
    }
}

/// What a design that is plugged in now is to do.
pub(crate) enum Part {
    /// Look for its TLP.
    Look(Box<Trigger>),
    /// Write waves around this time; none, where there was none.
    Write(Option<Time>),
}

/// Looks for the first TLP for which a filter of `riser trace` holds.
pub(crate) struct Trigger {
    filter: Filter,
    found: Shared<Option<Time>>,
    interfaces: [Interface; 2],
    bytes: Vec<u8>,
}

impl Trigger {
    /// Looks at a TLP.
    pub(crate) fn see(&mut self, way: Way, now: Time, tlp: &Tlp) {
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

/// The way as captures have it.
fn direction(way: Way) -> Direction {
    match way {
        Way::In => Direction::Downstream,
        Way::Out => Direction::Upstream,
    }
}
