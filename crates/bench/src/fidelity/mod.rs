// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Agreement of the shipped profiles with measurements. There are four kinds of score: with the profiles as they are, with each configuration left out of the
//! fit, with each whole server left out, and with one mechanism switched off at a time.
//!
//! [`crate::score`] defines what is compared and how it is scored. Shipped profiles are never changed: fitted and reduced profiles are copies in a separate
//! folder.

mod markdown;
mod study;

use markdown::ablation;
pub use markdown::{insert, scores};
pub use study::{FidelityReport, LeftOut, Part};

use crate::BenchError;
use crate::configurations::{CONFIGURATIONS, Configuration};
use crate::fit::{self, Begun, Input, Parameter, Profile, middle};
use crate::predict::{Target, predict};
use crate::results::{ResultSet, Tables};
use crate::score::{GroupScore, score};
use crate::suite::{Machine, Rule};
use devices::pcie_bench::CARDS;
use lab::Folder;
use lab::profile::{Basis, HOSTS};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Ablations simulate one of this many rows. This number is coprime to the 12, 13 and 14 windows of the sweeps, so that
/// each window occurs.
pub const THINNED_ROWS: usize = 11;

/// A mechanism, and the part of a profile that describes it.
#[derive(Clone, Copy, Debug)]
pub struct Mechanism {
    /// Its name.
    pub name: &'static str,
    /// Kind of the profile that has the mechanism: `host` or `device`.
    pub kind: &'static str,
    /// Keys from the outermost table on, and the new value; `None` removes the part.
    pub edits: &'static [(&'static [&'static str], Option<i64>)],
    /// Its cause is known. If not, it must also reduce the errors of servers that are left out of the fit.
    pub is_explained: bool,
}

impl Mechanism {
    /// Returns the mechanism as one whose cause is unknown.
    const fn unexplained(self) -> Mechanism {
        Mechanism { is_explained: false, ..self }
    }
}

/// The mechanisms that are switched off one at a time.
pub const MECHANISMS: &[Mechanism] = &[
    host("last-level cache", &[(&["llc"], None)]),
    host("record of the last writer of a line", &[(&["llc", "core_snoop_latency_ps"], Some(0))]),
    host("DDIO's share of the ways", &[(&["llc", "ddio_ways"], Some(15))]),
    host("eviction by device writes", &[(&["llc", "eviction_latency_ps"], Some(0))]),
    host("memory behind the cache", &[(&["dram", "latency_ps"], Some(0))]),
    host("writes become visible late", &[(&["memory_write_latency_ps"], Some(0))]),
    host("sockets", &[(&["numa"], None)]),
    host("IOMMU", &[(&["iommu"], None)]),
    host("spacing of page walks", &[(&["iommu", "miss_service_ps"], Some(0))]),
    host("reads in the IOMMU's lookup", &[(&["iommu", "read_service_ps"], Some(0))]),
    host("refresh of memory", &[(&["dram", "refresh"], None)]),
    host("waits beyond a refresh", &[(&["dram", "refresh", "late"], None)]).unexplained(),
    host("stalls of the IOMMU", &[(&["iommu", "stalls"], None)]).unexplained(),
    host("waits for sleeping cores", &[(&["llc", "snoop_waits"], None)]),
    host("noise of hits", &[(&["noise"], None)]).unexplained(),
    host("sleep of the link", &[(&["power"], None)]),
    host("retraining of the link under load", &[(&["retraining"], None)]),
    host("how completions are cut and spaced", &[(&["completions"], None)]),
    host("beats of completions", &[(&["completions", "beat_bytes"], None)]),
    host(
        "partial lines in their own completions",
        &[(&["completions", "first_line_alone_bytes"], None), (&["completions", "last_line_alone"], None)],
    ),
    host(
        "gaps after requests",
        &[
            (&["completions", "short_gap_ps"], None),
            (&["completions", "middle_gap_ps"], None),
            (&["completions", "long_gap_ps"], None),
            (&["completions", "further_gap_ps"], None),
        ],
    )
    .unexplained(),
    host("gaps between the reads of a transfer", &[(&["completions", "further_gap_ps"], None)]).unexplained(),
    host("gaps after late completions", &[(&["completions", "late_gap_ps"], None)]).unexplained(),
    card("read slots of the card", &[(&["read_slots"], None)]),
    card("pull engine of the card", &[(&["pull_ps"], None), (&["pull_burst_ps"], None)]),
    card("transmit framer of the card", &[(&["frame_beat_ps"], None), (&["frame_read_ps"], None)]),
    card(
        "push engine of the card",
        &[
            (&["push_ps"], None),
            (&["push_burst_ps"], None),
            (&["push_ragged_end_ps"], None),
            (&["push_ragged_line_ps"], None),
            (&["push_ragged_request_ps"], None),
        ],
    ),
    card("ragged lines in the push engine", &[(&["push_ragged_line_ps"], None)]).unexplained(),
    card("ragged requests in the push engine", &[(&["push_ragged_request_ps"], None)]).unexplained(),
    card("writes on the wire of completions", &[(&["write_line_gap_ps"], None)]).unexplained(),
    card("ticks of the card's clock", &[(&["clock_tick_cycles"], None)]),
];

const fn host(name: &'static str, edits: &'static [(&'static [&'static str], Option<i64>)]) -> Mechanism {
    Mechanism { name, kind: "host", edits, is_explained: true }
}

const fn card(name: &'static str, edits: &'static [(&'static [&'static str], Option<i64>)]) -> Mechanism {
    Mechanism { name, kind: "device", edits, is_explained: true }
}

/// Measurements and the settings of their simulation.
#[derive(Clone, Debug)]
pub struct Fidelity<'a> {
    /// The measurements. Only known configurations are used.
    pub data: &'a ResultSet,
    /// Device profile of the card.
    pub device: String,
    /// Rule that ends a row.
    pub rule: Rule,
    /// Number of rows simulated in parallel.
    pub jobs: usize,
    /// Folder for the copies of profiles.
    pub work: PathBuf,
}

/// Callback for progress, with the current step, and its finished and total rows.
pub type Progress<'p> = &'p mut dyn FnMut(&str, usize, usize);

/// The profiles that a mechanism is removed from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Base {
    /// The shipped ones.
    Shipped,
    /// For each server, the one without its own fitted figures: see [`Fidelity::server_left_out`].
    ServerLeftOut,
}

/// Scores with a mechanism switched off.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Ablation {
    /// Name of the mechanism.
    pub name: &'static str,
    /// Scores of the profiles without the mechanism.
    pub scores: Vec<GroupScore>,
}

/// Returns the measurements with every `step`-th row of each experiment.
pub fn thinned(data: &ResultSet, step: usize) -> ResultSet {
    let mut data = data.clone();
    for rows in data.configurations.values_mut().flat_map(|tables| tables.experiments.values_mut()) {
        *rows = rows.iter().step_by(step).copied().collect();
    }
    data
}

impl Fidelity<'_> {
    /// Returns the weakest basis of the shipped profiles' figures that the scores depend on.
    pub fn basis(&self) -> Option<Basis> {
        let of = |target: Target<'_>| {
            target.machine.basis(target.measured.experiments.values().flatten().map(|row| row.key.test))
        };
        self.targets().into_iter().filter_map(of).max()
    }

    /// Returns the scores of the shipped profiles.
    ///
    /// # Errors
    /// A row that cannot be simulated.
    pub fn shipped(&self, progress: Progress<'_>) -> Result<Vec<GroupScore>, BenchError> {
        self.scores(&self.targets(), "as shipped", progress)
    }

    /// Returns the scores with each configuration simulated by a profile that was fitted without it. The fit uses the
    /// other configurations of the same server. A figure that no remaining configuration determines comes from
    /// a server of the same kind.
    ///
    /// # Errors
    /// A row that cannot be simulated, or a file that cannot be written.
    pub fn configuration_left_out(&self, progress: Progress<'_>) -> Result<Vec<GroupScore>, BenchError> {
        let mut targets = self.targets();
        for (at, (configuration, _)) in self.known().into_iter().enumerate() {
            let file = self.work.join(format!("without-{}.toml", configuration.name));
            let mut profile = sister(configuration.profile, &others(configuration.profile)?)?;
            let own = text("host", configuration.profile)?;
            profile.adopt_data_sheet(&own)?;
            profile.adopt(&own, &DDIO_SHARE)?;
            let inputs = self.inputs(configuration);
            let of = targets.len();
            // A sister server replaces the server: figures that no row determines come from it.
            fit::fit(&inputs, &mut profile, Begun::Own, &self.rule, &file, |_| {
                progress("fits", at, of);
                Ok(())
            })?;
            targets[at].machine.host = file.to_string_lossy().into_owned();
        }
        self.scores(&targets, "left out", progress)
    }

    /// Returns the scores with each server simulated without its own fitted figures. Only its data sheet and records
    /// are used: the cache size, the IOMMU's pages, the payload sizes and the sockets. Each fitted figure is the median
    /// of the other servers of its kind. All other figures are those of a sister server.
    ///
    /// # Errors
    /// A row that cannot be simulated, or a file that cannot be written.
    pub fn server_left_out(&self, progress: Progress<'_>) -> Result<Vec<GroupScore>, BenchError> {
        self.scores(&self.foreign_targets()?, "server left out", progress)
    }

    /// Returns the scores with `mechanism` removed from the profiles of `base`.
    ///
    /// # Errors
    /// A row that cannot be simulated, or a file that cannot be written.
    pub fn without(
        &self,
        mechanism: &Mechanism,
        base: Base,
        progress: Progress<'_>,
    ) -> Result<Ablation, BenchError> {
        let mut targets = match base {
            Base::Shipped => self.targets(),
            Base::ServerLeftOut => self.foreign_targets()?,
        };
        for target in &mut targets {
            let machine = &mut target.machine;
            let name = match mechanism.kind {
                "host" => &mut machine.host,
                _ => &mut machine.device,
            };
            let mut profile = Profile::parse(&text(mechanism.kind, name)?)?;
            for (path, value) in mechanism.edits {
                profile.edit(path, *value);
            }
            let stem = name.rsplit('/').next().unwrap_or(name).trim_end_matches(".toml");
            let file = self.work.join(format!("mutilated-{stem}.toml"));
            profile.write(&file)?;
            *name = file.to_string_lossy().into_owned();
        }
        let scores = self.scores(&targets, mechanism.name, progress)?;
        Ok(Ablation { name: mechanism.name, scores })
    }

    /// Returns the configurations. No profile has a figure that was fitted to the server it stands for.
    fn foreign_targets(&self) -> Result<Vec<Target<'_>>, BenchError> {
        let mut targets = self.targets();
        for target in &mut targets {
            let server = target.machine.host.clone();
            let file = self.work.join(format!("without-{server}.toml"));
            foreign(&server)?.write(&file)?;
            target.machine.host = file.to_string_lossy().into_owned();
        }
        Ok(targets)
    }

    /// Simulates the targets and scores the results.
    fn scores(
        &self,
        targets: &[Target<'_>],
        what: &str,
        progress: Progress<'_>,
    ) -> Result<Vec<GroupScore>, BenchError> {
        let predicted = predict(targets, &self.rule, self.jobs, &mut |n, of| {
            progress(what, n, of);
            Ok(())
        })?;
        Ok(score(self.data, &predicted, None))
    }

    fn known(&self) -> Vec<(&'static Configuration, &Tables)> {
        let known = |(name, tables)| Configuration::named(name).map(|c| (c, tables));
        self.data.configurations.iter().filter_map(|(name, tables)| known((name.as_str(), tables))).collect()
    }

    fn targets(&self) -> Vec<Target<'_>> {
        let target = |(configuration, measured)| Target {
            machine: Machine::configuration(configuration, &self.device),
            measured,
        };
        self.known().into_iter().map(target).collect()
    }

    /// Returns measurements of the same server, without those of `configuration`.
    fn inputs(&self, configuration: &Configuration) -> Vec<Input> {
        let others = |(c, _): &(&Configuration, &Tables)| {
            c.profile == configuration.profile && c.name != configuration.name
        };
        let input = |(c, tables): (&Configuration, &Tables)| Input {
            machine: Machine::configuration(c, &self.device),
            tables: tables.clone(),
            cmd_path_valid: c.cmd_path_valid,
        };
        self.known().into_iter().filter(others).map(input).collect()
    }
}

/// The cache's share for devices, a figure of the server itself that any of its configurations determines.
const DDIO_SHARE: [(&str, &str); 1] = [("llc", "ddio_ways")];

/// Returns a profile for `server` that uses only its data sheet, and figures of other servers.
fn foreign(server: &str) -> Result<Profile, BenchError> {
    let others = others(server)?;
    let mut profile = sister(server, &others)?;
    profile.adopt_data_sheet(&text("host", server)?)?;
    for parameter in Parameter::ALL {
        let of = |profile: &Profile| profile.get(parameter).map(|ps| ps as f64);
        let mut values: Vec<f64> = others.iter().filter_map(of).collect();
        if profile.get(parameter).is_some() && !values.is_empty() {
            let (table, key) = parameter.place();
            let path: Vec<&str> = table.into_iter().chain([key]).collect();
            profile.edit(&path, Some(middle(&mut values).round() as i64));
        }
    }
    Ok(profile)
}

/// Prefix of the profiles of servers that are similar enough to stand in for each other. The range excludes the client
/// chip.
const KIND: &str = "xeon-e5";

/// Returns the profiles of the measured servers, each once.
fn servers() -> impl Iterator<Item = &'static str> {
    let names: BTreeSet<&str> = CONFIGURATIONS.iter().map(|c| c.profile).collect();
    names.into_iter()
}

/// Returns the profiles of the other servers that can stand in for `server`.
fn others(server: &str) -> Result<Vec<Profile>, BenchError> {
    let others = servers().filter(|other| *other != server && other.starts_with(KIND));
    others.map(|other| Profile::parse(&text("host", other)?)).collect()
}

/// Returns the profile whose figures replace those of `server` that no row shows: the next older or newer server of its
/// kind. If that server has a single socket, Broadwell and Ivy Bridge supply the figures of the remote socket for each
/// other. Rare latencies are the median of the `others`.
fn sister(server: &str, others: &[Profile]) -> Result<Profile, BenchError> {
    let (next, two_sockets) = match server {
        "xeon-e5-2620v3" => ("xeon-e5-2637v3", "xeon-e5-2630v4"),
        "xeon-e5-2620v2" => ("xeon-e5-2630", "xeon-e5-2630v4"),
        "xeon-e5-2630" => ("xeon-e5-2620v2", "xeon-e5-2630v4"),
        _ => ("xeon-e5-2620v3", "xeon-e5-2620v2"),
    };
    let mut profile = Profile::parse(&text("host", next)?)?;
    profile.complete(&text("host", two_sockets)?)?;
    profile.adopt_rare_latencies(others);
    Ok(profile)
}

fn text(kind: &str, name: &str) -> Result<String, BenchError> {
    let shelf = if kind == CARDS.kind { &CARDS } else { &HOSTS };
    Ok(shelf.text(name, &Folder::default())?)
}
