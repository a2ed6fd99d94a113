// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waves from a TLP on: a run does the same each time, so a lab is run once to find when the TLP comes, and again with waves around that time. Writes
//! no waves itself.

use crate::common::emit;
use crate::shown::Way;
use capture::{Direction, Filter, Interface, Origin, Outcome, Record, Timestamp};
use plug::Shared;
use std::cell::RefCell;
use tlp::{Time, Tlp};

thread_local! {
    /// The runs of a lab under way by this thread.
    static RUNS: RefCell<Option<Shared<Runs>>> = const { RefCell::new(None) };
}

/// What both runs of a lab know of its designs, in the order in which they are plugged in.
#[derive(Default)]
struct Runs {
    is_second: bool,
    /// When the TLP of each came first.
    found: Vec<Shared<Option<Time>>>,
    next: usize,
}

/// The runs of a lab whose designs may have waves from a TLP on (`waves_when`); until it is dropped.
pub struct Triggers(Shared<Runs>);

impl Triggers {
    /// Designs that this thread plugs in from now on look for their TLPs, and write no waves.
    pub fn begin() -> Triggers {
        let runs = Shared::<Runs>::default();
        RUNS.set(Some(runs.clone()));
        Triggers(runs)
    }

    /// Whether a design that was plugged in looks for a TLP: the lab is to be run to its end, and then built [again](Self::again).
    pub fn are_wanted(&self) -> bool {
        !self.0.get().found.is_empty()
    }

    /// The same designs, plugged in once more, have waves around what was found.
    pub fn again(&self) {
        self.0.change(|runs| runs.is_second = true);
    }
}

impl Drop for Triggers {
    fn drop(&mut self) {
        RUNS.set(None);
    }
}

/// What a design that is plugged in now is to do.
pub(crate) enum Part {
    /// Look for its TLP.
    Look(Box<Trigger>),
    /// Write waves around this time; none, where there was none.
    Write(Option<Time>),
}

/// The part of a design with this filter; `None` where nobody runs the lab twice.
pub(crate) fn part(filter: Filter) -> Option<Part> {
    let runs = RUNS.with_borrow(Option::clone)?;
    runs.change(|runs| {
        if runs.is_second {
            runs.next += 1;
            return Some(Part::Write(runs.found.get(runs.next - 1).and_then(|found| *found.get())));
        }
        let found = Shared::default();
        runs.found.push(found.clone());
        let interfaces = Way::ALL.map(|way| Interface::of_link(0, direction(way), ""));
        Some(Part::Look(Box::new(Trigger { filter, found, interfaces, bytes: Vec::new() })))
    })
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
