// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures one row: runs its lab until the rule ends it.

use super::figures::{self, Histogram};
use super::machine::Machine;
use super::rule::Rule;
use crate::BenchError;
use crate::experiments::{Key, Test};
use crate::results::{Figures, ResultRow};
use fabric::Stop;
use lab::{BuildOptions, LabFile, profile};
use plug::Shared;
use plug::transfers::{Phase, Transfers};
use session::{Session, Slices};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Events between two checks of the device.
const SLICE: u64 = 128;

/// A measured row.
pub(super) struct Measured {
    pub(super) row: ResultRow,
    /// Samples of each latency; empty for a bandwidth row.
    pub(super) histogram: Histogram,
    /// Latencies in cycles in the order of completion, if they are kept.
    pub(super) series: Vec<u64>,
}

/// A row to measure.
pub(super) struct Task<'a> {
    pub(super) machine: &'a Machine,
    pub(super) key: Key,
    pub(super) rule: &'a Rule,
    /// Keep the distribution, and take more samples for it.
    pub(super) detail: bool,
    pub(super) seed: u64,
}

impl Task<'_> {
    /// Measures the row. Returns `None` if `cancel` was set before the end.
    ///
    /// # Errors
    /// The lab cannot be built, or its run failed.
    pub(super) fn measure(&self, cancel: &AtomicBool) -> Result<Option<Measured>, BenchError> {
        if cancel.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let host = profile::host(&self.machine.host, Path::new(""))?;
        let reads_stay = host.llc.as_ref().is_some_and(|llc| llc.read_allocate);
        let (batch, batches) =
            (self.rule.batch(&self.key, self.detail), self.rule.batches(&self.key, self.detail));
        let maximum_of = self.rule.maximum_of(&self.key, self.detail).filter(|_| host.has_rare_latencies());
        let lab = self.machine.lab(
            &self.key,
            batch * batches + maximum_of.map_or(0, |_| Rule::RAREST_SAMPLES),
            self.rule.warm_up(&self.key),
            self.rule.seen(&self.key, reads_stay),
            self.seed,
        )?;
        let options = BuildOptions { host: Some(host), ..BuildOptions::default() };
        let mut session = Session::with(&LabFile { lab, base: ".".into() }, options)?;
        let results = session.measured().ok_or("no device of the lab measures transfers")?;
        // The card measures all written figures, so the ledger is not needed.
        session.fabric.keep_accounts(false);
        let mut run = RunningLab { session: &mut session, results: &results, cancel };
        match self.key.test.is_latency() {
            true => self.latency(&mut run, (batch, batches), maximum_of),
            false => self.bandwidth(&mut run, batch, batches),
        }
    }

    /// Measures latencies in at most `batches` batches, and their maximum of `maximum_of` samples.
    fn latency(
        &self,
        run: &mut RunningLab<'_>,
        (batch, batches): (u64, u64),
        maximum_of: Option<u64>,
    ) -> Result<Option<Measured>, BenchError> {
        let mut histogram = Histogram::default();
        let mut series = Vec::new();
        let mut settled = Settled::new(self.rule.stable_batches);
        for number in 1..=batches {
            if !run.until(number * batch)? {
                return Ok(None);
            }
            let results = run.results.get();
            for ps in results.latencies_ps.iter().skip(histogram.samples() as usize) {
                let cycles = figures::cycles(*ps);
                histogram.add(cycles);
                if self.detail {
                    series.push(cycles);
                }
            }
            let now = [histogram.percentile(50.0), histogram.percentile(95.0)];
            if settled.after(now, |was, is| was == is) {
                break;
            }
        }
        let elapsed = run.results.get().elapsed().as_ps();
        let mut figures = histogram.figures(elapsed);
        if let Some(samples) = maximum_of {
            let Some(longest_ps) = run.longest_of(samples)? else { return Ok(None) };
            figures.extend_to(figures::cycles(longest_ps));
        }
        let row = ResultRow { key: self.key, figures: Figures::Latency(figures) };
        Ok(Some(Measured { row, histogram, series }))
    }

    fn bandwidth(
        &self,
        run: &mut RunningLab<'_>,
        batch: u64,
        batches: u64,
    ) -> Result<Option<Measured>, BenchError> {
        let mut settled = Settled::new(self.rule.stable_batches);
        let tolerance = self.rule.tolerance_ppm as f64 / 1e6;
        for number in 1..=batches {
            if !run.until(number * batch)? {
                return Ok(None);
            }
            let results = run.results.get();
            let rate = results.transfers as f64 / results.elapsed().as_ps().max(1) as f64;
            if settled.after([rate; 2], |was, is| (is[0] / was[0] - 1.0).abs() < tolerance) {
                break;
            }
        }
        let results = run.results.get();
        // Transfers are counted like on the card: of 8,388,608 transfers, every second transfer is a read, and the
        // published files have 4,194,304 transfers with the bytes of these. In the long run both directions move equal
        // amounts. Half of the sum is closer to this than either count, because the counts differ by the transfers in
        // flight when the first and the last one ended.
        let one_way = if self.key.test == Test::BwDmaRw { results.transfers / 2 } else { results.transfers };
        let figures = figures::bandwidth(one_way, self.key.size_bytes, results.elapsed().as_ps());
        let row = ResultRow { key: self.key, figures: Figures::Bandwidth(figures) };
        Ok(Some(Measured { row, histogram: Histogram::default(), series: Vec::new() }))
    }
}

/// Counts batches without a change of the figures.
struct Settled {
    last: Option<[f64; 2]>,
    unchanged: u64,
    enough: u64,
}

impl Settled {
    fn new(enough: u64) -> Settled {
        Settled { last: None, unchanged: 0, enough }
    }

    /// Returns true if the figures, with `now`, have been unchanged for enough batches.
    fn after(&mut self, now: [f64; 2], same: impl Fn([f64; 2], [f64; 2]) -> bool) -> bool {
        match self.last.replace(now) {
            Some(last) if same(last, now) => self.unchanged += 1,
            _ => self.unchanged = 0,
        }
        self.unchanged >= self.enough
    }
}

/// A running lab.
struct RunningLab<'a> {
    session: &'a mut Session,
    results: &'a Shared<Transfers>,
    cancel: &'a AtomicBool,
}

impl RunningLab<'_> {
    /// Returns the longest latency that is expected among `samples`, in picoseconds, or `None` if it was cancelled.
    fn longest_of(&mut self, samples: u64) -> Result<Option<u64>, BenchError> {
        let counted = self.results.get().latencies_ps.len();
        self.session.fabric.root_mut().draw_rarest_of(samples);
        if !self.until(counted as u64 + Rule::RAREST_SAMPLES)? {
            return Ok(None);
        }
        let longest = self.results.get().latencies_ps.iter().skip(counted).max().copied();
        Ok(Some(longest.unwrap_or(0)))
    }

    /// Runs until `transfers` have been counted, or all. Returns false if it was cancelled.
    fn until(&mut self, transfers: u64) -> Result<bool, BenchError> {
        let (results, cancel) = (self.results, self.cancel);
        let before = |_: &mut Session| {
            if results.get().transfers >= transfers || results.get().phase >= Phase::Done {
                ControlFlow::Break(true)
            } else if cancel.load(Ordering::Relaxed) {
                ControlFlow::Break(false)
            } else {
                ControlFlow::Continue(())
            }
        };
        match self.session.run_in_slices(Slices::of(SLICE), before) {
            Ok(Stop::Finished) | Err(true) => {}
            Ok(stop) => return Err(stop.to_string().into()),
            Err(false) => return Ok(false),
        }
        let results = self.results.get();
        match results.failure {
            Some(failure) => Err(failure.to_string().into()),
            None if results.transfers == 0 => Err("no transfer was measured".into()),
            None => Ok(true),
        }
    }
}
