// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fits the figures of a host profile to measurements in the public pcie-bench format.
//!
//! Figures are fitted in order. If the earlier figures are known, some rows depend on only one further figure (see
//! [`Parameter`]). Nine figures affect latencies, and one more affects bandwidths, if there are any. So no search is
//! needed: those rows are simulated with the current profile, and the figure takes the median difference of a
//! transfer's time. A second round corrects for the effect of figures on each other. Figures that the rows do not
//! determine keep the profile's value ([`Evidence`] gives the reason). [`known_range`] returns the range of each figure
//! over the known servers. A physically impossible figure is an error. All other bandwidths are unused, so they are
//! predictions.

mod evidence;
mod parameters;
mod provenance;
pub mod task;
mod text;

pub use evidence::{Begun, Evidence};
pub use parameters::Parameter;
pub use provenance::Provenance;
pub use text::Profile;

use crate::BenchError;
use crate::compare::{Comparison, compare};
use crate::configurations::CONFIGURATIONS;
use crate::experiments::Key;
use crate::predict::{Target, predict};
use crate::results::{Figures, ResultRow, ResultSet, Spread, Tables};
use crate::suite::{Machine, Rule, measure_row};
use lab::profile::HOSTS;
use plug::counted;
use std::collections::BTreeSet;
use std::path::Path;

/// Measurements of one configuration of a server.
#[derive(Clone, Debug)]
pub struct Input {
    /// The measured machine. The fit changes its host profile.
    pub machine: Machine,
    /// The measured tables.
    pub tables: Tables,
    /// False if rows of the command path, and rows with caches warmed by the device, contain no information on the host
    /// (see [`crate::configurations::Configuration::cmd_path_valid`]).
    pub cmd_path_valid: bool,
}

/// A figure of the profile, as it was fitted.
#[derive(Clone, PartialEq, Debug)]
pub struct Fitted {
    /// The figure.
    pub parameter: Parameter,
    /// Its value in picoseconds; 0 if the profile has none.
    pub value_ps: u64,
    /// Whether and how the data determine it.
    pub evidence: Evidence,
    /// Number of rows that it was fitted on; 0: it is unchanged.
    pub rows: usize,
    /// Median error of these rows in the last round, in nanoseconds, before the figure was corrected by it.
    pub last_step_ns: f64,
    /// True if an invalid value would match the rows best. The figure then has the nearest valid value.
    pub is_at_bound: bool,
}

impl Fitted {
    /// Returns the reason to doubt the figure, if there is one.
    pub fn doubt(&self) -> Option<String> {
        let ns = self.value_ps as f64 / 1000.0;
        if self.is_at_bound {
            return Some(format!(
                "is at its bound of {ns:.1} ns, but a value beyond it would match the rows better"
            ));
        }
        let settled = STEP_NS.max(ns * STEP_SHARE);
        let step = self.last_step_ns;
        (self.rows > 0 && step.abs() > settled)
            .then(|| format!("has not settled: its last step was {step:+.2} ns, to {ns:.1} ns"))
    }
}

/// Maximum size of the last step of a fit, in nanoseconds, that is within the scatter of rows.
const STEP_NS: f64 = 1.0;
/// Maximum size of the last step of a fit, relative to the figure.
const STEP_SHARE: f64 = 0.05;

/// A latency above this multiple of the largest of the known servers is an error.
const FAR: u64 = 10;

/// Number of rounds over all figures.
const ROUNDS: usize = 2;
/// Most rows of a configuration that a figure is fitted on.
const ROWS_PER_INPUT: usize = 6;
/// If the mean differs from the median by more than a tick of the card's clock, outliers are the cause.
const TICK_NS: f64 = 40.0 / 3.0;
/// All rounds use the same seed, so that only the figure differs.
const SEED: u64 = 1;

/// Fits `profile` to `inputs`, and makes their machines use it. `begun` is the origin of the profile. Work copies are written to `file`. `progress` receives
/// each fitted figure, and can end the fit by an error.
///
/// # Errors
/// A row that cannot be simulated, a physically impossible figure, a file that cannot be written, or the error of
/// `progress`.
pub fn fit(
    inputs: &[Input],
    profile: &mut Profile,
    begun: Begun,
    rule: &Rule,
    file: &Path,
    mut progress: impl FnMut(&Fitted) -> Result<(), BenchError>,
) -> Result<Vec<Fitted>, BenchError> {
    let evidence = evidence::of(inputs, begun, |parameter| profile.get(parameter).is_some());
    let mut fitted = Vec::new();
    for _ in 0..ROUNDS {
        fitted.clear();
        for &(parameter, evidence) in &evidence {
            profile.write(file)?;
            let step = step(inputs, profile, rule, (parameter, evidence), file)?;
            progress(&step)?;
            fitted.push(step);
        }
    }
    profile.write(file)?;
    Ok(fitted)
}

/// Returns an error text if the rows determine none of the figures. The text lists the rows that would.
pub fn nothing_shown(fitted: &[Fitted]) -> Option<String> {
    if fitted.iter().any(|figure| figure.rows > 0) {
        return None;
    }
    let rows =
        Parameter::ALL.map(|parameter| format!("\n  {}: {}", parameter.name(), parameter.needs_rows()));
    Some(format!(
        "no figure can be fitted: no row of the results depends on only one unknown figure. Figures, and the rows that determine them:{}",
        rows.concat()
    ))
}

/// Simulates every row of `inputs` with the profile in `file`, and compares the results. `progress` receives the finished and total numbers of rows, and can
/// end the work by an error.
///
/// # Errors
/// A row that cannot be simulated, or the error of `progress`.
pub fn residuals(
    inputs: &[Input],
    rule: &Rule,
    file: &Path,
    jobs: usize,
    progress: &mut dyn FnMut(usize, usize) -> Result<(), BenchError>,
) -> Result<Comparison, BenchError> {
    let target = |input: &'_ Input| (input.machine.name.clone(), input.tables.clone());
    let measured = ResultSet { configurations: inputs.iter().map(target).collect() };
    let targets: Vec<Target<'_>> = inputs
        .iter()
        .map(|input| Target { machine: input.machine_on(file), measured: &input.tables })
        .collect();
    let predicted = predict(&targets, rule, jobs, progress)?;
    Ok(compare(&measured, &predicted, None))
}

fn step(
    inputs: &[Input],
    profile: &mut Profile,
    rule: &Rule,
    (parameter, evidence): (Parameter, Evidence),
    file: &Path,
) -> Result<Fitted, BenchError> {
    let before = profile.get(parameter).unwrap_or_default();
    let kept =
        Fitted { parameter, value_ps: before, evidence, rows: 0, last_step_ns: 0.0, is_at_bound: false };
    let shown = match evidence {
        Evidence::Rows => parameter,
        Evidence::Together(with) => with,
        _ => return Ok(kept),
    };
    let mut differences = Vec::new();
    for input in inputs {
        let machine = input.machine_on(file);
        for row in input.rows_of(shown) {
            differences.push(difference(&machine, row, rule)? / parameter.gain());
        }
    }
    let rows = differences.len();
    let last_step_ns = middle(&mut differences);
    let asked = (before as f64 + last_step_ns * 1000.0).round();
    check_physical(parameter, asked)?;
    let value_ps = asked.clamp(0.0, parameter.most_ps() as f64) as u64;
    let source = match evidence {
        Evidence::Together(with) => {
            format!("fit: {}, {}, with {} unchanged", counted(rows, "row"), shown.shown_by(), with.name())
        }
        _ => format!("fit: {}, {}", counted(rows, "row"), shown.shown_by()),
    };
    profile.set(parameter, value_ps, &source)?;
    Ok(Fitted { value_ps, rows, last_step_ns, is_at_bound: asked != value_ps as f64, ..kept })
}

/// # Errors
/// A latency that is physically impossible. Rows scatter by a tick of the card's clock, so a value slightly below 0 is
/// valid.
fn check_physical(parameter: Parameter, asked_ps: f64) -> Result<(), BenchError> {
    let Some((_, known)) = known_range(parameter).filter(|_| !parameter.is_of_bandwidth()) else {
        return Ok(());
    };
    let [asked, most] = [asked_ps, (FAR * known) as f64].map(|ps| ps / 1000.0);
    if (-TICK_NS..=most).contains(&asked) {
        return Ok(());
    }
    Err(format!(
        "{}: the rows give {asked:.1} ns; expected 0 to {most:.1} ns, {FAR} times the largest of the known servers. \
         Check the unit of the latencies, and the options of the measurement (--device, --iommu)",
        parameter.name()
    )
    .into())
}

/// Returns the median, because single rows include other effects (lines of an earlier experiment in a cache, a stale
/// IOTLB).
pub(crate) fn middle(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values {
        [] => 0.0,
        _ if values.len() % 2 == 1 => values[half],
        _ => (values[half - 1] + values[half]) / 2.0,
    }
}

impl Input {
    /// Returns the measured machine, with the profile in `file`.
    fn machine_on(&self, file: &Path) -> Machine {
        Machine { host: file.to_string_lossy().into_owned(), ..self.machine.clone() }
    }

    /// Returns rows that depend on `parameter`, at most [`ROWS_PER_INPUT`], evenly spread over all of them.
    fn rows_of(&self, parameter: Parameter) -> Vec<&ResultRow> {
        let shows = |row: &&ResultRow| self.is_usable(&row.key) && parameter.shows(&self.machine, &row.key);
        let all: Vec<&ResultRow> = self.tables.experiments.values().flatten().filter(shows).collect();
        let step = all.len().div_ceil(ROWS_PER_INPUT).max(1);
        all.into_iter().step_by(step).collect()
    }

    fn is_usable(&self, key: &Key) -> bool {
        self.cmd_path_valid || !(key.test.is_command() || key.cache.is_by_device())
    }
}

/// Returns the smallest and largest value of a figure in the shipped profiles of the measured servers, in picoseconds;
/// `None` if none has it. This is the uncertainty of a figure that no row determines.
pub fn known_range(parameter: Parameter) -> Option<(u64, u64)> {
    let servers: BTreeSet<&str> = CONFIGURATIONS.iter().map(|c| c.profile).collect();
    let shipped = servers.into_iter().filter_map(|name| HOSTS.get(name));
    let values = shipped.filter_map(|s| Profile::parse(s.text).ok()?.get(parameter));
    values.fold(None, |range, ps| match range {
        None => Some((ps, ps)),
        Some((least, most)) => Some((ps.min(least), ps.max(most))),
    })
}

/// Returns the duration of a measured transfer minus the duration simulated on `machine`, in nanoseconds.
fn difference(machine: &Machine, row: &ResultRow, rule: &Rule) -> Result<f64, BenchError> {
    let simulated = measure_row(machine, row.key, rule, SEED).map_err(|e| e.at(row.key))?;
    match (&row.figures, &simulated.figures) {
        (Figures::Latency(measured), Figures::Latency(simulated)) => {
            let by_mean = (measured.ns.mean - measured.ns.median).abs() <= TICK_NS;
            let of = |spread: &Spread| if by_mean { spread.mean } else { spread.median };
            Ok(of(&measured.ns) - of(&simulated.ns))
        }
        (Figures::Bandwidth(measured), Figures::Bandwidth(simulated)) => {
            let ns = |gbps: f64| f64::from(row.key.size_bytes) * 8.0 / gbps;
            Ok(ns(measured.gbps) - ns(simulated.gbps))
        }
        _ => Err(BenchError::from("a latency compared with a bandwidth").at(row.key)),
    }
}

#[cfg(test)]
mod tests {
    use super::middle;

    #[test]
    fn middle_returns_the_median() {
        let rows: [(&[f64], f64); 4] =
            [(&[], 0.0), (&[3.0], 3.0), (&[9.0, 1.0, 2.0], 2.0), (&[4.0, 1.0, 2.0, 900.0], 3.0)];
        for (values, expected) in rows {
            assert_eq!(middle(&mut values.to_vec()), expected, "{values:?}");
        }
    }
}
