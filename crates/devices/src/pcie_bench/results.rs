// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a benchmark has measured, and how far it has come: filled by the device, read by whoever runs it.

use super::settings::Settings;
use device::DmaError;
use plug::Shared;
use tlp::{Duration, Time};

/// How far a benchmark has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Phase {
    /// Not started.
    #[default]
    Idle,
    /// Transfers run that do not count.
    WarmUp,
    /// Transfers run that count.
    Measuring,
    /// The last one that counts has ended, or one has failed.
    Done,
}

/// What was measured. All but `failure` is about the transfers that count.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Results {
    /// How far it has come.
    pub phase: Phase,
    /// Transfers that have ended; a write and the read behind it are one.
    pub transfers: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// When the last transfer before them ended; when the device was started where there was none.
    pub measure_start: Time,
    /// When the last of them ended.
    pub measure_end: Time,
    /// Latency of each in picoseconds, in the order of their ends; of latency tests only. What the card's clock says: the
    /// difference of two of its ticks, rounded to picoseconds.
    pub latencies_ps: Vec<u64>,
    /// Why the benchmark was given up, if it was.
    pub failure: Option<DmaError>,
    /// Transfers that have ended, those of the warm-up and at the end among them.
    pub ended: u64,
    /// Transfers that are to end, those of the warm-up among them.
    pub all: u64,
}

impl Results {
    /// How long the transfers that count took.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.measure_end.since(self.measure_start)
    }
}

/// A handle on the results of a device.
pub type ResultsHandle = Shared<Results>;

/// A transfer that has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ended {
    /// Picoseconds.
    pub(super) latency: u64,
    pub(super) bytes_read: u32,
    pub(super) bytes_written: u32,
}

impl Results {
    /// Before the device was started: of a test of `settings`.
    #[must_use]
    pub fn of(settings: &Settings) -> Results {
        Results { all: settings.transfers_in_all(), ..Results::default() }
    }

    /// The device was started. All memory that the results need is taken here.
    pub(super) fn start(now: Time, settings: &Settings) -> Results {
        let latencies = if settings.test.is_latency() { settings.transfers as usize } else { 0 };
        let phase = if settings.warm_up == 0 { Phase::Measuring } else { Phase::WarmUp };
        let latencies_ps = Vec::with_capacity(latencies);
        Results { phase, measure_start: now, latencies_ps, ..Results::of(settings) }
    }

    /// A transfer has ended.
    pub(super) fn end(&mut self, now: Time, settings: &Settings, transfer: Ended) {
        self.ended += 1;
        match self.phase {
            Phase::WarmUp if self.ended == settings.warm_up => {
                self.phase = Phase::Measuring;
                self.measure_start = now;
            }
            Phase::Measuring => self.count(now, settings, transfer),
            _ => {}
        }
    }

    /// A transfer has failed: the benchmark is given up.
    pub(super) fn fail(&mut self, now: Time, error: DmaError) {
        self.phase = Phase::Done;
        self.measure_end = now;
        self.failure.get_or_insert(error);
    }

    fn count(&mut self, now: Time, settings: &Settings, transfer: Ended) {
        self.transfers += 1;
        self.bytes_read += u64::from(transfer.bytes_read);
        self.bytes_written += u64::from(transfer.bytes_written);
        self.measure_end = now;
        if settings.test.is_latency() {
            self.latencies_ps.push(transfer.latency);
        }
        if self.transfers == settings.transfers {
            self.phase = Phase::Done;
        }
    }
}
