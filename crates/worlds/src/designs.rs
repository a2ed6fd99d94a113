// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Repeats the run of a lab with designs in RTL: with waves around a TLP, with other initial values, or compared with the
//! design alone.

use fabric::Stop;
use lab::{BuildError, BuildOptions, LabFile};
use plug::RunContext;
use plug::site::NativeCode;
use rtl::{Divergence, DivergenceError, Recording, ReplayError, Triggers};
use serde::Serialize;
use session::{Session, cpu_seconds};
use thiserror::Error;

/// Builds a lab. If a design writes waves around a TLP (`waves_when`), the lab is built twice: `search` runs the first
/// session, which finds the time of the TLP. The returned session writes waves around this time.
///
/// # Errors
/// The lab cannot be built, or errors of `search`.
pub fn build_at_triggers<E: From<BuildError>>(
    file: &LabFile,
    native: NativeCode,
    search: impl FnOnce(&mut Session) -> Result<(), E>,
) -> Result<Session, E> {
    let triggers = Triggers::default();
    let build = || {
        let context = RunContext::with(triggers.clone());
        Session::with(file, BuildOptions { native, context, ..BuildOptions::default() })
    };
    let mut first = build()?;
    if !triggers.are_wanted() {
        return Ok(first);
    }
    search(&mut first)?;
    triggers.again();
    drop(first);
    Ok(build()?)
}

/// Runs a lab with the initial values of the seeds 1 to `seeds`, at least 2. Returns where runs differ, if they do.
///
/// # Errors
/// The lab cannot be built, has no design that runs, or runs longer than riser can record.
pub fn compare_seeds(
    file: &LabFile,
    native: NativeCode,
    seeds: u64,
) -> Result<Option<Divergence>, DivergenceError<BuildError>> {
    let seeds: Vec<u64> = (1..=seeds).collect();
    rtl::compare_seeds(&seeds, |context| {
        let options = BuildOptions { native, context, ..BuildOptions::default() };
        Ok(Session::with(file, options)?.run_to_end().to_string())
    })
}

/// The speed of a design, as medians over rounds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct DesignSpeed {
    /// Cycles of the user clock in a run.
    pub cycles: usize,
    /// Number of rounds.
    pub rounds: u32,
    /// Cycles in a second of CPU time, with the lab.
    pub cycles_per_cpu_second: f64,
    /// Cycles per second of CPU time, of the design alone.
    pub bare_cycles_per_cpu_second: f64,
    /// The first divided by the second.
    pub ratio: f64,
}

/// The reason why a speed cannot be measured.
#[derive(Debug, Error)]
pub enum DesignSpeedError {
    /// The lab cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The run of the lab fails.
    #[error("{0}")]
    Run(Stop),
    /// The design cannot run alone.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

impl DesignSpeed {
    /// Records the inputs of the first design of a lab. Then, in each round, runs the lab again, and the design alone with the same inputs.
    /// Calls `progress` after each round.
    ///
    /// # Errors
    /// The lab cannot be built or fails, or the design cannot run alone.
    pub fn measure(
        file: &LabFile,
        native: NativeCode,
        rounds: u32,
        mut progress: impl FnMut(),
    ) -> Result<DesignSpeed, DesignSpeedError> {
        let recording = Recording::default();
        run_lab(file, native, RunContext::with(recording.clone()))?;
        let cycles = recording.cycles();
        let mut seconds = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            seconds[0].push(run_lab(file, native, RunContext::default())?);
            let replay = recording.replay()?;
            let before = cpu_seconds();
            replay.run()?;
            seconds[1].push(cpu_seconds() - before);
            progress();
        }
        let [with, bare] = seconds.map(|seconds| cycles as f64 / median(seconds));
        let (cycles_per_cpu_second, bare_cycles_per_cpu_second, ratio) = (with, bare, with / bare);
        Ok(DesignSpeed { cycles, rounds, cycles_per_cpu_second, bare_cycles_per_cpu_second, ratio })
    }
}

/// Runs a lab. Returns the CPU seconds of the run.
fn run_lab(file: &LabFile, native: NativeCode, context: RunContext) -> Result<f64, DesignSpeedError> {
    let options = BuildOptions { native, context, ..BuildOptions::default() };
    let mut session = Session::with(file, options)?;
    let before = cpu_seconds();
    let stop = session.run_to_end();
    let seconds = cpu_seconds() - before;
    match stop {
        Stop::Failed(_) | Stop::NoProgress(_) => Err(DesignSpeedError::Run(stop)),
        _ => Ok(seconds),
    }
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}
