// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a packet NIC and its driver have measured. Told the time with every call; never decides anything.

use plug::{Shown, gbps, ns};
use tlp::{Duration, Time};

/// One direction of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Way {
    /// Frames in all: sent, or handed to the link toward host memory.
    pub frames: u64,
    /// Frames that counted.
    pub measured: u64,
    /// When the first frame of all was done.
    pub first: Time,
    /// When the last frame before those that counted was done.
    pub start: Time,
    /// When the last of them was done, or during warm-up the last of all.
    pub end: Time,
}

impl Way {
    /// One more frame is done; the first `warm_up` do not count, `frames` behind them do.
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

    /// The frames whose rate this is, and how long they took: those that counted, or while warm-up lasts all behind the first.
    pub fn pace(&self) -> (u64, Duration) {
        match self.measured {
            0 => (self.frames.saturating_sub(1), self.end.since(self.first)),
            measured => (measured, self.end.since(self.start)),
        }
    }
}

/// When one frame was where, on its way to the cable and back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Trip {
    /// The program begins to hand it over.
    pub begun: Time,
    /// The device has been told of it; sent by PIO, it is there.
    pub told: Time,
    /// Its descriptor is there; sent by PIO, as `told`.
    pub described: Time,
    /// It is in the device.
    pub fetched: Time,
    /// It has come back from the cable.
    pub returned: Time,
    /// The program knows that it is in host memory.
    pub noticed: Time,
}

impl Trip {
    /// From the program and back to it.
    pub fn total(&self) -> Duration {
        self.noticed.since(self.begun)
    }

    /// The part between: MAC, PHY and cable.
    pub fn network(&self) -> Duration {
        self.returned.since(self.fetched)
    }

    /// All but that: what PCI Express and the host take.
    pub fn pcie(&self) -> Duration {
        self.total() - self.network()
    }

    /// Its five parts in their order, which add up to the whole: the way to the device, descriptor, fetching, network,
    /// storing and notice.
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

/// What has happened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Frames sent: done when they have left for the cable.
    pub tx: Way,
    /// Frames received: done when the link has accepted them toward host memory.
    pub rx: Way,
    /// Interrupts raised.
    pub interrupts: u64,
    /// Transfers that failed, and descriptors that cannot be right.
    pub failed: u64,
    /// Round trips that counted.
    pub trips: Vec<Trip>,
    /// The one under way.
    pub(super) trip: Trip,
    /// Bytes of a frame.
    pub(super) frame_bytes: u32,
}

impl plug::Report for Report {
    /// Frames and rates of each direction that has any, during warm-up those of it, which is said; of round trips the median of
    /// the whole, and of PCI Express's part.
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
    fn frames_count_behind_the_warm_up_and_up_to_the_last() {
        let mut way = Way::default();
        let note = |way: &mut Way, n: u64| way.note(Time::from_ps(n * 100), 2, 5);
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
    fn the_parts_of_a_trip_are_the_whole() {
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
