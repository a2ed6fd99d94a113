// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the busy times of the two paths of the NIC. Each call passes the time. The meter does not affect the NIC.

use plug::{Shared, Shown, gbps, ns};
use std::cell::Cell;
use tlp::{Duration, Time};

/// Use of time, from the first request to the last register access.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IceNicReport {
    /// Frames read from host memory.
    pub sent: u64,
    /// Frames written to host memory.
    pub received: u64,
    /// Bytes written to host memory.
    pub bytes: u64,
    /// Time from the first request to the last register access.
    pub elapsed: Duration,
    /// Time in which the send path had reads outstanding.
    pub sending: Duration,
    /// Time in which the receive path had writes outstanding.
    pub receiving: Duration,
    /// Time in which at least one path was busy.
    pub busy: Duration,
    /// Rejected requests: queue full, frame too long, or an unknown register.
    pub refused: u64,
    /// Failed transfers, and completions lost because their queue was full.
    pub failed: u64,
}

impl IceNicReport {
    /// Returns the time in which neither path had anything outstanding: the NIC waited for control.
    pub fn waiting(&self) -> Duration {
        Duration::from_ps(self.elapsed.as_ps().saturating_sub(self.busy.as_ps()))
    }
}

impl plug::Report for IceNicReport {
    fn shown(&self, _: Time) -> Shown {
        Shown::new()
            .with("sent_frames", self.sent)
            .with("received_frames", self.received)
            .with("elapsed_ns", ns(self.elapsed))
            .with("sending_ns", ns(self.sending))
            .with("receiving_ns", ns(self.receiving))
            .with("waiting_ns", ns(self.waiting()))
            .with("received_gbps", gbps(self.bytes, self.elapsed))
            .with("refused_requests", self.refused)
            .with("failed_transfers", self.failed)
    }
}

/// A path of the NIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Path {
    /// Reads frames.
    Send,
    /// Writes frames.
    Receive,
}

/// Fills an [`IceNicReport`].
pub(super) struct Meter {
    report: Shared<IceNicReport>,
    started: Cell<Option<Time>>,
    /// Start of the current activity of each path.
    since: [Cell<Option<Time>>; 2],
    busy_since: Cell<Option<Time>>,
}

impl Meter {
    pub(super) fn new(report: Shared<IceNicReport>) -> Meter {
        report.change(|r| *r = IceNicReport::default());
        Meter { report, started: Cell::new(None), since: Default::default(), busy_since: Cell::new(None) }
    }

    /// Counts a register access.
    pub(super) fn control(&self, now: Time) {
        let start = self.started.get().unwrap_or(now);
        self.started.set(Some(start));
        self.report.change(|r| r.elapsed = now.since(start));
    }

    pub(super) fn begin(&self, path: Path, now: Time) {
        if self.busy_since.get().is_none() {
            self.busy_since.set(Some(now));
        }
        self.since[path as usize].set(Some(now));
    }

    pub(super) fn end(&self, path: Path, now: Time) {
        let spent = |cell: &Cell<Option<Time>>| cell.take().map_or(Duration::ZERO, |at| now.since(at));
        let own = spent(&self.since[path as usize]);
        let idle = self.since.iter().all(|s| s.get().is_none());
        let busy = if idle { spent(&self.busy_since) } else { Duration::ZERO };
        self.report.change(|r| {
            *(if path == Path::Send { &mut r.sending } else { &mut r.receiving }) += own;
            r.busy += busy;
        });
    }

    pub(super) fn sent(&self, kept: bool) {
        self.report.change(|r| (r.sent, r.failed) = (r.sent + 1, r.failed + u64::from(!kept)));
    }

    pub(super) fn received(&self, kept: bool, bytes: u32) {
        self.report.change(|r| {
            (r.received, r.bytes) = (r.received + 1, r.bytes + u64::from(bytes));
            r.failed += u64::from(!kept);
        });
    }

    pub(super) fn refuse(&self) {
        self.report.change(|r| r.refused += 1);
    }

    pub(super) fn fail(&self) {
        self.report.change(|r| r.failed += 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_paths_count_busy_time_once() {
        let report = Shared::default();
        let meter = Meter::new(report.clone());
        let at = |ns: u64| Time::ZERO + Duration::from_ns(ns);
        meter.control(at(10));
        meter.begin(Path::Send, at(20));
        meter.begin(Path::Receive, at(30));
        meter.end(Path::Send, at(50));
        meter.end(Path::Receive, at(60));
        meter.begin(Path::Send, at(80));
        meter.end(Path::Send, at(90));
        meter.control(at(110));
        let report = *report.get();
        let ns = |d: Duration| d.as_ps() / 1000;
        assert_eq!(
            [report.elapsed, report.sending, report.receiving, report.busy].map(ns),
            [100, 40, 30, 50]
        );
        assert_eq!(ns(report.waiting()), 50);
    }
}
