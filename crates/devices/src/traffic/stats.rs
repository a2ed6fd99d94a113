// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What flows have transferred: counts, times and latencies, exact. Never grows once it is made.

use super::settings::Settings;
use tlp::{Duration, Time};

/// Latencies of a flow that are kept one by one, for percentiles; the mean, the least and the most are of all.
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

    /// Adds those of `other`.
    pub(crate) fn join(&mut self, other: &Latencies) {
        let room = MAX_LATENCIES - self.kept.len();
        self.kept.extend(other.kept.iter().take(room));
        self.min_ps = if self.count == 0 { other.min_ps } else { self.min_ps.min(other.min_ps) };
        self.max_ps = self.max_ps.max(other.max_ps);
        self.count += other.count;
        self.sum_ps += other.sum_ps;
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean, rounded down to picoseconds; `None` where there are none.
    pub fn mean(&self) -> Option<Duration> {
        let mean = self.sum_ps.checked_div(u128::from(self.count))?;
        Some(Duration::from_ps(u64::try_from(mean).unwrap_or(u64::MAX)))
    }

    /// The least and the most; `None` where there are none.
    pub fn range(&self) -> Option<(Duration, Duration)> {
        (self.count > 0).then(|| (Duration::from_ps(self.min_ps), Duration::from_ps(self.max_ps)))
    }

    /// The least latency that `per_mille` thousandths of all do not exceed (nearest rank), for each of them; of the first
    /// [`MAX_LATENCIES`]. Sorts a copy: for reports.
    pub fn percentiles<const N: usize>(&self, per_mille: [u32; N]) -> Option<[Duration; N]> {
        let mut sorted = self.kept.clone();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1)?;
        let rank = |p: u32| (sorted.len() * p as usize).div_ceil(1000).saturating_sub(1).min(last);
        Some(per_mille.map(|p| Duration::from_ps(sorted[rank(p)])))
    }
}

/// What a flow has transferred, and how fast.
#[derive(Clone, Debug, Default)]
pub struct FlowReport {
    /// Its name.
    pub name: String,
    /// Requests that the link has taken.
    pub sent: u64,
    /// Requests that were not answered with data.
    pub failed: u64,
    /// Data bytes of requests that have ended: of posted ones, that the link has taken them.
    pub bytes: u64,
    /// The same up to the end of the first flow: while all of them shared the link.
    pub shared_bytes: u64,
    /// When its last request had ended.
    pub end: Option<Time>,
    /// Of reads and AtomicOps: from the time at which the link has taken the request to the last completion.
    pub latencies: Latencies,
}

/// What all flows of a device have transferred.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// When the flows began: when the link was up.
    pub start: Time,
    /// When the first flow had ended.
    pub first_end: Option<Time>,
    /// The flows.
    pub flows: Vec<FlowReport>,
    /// Completions that answer nothing.
    pub unexpected: u64,
    /// Requests of all flows.
    pub requests: u64,
}

impl Report {
    pub(super) fn new(settings: &Settings) -> Report {
        let flow = |f: &super::Flow| FlowReport {
            name: f.name.clone(),
            latencies: Latencies::with_room(if f.tags() > 0 { f.count } else { 0 }),
            ..FlowReport::default()
        };
        let requests = settings.flows.iter().map(|f| f.count).sum();
        Report { flows: settings.flows.iter().map(flow).collect(), requests, ..Report::default() }
    }

    /// From the start to the end of the first flow, or to `now` where all still run.
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
    fn percentiles_are_of_the_values_themselves() {
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
