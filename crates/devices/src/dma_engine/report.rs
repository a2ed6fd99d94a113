// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of an engine, by function. Numbers only.

use super::{Direction, WindowReport};
use plug::{Shown, gbps, ns};
use tlp::{Duration, Time};

/// Counters of a ring, at the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RingReport {
    /// Bytes moved: read and checked, or passed to the endpoint.
    pub bytes: u64,
    /// Finished descriptors.
    pub done: u64,
    /// Number of failed descriptors.
    pub failed: u64,
    /// Number of stops because the ring was invalid, or more was posted than it has descriptors.
    pub refused: u64,
}

/// Counters of a function.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FunctionReport {
    /// By engine.
    pub rings: Vec<RingReport>,
    /// Direction of each engine.
    pub directions: Vec<Direction>,
    /// Result of the round-trip measurement for its own window, if there is one.
    pub window: Option<WindowReport>,
    /// Bytes moved until the first function had moved all its data; zero while all still run.
    pub shared_bytes: u64,
    /// Time of the end of its driver.
    pub end: Option<Time>,
}

impl FunctionReport {
    /// Returns the bytes moved in both directions.
    pub fn bytes(&self) -> u64 {
        self.rings.iter().map(|r| r.bytes).sum()
    }

    /// Returns the bytes moved in one direction.
    fn bytes_of(&self, direction: Direction) -> u64 {
        let rings = self.rings.iter().zip(&self.directions);
        rings.filter(|(_, of)| **of == direction).map(|(ring, _)| ring.bytes).sum()
    }
}

/// Counters of an engine: the physical function first, then the virtual ones.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EngineReport {
    /// By function.
    pub functions: Vec<FunctionReport>,
    /// Result of the round-trip measurement for the shared window, if there is one.
    pub window: Option<WindowReport>,
    /// Start of the drivers.
    pub start: Option<Time>,
    /// Time of the end of the first driver.
    pub first_end: Option<Time>,
}

impl EngineReport {
    /// Returns the time from the start of all drivers to the end of the function's, or to `now` if it still runs.
    pub fn elapsed(&self, function: usize, now: Time) -> Duration {
        self.since_start(self.functions.get(function).and_then(|f| f.end).unwrap_or(now))
    }

    /// Returns the time from the start of all drivers to the end of the first one, or to `now` if all still run.
    pub fn shared_time(&self, now: Time) -> Duration {
        self.since_start(self.first_end.unwrap_or(now))
    }

    /// Returns the bytes that `function` moved in [`shared_time`](Self::shared_time).
    pub fn shared_bytes(&self, function: &FunctionReport) -> u64 {
        if self.first_end.is_some() { function.shared_bytes } else { function.bytes() }
    }

    fn since_start(&self, end: Time) -> Duration {
        self.start.map_or(Duration::ZERO, |start| end.since(start))
    }

    /// Records the end of the driver of `function`.
    pub(super) fn end(&mut self, function: usize, now: Time) {
        if self.first_end.is_none() {
            self.first_end = Some(now);
            self.functions.iter_mut().for_each(|f| f.shared_bytes = f.bytes());
        }
        if let Some(function) = self.functions.get_mut(function) {
            function.end = Some(now);
        }
    }
}

impl plug::Report for EngineReport {
    /// Shows the total rate, the spread of the shares of virtual functions, and a row per function. A running driver counts
    /// up to now.
    fn shown(&self, now: Time) -> Shown {
        let all_shared: u64 = self.functions.iter().map(|f| self.shared_bytes(f)).sum();
        let last = (0..self.functions.len()).map(|n| self.elapsed(n, now)).max();
        let mut shown = Shown::new()
            .with("functions", self.functions.len())
            .with("shared_gbps", gbps(all_shared, self.shared_time(now)))
            .with("elapsed_ns", last.map_or(0.0, ns));
        if let Some(spread) = self.spread() {
            shown.put("vf_share_spread", spread);
        }
        if let Some(window) = &self.window {
            window.show(&mut shown, "");
        }
        for (n, function) in self.functions.iter().enumerate() {
            // The order of names is the order of numbers.
            let name = n.checked_sub(1).map_or("pf".to_owned(), |vf| format!("vf{vf:03}"));
            let elapsed = self.elapsed(n, now);
            let sum = |of: fn(&RingReport) -> u64| function.rings.iter().map(of).sum::<u64>();
            let share = self.shared_bytes(function) as f64 / all_shared.max(1) as f64;
            shown.put(format!("{name}.descriptors"), sum(|ring| ring.done));
            shown.put(format!("{name}.failed"), sum(|ring| ring.failed));
            shown.put(format!("{name}.h2d_gbps"), gbps(function.bytes_of(Direction::H2d), elapsed));
            shown.put(format!("{name}.d2h_gbps"), gbps(function.bytes_of(Direction::D2h), elapsed));
            shown.put(format!("{name}.share"), share);
            if let Some(window) = &function.window {
                window.show(&mut shown, &format!("{name}."));
            }
        }
        shown
    }
}

impl EngineReport {
    /// Returns the difference between the largest and the smallest share of virtual functions, relative to the largest.
    fn spread(&self) -> Option<f64> {
        let shares = || self.functions.iter().skip(1).map(|f| self.shared_bytes(f));
        let (least, most) = (shares().min()?, shares().max()?);
        Some((most - least) as f64 / most.max(1) as f64)
    }
}
