// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a benchmark has measured, and how far it has come: filled by the device, read by whoever runs it.

use super::settings::Settings;
use device::DmaError;
use std::cell::{Ref, RefCell};
use std::rc::Rc;
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
}

impl Results {
    /// How long the transfers that count took.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.measure_end.since(self.measure_start)
    }
}

/// A handle on the results of a device; clones are handles on the same.
#[derive(Clone, Debug, Default)]
pub struct ResultsHandle {
    results: Rc<RefCell<Results>>,
}

/// A transfer that has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ended {
    /// Picoseconds.
    pub(super) latency: u64,
    pub(super) bytes_read: u32,
    pub(super) bytes_written: u32,
}

impl ResultsHandle {
    /// A handle on results that nothing has filled yet.
    #[must_use]
    pub fn new() -> ResultsHandle {
        ResultsHandle::default()
    }

    /// How far it has come.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.results.borrow().phase
    }

    /// The results as they are now. Not to be held while the device runs.
    #[must_use]
    pub fn get(&self) -> Ref<'_, Results> {
        self.results.borrow()
    }

    /// The results, leaving none: for when the device has ended.
    #[must_use]
    pub fn take(&self) -> Results {
        self.results.take()
    }

    /// The device was started. All memory that the results need is taken here.
    pub(super) fn start(&self, now: Time, settings: &Settings) {
        let latencies = if settings.test.is_latency() { settings.transfers as usize } else { 0 };
        let phase = if settings.warm_up == 0 { Phase::Measuring } else { Phase::WarmUp };
        let latencies_ps = Vec::with_capacity(latencies);
        *self.results.borrow_mut() =
            Results { phase, measure_start: now, latencies_ps, ..Results::default() };
    }

    /// A transfer has ended.
    pub(super) fn end(&self, now: Time, settings: &Settings, transfer: Ended) {
        let results = &mut *self.results.borrow_mut();
        results.ended += 1;
        match results.phase {
            Phase::WarmUp if results.ended == settings.warm_up => {
                results.phase = Phase::Measuring;
                results.measure_start = now;
            }
            Phase::Measuring => results.count(now, settings, transfer),
            _ => {}
        }
    }

    /// A transfer has failed: the benchmark is given up.
    pub(super) fn fail(&self, now: Time, error: DmaError) {
        let results = &mut *self.results.borrow_mut();
        results.phase = Phase::Done;
        results.measure_end = now;
        results.failure.get_or_insert(error);
    }
}

impl Results {
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
