// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers of flows: counts, times and latencies, exact. Allocates memory only at its creation.

use super::settings::TrafficSettings;
use plug::nearest_rank;
use tlp::{Duration, Time};

/// Maximum number of latencies of a flow to keep for percentiles. Mean, minimum and maximum cover all.
pub const MAX_LATENCIES: usize = 1 << 20;

/// Latencies of requests.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    kept: Vec<u64>,
    count: u64,
    sum_ps: u128,
    min_ps: u64,
    max_ps: u64,
}

impl Latencies {
    pub(crate) fn with_room(count: u64) -> Latencies {
        let kept = Vec::with_capacity(count.min(MAX_LATENCIES as u64) as usize);
        Latencies { kept, min_ps: u64::MAX, ..Latencies::default() }
    }

    pub(crate) fn add(&mut self, latency: Duration) {
        let ps = latency.as_ps();
        if self.kept.len() < MAX_LATENCIES {
            self.kept.push(ps);
        }
        self.count += 1;
        self.sum_ps += u128::from(ps);
        self.min_ps = self.min_ps.min(ps);
        self.max_ps = self.max_ps.max(ps);
    }

    /// Adds the latencies of `other`.
    pub(crate) fn join(&mut self, other: &Latencies) {
        let room = MAX_LATENCIES - self.kept.len();
        self.kept.extend(other.kept.iter().take(room));
        self.min_ps = if self.count == 0 { other.min_ps } else { self.min_ps.min(other.min_ps) };
        self.max_ps = self.max_ps.max(other.max_ps);
        self.count += other.count;
        self.sum_ps += other.sum_ps;
    }

    /// Returns their number.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the mean, rounded down to picoseconds; `None` if there are no latencies.
    pub fn mean(&self) -> Option<Duration> {
        let mean = self.sum_ps.checked_div(u128::from(self.count))?;
        Some(Duration::from_ps(u64::try_from(mean).unwrap_or(u64::MAX)))
    }

    /// Returns minimum and maximum; `None` if there are no latencies.
    pub fn range(&self) -> Option<(Duration, Duration)> {
        (self.count > 0).then(|| (Duration::from_ps(self.min_ps), Duration::from_ps(self.max_ps)))
    }

    /// Returns percentiles by nearest rank: for each of `per_mille`, the smallest latency that at least so many
    /// thousandths do not exceed. Covers the first [`MAX_LATENCIES`]. Sorts a copy, so use it for reports.
    pub fn percentiles<const N: usize>(&self, per_mille: [u32; N]) -> Option<[Duration; N]> {
        let mut sorted = self.kept.clone();
        sorted.sort_unstable();
        (!sorted.is_empty())
            .then(|| per_mille.map(|p| Duration::from_ps(nearest_rank(&sorted, p).unwrap_or_default())))
    }
}

/// Transfers and rates of a flow.
#[derive(Clone, Debug, Default)]
pub struct FlowReport {
    /// Its name.
    pub name: String,
    /// Requests that the link has accepted.
    pub sent: u64,
    /// Requests that were not completed with data.
    pub failed: u64,
    /// Data bytes of ended requests; posted ones end when the link has accepted them.
    pub bytes: u64,
    /// The same up to the end of the first flow, while all flows shared the link.
    pub shared_bytes: u64,
    /// Time of the end of its last request.
    pub end: Option<Time>,
    /// For reads and AtomicOps: time from the acceptance of the request by the link to the last completion.
    pub latencies: Latencies,
}

/// Transfers of all flows of a device.
#[derive(Clone, Debug, Default)]
pub struct TrafficReport {
    /// Start of the flows, when the link came up.
    pub start: Time,
    /// Time of the end of the first flow.
    pub first_end: Option<Time>,
    /// The flows.
    pub flows: Vec<FlowReport>,
    /// Completions that match no request.
    pub unexpected: u64,
    /// Total number of requests of all flows.
    pub requests: u64,
}

impl TrafficReport {
    pub(super) fn new(settings: &TrafficSettings) -> TrafficReport {
        let flow = |f: &super::Flow| FlowReport {
            name: f.name.clone(),
            latencies: Latencies::with_room(if f.tags() > 0 { f.count } else { 0 }),
            ..FlowReport::default()
        };
        let requests = settings.flows.iter().map(|f| f.count).sum();
        TrafficReport {
            flows: settings.flows.iter().map(flow).collect(),
            requests,
            ..TrafficReport::default()
        }
    }

    /// Returns the time from the start to the end of the first flow, or to `now` if all still run.
    pub fn shared_time(&self, now: Time) -> Duration {
        self.first_end.unwrap_or(now).since(self.start)
    }

    pub(super) fn sent(&mut self, at: usize, bytes: u64) {
        self.flows[at].sent += 1;
        self.count_bytes(at, bytes);
    }

    pub(super) fn answered(&mut self, at: usize, latency: Duration, bytes: u64) {
        self.flows[at].failed += u64::from(bytes == 0);
        self.flows[at].latencies.add(latency);
        self.count_bytes(at, bytes);
    }

    fn count_bytes(&mut self, at: usize, bytes: u64) {
        let flow = &mut self.flows[at];
        flow.bytes += bytes;
        if self.first_end.is_none() {
            flow.shared_bytes += bytes;
        }
    }

    pub(super) fn flow_ended(&mut self, at: usize, now: Time) {
        self.flows[at].end = Some(now);
        self.first_end.get_or_insert(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nearest rank over 1 to 10 ns: the 50th percentile is 5, the 99th and 100th are 10, the first is 1.
    #[test]
    fn percentiles_use_nearest_rank() {
        let mut latencies = Latencies::with_room(10);
        for ns in [3, 1, 2, 10, 9, 8, 4, 5, 7, 6] {
            latencies.add(Duration::from_ns(ns));
        }
        let ns = Duration::from_ns;
        assert_eq!(latencies.percentiles([500, 990, 1000, 0]), Some([ns(5), ns(10), ns(10), ns(1)]));
        assert_eq!(latencies.mean(), Some(Duration::from_ps(5_500)));
        assert_eq!(latencies.range(), Some((ns(1), ns(10))));
        assert_eq!(Latencies::default().percentiles([500]), None);
        assert_eq!((Latencies::default().mean(), Latencies::default().range()), (None, None));
    }
}
