// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A link that is retrained under load: time is lost while only writes flow, and while only reads flow and the wire between
//! their completions is idle. Each real retraining takes milliseconds, longer than most runs. So lost time adds up here, and
//! requests wait for it in shorter pieces.

use crate::profile::{COMPLETION_OVERHEAD_BYTES, LINE_BYTES, RetrainingProfile};
use tlp::{Duration, Time};

/// Bytes of a completion on such a link, without its header.
const COMPLETION_BYTES: u64 = 128;
/// Parts of a whole in [`RetrainingProfile`].
const MILLION: i64 = 1_000_000;

/// A read, as the link sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadTraffic {
    /// Bytes of data.
    pub(crate) bytes: u32,
    /// Time of 64 B on the wire.
    pub(crate) line_time: Duration,
}

impl ReadTraffic {
    /// Returns the time in which the completions occupy the wire.
    fn busy(&self) -> Duration {
        let bytes = u64::from(self.bytes);
        let wire_bytes = bytes + u64::from(COMPLETION_OVERHEAD_BYTES) * bytes.div_ceil(COMPLETION_BYTES);
        Duration::from_ps(self.line_time.as_ps() * wire_bytes / LINE_BYTES)
    }
}

/// The state of a link.
pub(super) struct Retraining {
    profile: RetrainingProfile,
    /// Time lost since the last wait, in picoseconds.
    lost_ps: i64,
    /// Arrival of the latest request, or the end of the latest wait.
    last_at: Time,
    last_reads: bool,
}

impl Retraining {
    pub(super) fn new(profile: &RetrainingProfile) -> Retraining {
        Retraining { profile: *profile, lost_ps: 0, last_at: Time::ZERO, last_reads: false }
    }

    /// Returns when the link is ready for a request that arrives at `at`: a read, or a write.
    pub(super) fn ready(&mut self, read: Option<ReadTraffic>, at: Time) -> Time {
        if at < self.last_at {
            return self.last_at;
        }
        let since = at.since(self.last_at);
        let both_ways = read.is_some() != self.last_reads;
        (self.last_at, self.last_reads) = (at, read.is_some());
        if both_ways || since > self.profile.apart {
            self.lost_ps = 0;
            return at;
        }
        let since_ps = since.as_ps() as i64;
        let RetrainingProfile { write_ppm, idle_ppm, write_wait, read_wait, .. } = self.profile;
        let (idle_ps, ppm, wait) = match read {
            Some(read) => (since_ps - read.busy().as_ps() as i64 * 5 / 4, idle_ppm, read_wait),
            None => (since_ps, write_ppm, write_wait),
        };
        self.lost_ps = (self.lost_ps + idle_ps * i64::from(ppm) / MILLION).max(0);
        if self.lost_ps >= wait.as_ps() as i64 {
            self.last_at = at + Duration::from_ps(self.lost_ps as u64);
            self.lost_ps = 0;
        }
        self.last_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retraining() -> Retraining {
        Retraining::new(&RetrainingProfile {
            write_ppm: 1_290_000,
            idle_ppm: 1_000_000,
            apart: Duration::from_ns(500),
            write_wait: Duration::from_us(20),
            read_wait: Duration::from_us(5),
        })
    }

    /// Returns the mean time of a request in ns, if one comes `apart_ns` after another as long as the link is ready.
    fn mean_ns(apart_ns: u64, request: impl Fn(u64) -> Option<ReadTraffic>) -> f64 {
        let (mut link, mut at, requests) = (retraining(), Time::ZERO, 100_000);
        for number in 0..requests {
            at = link.ready(request(number), at + Duration::from_ns(apart_ns));
        }
        at.as_ps() as f64 / 1_000.0 / requests as f64
    }

    fn read(bytes: u32) -> ReadTraffic {
        ReadTraffic { bytes, line_time: Duration::from_ps(8_125) }
    }

    /// Reads of 407 B keep the wire busy for 62 ns with headers. Every 100 ns, they leave 38 idle; a quarter of 62 costs
    /// nothing.
    #[test]
    fn idle_time_between_completions_is_lost_again() {
        let mean = mean_ns(100, |_| Some(read(407)));
        assert!((mean / (200.0 - 1.25 * 61.8) - 1.0).abs() < 0.01, "{mean}");
        assert_eq!(mean_ns(78, |_| Some(read(512))), 78.0, "the wire is busy");
        assert_eq!(mean_ns(600, |_| Some(read(64))), 600.0, "too far apart");
    }

    #[test]
    fn writes_lose_time_unless_reads_flow_too() {
        let mean = mean_ns(100, |_| None);
        assert!((mean / 229.0 - 1.0).abs() < 0.01, "{mean}");
        assert_eq!(mean_ns(100, |number| number.is_multiple_of(2).then(|| read(64))), 100.0);
    }
}
