// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measurements of a packet NIC and its driver. Each call passes the time. The report does not affect the NIC.

use plug::{Shown, gbps, ns};
use tlp::{Duration, Time};

/// Frames of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DirectionCounts {
    /// All frames: sent, or passed to the link toward host memory.
    pub frames: u64,
    /// Measured frames.
    pub measured: u64,
    /// Time at which the first of all frames was done.
    pub first: Time,
    /// Time at which the last frame before the measured ones was done.
    pub start: Time,
    /// Time at which the last measured frame was done; during warm-up, the last of all.
    pub end: Time,
}

impl DirectionCounts {
    /// Counts a finished frame. The first `warm_up` frames are not measured, the next `frames` are.
    pub(super) fn note(&mut self, now: Time, warm_up: u32, frames: u32) {
        self.frames += 1;
        if self.frames == 1 {
            self.first = now;
        }
        let (warm_up, frames) = (u64::from(warm_up), u64::from(frames));
        if self.frames <= warm_up {
            (self.start, self.end) = (now, now);
        }
        if self.frames > warm_up && self.frames <= warm_up + frames {
            (self.measured, self.end) = (self.measured + 1, now);
        }
    }

    /// Returns the number of frames for the rate, and their time: the measured frames, or during warm-up all after the first.
    pub fn pace(&self) -> (u64, Duration) {
        match self.measured {
            0 => (self.frames.saturating_sub(1), self.end.since(self.first)),
            measured => (measured, self.end.since(self.start)),
        }
    }
}

/// Times of one frame from the program to the cable and back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Trip {
    /// The program starts to pass the frame to the device.
    pub begun: Time,
    /// The device has the doorbell; with PIO, the frame.
    pub told: Time,
    /// The device has its descriptor; with PIO, equal to `told`.
    pub described: Time,
    /// The device has the frame.
    pub fetched: Time,
    /// The frame has come back from the cable.
    pub returned: Time,
    /// The program has noticed that the frame is in host memory: it has read the head pointer, or if it polls, the write of
    /// the descriptor is visible.
    pub noticed: Time,
}

impl Trip {
    /// Returns the time from the program and back to it.
    pub fn total(&self) -> Duration {
        self.noticed.since(self.begun)
    }

    /// Returns the time of MAC, PHY and cable.
    pub fn network(&self) -> Duration {
        self.returned.since(self.fetched)
    }

    /// Returns the time without the network: PCI Express and host.
    pub fn pcie(&self) -> Duration {
        self.total() - self.network()
    }

    /// Returns the five parts in order, whose sum is the total: to the device, descriptor, fetch, network, store and notice.
    pub fn parts(&self) -> [Duration; 5] {
        let Trip { begun, told, described, fetched, returned, noticed } = *self;
        [
            told.since(begun),
            described.since(told),
            fetched.since(described),
            returned.since(fetched),
            noticed.since(returned),
        ]
    }
}

/// Measurements.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PacketNicReport {
    /// Sent frames; done when they have left for the cable.
    pub tx: DirectionCounts,
    /// Received frames; done when the link has accepted them toward host memory.
    pub rx: DirectionCounts,
    /// Interrupts raised.
    pub interrupts: u64,
    /// Failed transfers, and invalid descriptors.
    pub failed: u64,
    /// Measured round trips.
    pub trips: Vec<Trip>,
    /// The current round trip.
    pub(super) trip: Trip,
    /// Size of a frame in bytes.
    pub(super) frame_bytes: u32,
}

impl plug::Report for PacketNicReport {
    /// Shows frames and rate of each active direction; during warm-up, those of the warm-up, marked by `_measured_frames` of 0.
    /// For round trips, shows the medians of the total and of PCI Express's part.
    fn shown(&self, _: Time) -> Shown {
        let mut shown =
            Shown::new().with("interrupts", self.interrupts).with("failed_transfers", self.failed);
        let ways = [("tx", &self.tx), ("rx", &self.rx)];
        for (name, way) in ways.into_iter().filter(|(_, way)| way.frames > 0) {
            let (frames, time) = way.pace();
            shown.put(format!("{name}_frames"), way.frames);
            shown.put(format!("{name}_gbps"), gbps(frames * u64::from(self.frame_bytes), time));
            if way.measured == 0 {
                shown.put(format!("{name}_measured_frames"), 0);
            }
        }
        let medians = [
            ("round_trip_ns_median", Trip::total as fn(&Trip) -> _),
            ("round_trip_pcie_ns_median", Trip::pcie),
        ];
        for (name, of) in medians {
            let mut all: Vec<Duration> = self.trips.iter().map(of).collect();
            all.sort_unstable();
            if let Some(median) = all.get(all.len() / 2) {
                shown.put(name, ns(*median));
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_frames_between_warm_up_and_end() {
        let mut way = DirectionCounts::default();
        let note = |way: &mut DirectionCounts, n: u64| way.note(Time::from_ps(n * 100), 2, 5);
        let paces = [(0, 0), (1, 100), (1, 100), (2, 200)];
        for (n, pace) in (1..).zip(paces) {
            note(&mut way, n);
            assert_eq!((way.pace().0, way.pace().1.as_ps()), pace, "after {n}");
        }
        (5..=10).for_each(|n| note(&mut way, n));
        assert_eq!((way.frames, way.measured), (10, 5));
        assert_eq!((way.start.as_ps(), way.end.as_ps(), way.pace().1.as_ps()), (200, 700, 500));
    }

    #[test]
    fn parts_of_a_trip_add_up() {
        let at = Time::from_ps;
        let trip = Trip {
            begun: at(10),
            told: at(30),
            described: at(60),
            fetched: at(100),
            returned: at(150),
            noticed: at(210),
        };
        assert_eq!(trip.parts().map(Duration::as_ps), [20, 30, 40, 50, 60]);
        assert_eq!((trip.total().as_ps(), trip.network().as_ps(), trip.pcie().as_ps()), (200, 50, 150));
    }
}
