// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The window of reads: as many places as settings say, or as the round trip asks for. That is measured, by the first reads, of which
//! one at a time is under way, so that they wait for what is between them and memory, writes before them among it, and never for each other.

use super::turns::Turns;
use super::{MAX_WINDOW, Settings};
use config::PcieLayout;
use link::wire_time;
use plug::{Shown, ns};
use std::cell::{Cell, RefCell};
use tlp::{Duration, Rate, Width};

/// Reads whose round trips are measured: the first few are quicker, before writes beside them fill all queues.
const MEASURED: usize = 15;

/// What the round trip has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowReport {
    /// From a place in the window to all data, the median of those that were measured.
    pub round_trip: Duration,
    /// Places that keep the link busy for so long.
    pub wanted: u64,
    /// Places that there are: no more than tags, and than the window can have.
    pub places: u16,
}

impl WindowReport {
    pub(super) fn show(&self, shown: &mut Shown, prefix: &str) {
        shown.put(format!("{prefix}round_trip_ns"), ns(self.round_trip));
        shown.put(format!("{prefix}window"), self.places);
        shown.put(format!("{prefix}window_wanted"), self.wanted);
    }
}

/// Places for reads under way.
pub(super) struct Window {
    pub(super) turns: Turns,
    rate: Rate,
    width: Width,
    most: u16,
    /// Round trips that were measured, while there are too few; `None`: settings say how many places there are.
    trips: RefCell<Option<Vec<Duration>>>,
    places: Cell<u16>,
}

impl Window {
    /// The window of `settings` on a link like `pcie`, of functions with so many tags.
    pub(super) fn new(settings: &Settings, pcie: &PcieLayout, tags: u16) -> Window {
        let (places, trips) = match settings.window {
            0 => (1, Some(Vec::with_capacity(MEASURED))),
            places => (places, None),
        };
        Window {
            turns: Turns::new(places),
            rate: pcie.rate,
            width: pcie.width,
            most: if settings.window == 0 { tags.min(MAX_WINDOW) } else { settings.window },
            trips: RefCell::new(trips),
            places: Cell::new(places),
        }
    }

    /// Places that there are.
    pub(super) fn places(&self) -> u16 {
        self.places.get()
    }

    /// Places that there may ever be.
    pub(super) fn most(&self) -> u16 {
        self.most
    }

    /// A read that had a place has brought its data after `trip`; requests have `read_bytes` at most. Tells what has come of
    /// the round trip, once, when it is known.
    pub(super) fn arrived(&self, trip: Duration, read_bytes: u32) -> Option<WindowReport> {
        let mut trips = self.trips.borrow_mut();
        trips.as_mut()?.push(trip);
        let mut trips = trips.take_if(|trips| trips.len() == MEASURED)?;
        trips.sort_unstable();
        let round_trip = trips[MEASURED / 2];
        // Little's law.
        let each = wire_time(read_bytes.into(), self.rate, self.width).as_ps();
        let wanted = round_trip.as_ps().div_ceil(each.max(1)).max(1);
        let places = wanted.min(self.most.into()) as u16;
        self.turns.add(places - self.places.replace(places));
        Some(WindowReport { round_trip, wanted, places })
    }
}
