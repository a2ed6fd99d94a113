// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The window of reads: the number of places from the settings, or from the measured round trip. The first reads
//! measure it, one at a time. So they include all waits between the device and memory, also for earlier writes, but do
//! not wait for each other.

use super::turns::Turns;
use super::{MAX_WINDOW, Settings};
use config::PcieLayout;
use link::wire_time;
use plug::{Shown, ns};
use std::cell::{Cell, RefCell};
use tlp::{Duration, Rate, Width};

/// Number of reads to measure. The first few are faster, before concurrent writes fill all queues.
const MEASURED: usize = 15;

/// Result of the round-trip measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowReport {
    /// Median time from a place in the window to all data.
    pub round_trip: Duration,
    /// Number of places that keep the link busy for that time.
    pub wanted: u64,
    /// Number of places: limited by tags, and by the maximum of the window.
    pub places: u16,
}

impl WindowReport {
    pub(super) fn show(&self, shown: &mut Shown, prefix: &str) {
        shown.put(format!("{prefix}round_trip_ns"), ns(self.round_trip));
        shown.put(format!("{prefix}window"), self.places);
        shown.put(format!("{prefix}window_wanted"), self.wanted);
    }
}

/// Places for outstanding reads.
pub(super) struct Window {
    pub(super) turns: Turns,
    rate: Rate,
    width: Width,
    most: u16,
    /// Measured round trips, until there are enough; `None` if the settings define the number of places.
    trips: RefCell<Option<Vec<Duration>>>,
    places: Cell<u16>,
}

impl Window {
    /// Creates the window of `settings` for a link like `pcie` and functions with `tags` tags.
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

    /// Returns the number of places.
    pub(super) fn places(&self) -> u16 {
        self.places.get()
    }

    /// Returns the maximum number of places.
    pub(super) fn most(&self) -> u16 {
        self.most
    }

    /// Handles the end of a read, `trip` after it got its place; requests have at most `read_bytes`. Returns the result of the measurement,
    /// once, when it is known.
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
