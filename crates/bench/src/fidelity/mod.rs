// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How near the profiles that ship come to measurements, said four ways: as they are; with each configuration left out of
//! the fit in turn; with each whole server left out; and with one mechanism after the other switched off.
//!
//! What is compared and how it is scored is a matter of [`crate::score`]. Nothing here touches the profiles that ship:
//! fitted and mutilated ones are work copies in a folder of their own.

mod markdown;

pub use markdown::{ablation, insert, scores};

use crate::BenchError;
use crate::configurations::{CONFIGURATIONS, Configuration};
use crate::fit::{self, Begun, DATA_SHEET, Input, Parameter, Profile, middle};
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

/// Of so many rows, ablations take one: prime to the 12, 13 and 14 windows of the sweeps, so that each comes.
pub const THINNED_ROWS: usize = 11;

/// A mechanism, and what of a profile it is.
#[derive(Clone, Copy, Debug)]
pub struct Mechanism {
    /// What it is called.
    pub name: &'static str,
    /// The kind of profile that has it: `host` or `device`.
    pub kind: &'static str,
    /// Keys from the outermost table on, and what they become; `None`: the part goes.
    pub edits: &'static [(&'static [&'static str], Option<i64>)],
}

/// The mechanisms that are switched off in turn.
pub const MECHANISMS: &[Mechanism] = &[
    host("last-level cache", &[(&["llc"], None)]),
    host("who wrote a line last", &[(&["llc", "core_snoop_latency_ps"], Some(0))]),
    host("DDIO's share of the ways", &[(&["llc", "ddio_ways"], Some(15))]),
    host("eviction by device writes", &[(&["llc", "eviction_latency_ps"], Some(0))]),
    host("memory behind the cache", &[(&["dram", "latency_ps"], Some(0))]),
    host("writes become visible late", &[(&["memory_write_latency_ps"], Some(0))]),
    host("sockets", &[(&["numa"], None)]),
    host("IOMMU", &[(&["iommu"], None)]),
    host("page walks in batches", &[(&["iommu", "walkers"], Some(64))]),
    host("how completions are cut and spaced", &[(&["completions"], None)]),
    card("read slots of the card", &[(&["read_slots"], None)]),
    card("pull engine of the card", &[(&["pull_ps"], None), (&["pull_burst_ps"], None)]),
    card("transmit framer of the card", &[(&["frame_beat_ps"], None), (&["frame_read_ps"], None)]),
    card("channels of the card", &[(&["channels"], Some(0))]),
    card("ticks of the card's clock", &[(&["clock_tick_cycles"], None)]),
];

const fn host(name: &'static str, edits: &'static [(&'static [&'static str], Option<i64>)]) -> Mechanism {
    Mechanism { name, kind: "host", edits }
}

const fn card(name: &'static str, edits: &'static [(&'static [&'static str], Option<i64>)]) -> Mechanism {
    Mechanism { name, kind: "device", edits }
}

/// Measurements, and how they are to be simulated.
#[derive(Clone, Debug)]
pub struct Fidelity<'a> {
    /// The measurements: those of configurations that are known.
    pub data: &'a ResultSet,
    /// Device profile of the card.
    pub device: String,
    /// When a row is known well enough.
    pub rule: Rule,
    /// Rows that are simulated at the same time.
    pub jobs: usize,
    /// A folder for work copies of profiles.
    pub work: PathBuf,
}

/// What is told as it goes: what is being done, rows done and all rows of it.
pub type Progress<'p> = &'p mut dyn FnMut(&str, usize, usize);

/// Scores with a mechanism switched off.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Ablation {
    /// Name of the mechanism.
    pub name: &'static str,
    /// How near the profiles come without it.
    pub scores: Vec<GroupScore>,
}

/// The same measurements with one row of `step` of each experiment.
pub fn thinned(data: &ResultSet, step: usize) -> ResultSet {
    let mut data = data.clone();
    for rows in data.configurations.values_mut().flat_map(|tables| tables.experiments.values_mut()) {
        *rows = rows.iter().step_by(step).copied().collect();
    }
    data
}

impl Fidelity<'_> {
    /// The weakest basis of the shipped profiles' figures that the scores rest on.
    pub fn basis(&self) -> Option<Basis> {
        let of = |target: Target<'_>| {
            target.machine.basis(target.measured.experiments.values().flatten().map(|row| row.key.test))
        };
        self.targets().into_iter().filter_map(of).max()
    }

    /// The scores of the profiles that ship.
    ///
    /// # Errors
    /// A row that cannot be simulated.
    pub fn shipped(&self, progress: Progress<'_>) -> Result<Vec<GroupScore>, BenchError> {
        self.scores(&self.targets(), "as shipped", progress)
    }

    /// The scores where each configuration is simulated with a profile that was fitted without it: on what is left of the
    /// same server, from the figures of a server of the same kind where a figure shows in nothing that is left.
    ///
    /// # Errors
    /// A row that cannot be simulated, or a file that cannot be written.
    pub fn configuration_left_out(&self, progress: Progress<'_>) -> Result<Vec<GroupScore>, BenchError> {
        let mut targets = self.targets();
        for (at, (configuration, _)) in self.known().into_iter().enumerate() {
            let file = self.work.join(format!("without-{}.toml", configuration.name));
            let mut profile = sister(configuration.profile)?;
            let own = text("host", configuration.profile)?;
            profile.adopt(&own, &DATA_SHEET)?;
            profile.adopt(&own, &DDIO_SHARE)?;
            let inputs = self.inputs(configuration);
            let of = targets.len();
            // The sister stands for the server: what no row shows is taken from it.
            fit::fit(&inputs, &mut profile, Begun::Own, &self.rule, &file, |_| {
                progress("fits", at, of);
                Ok(())
            })?;
            targets[at].machine.host = file.to_string_lossy().into_owned();
        }
        self.scores(&targets, "left out", progress)
    }

    /// The scores where each server is simulated with nothing of its own but what its data sheet and its records say: the
    /// cache's size, the IOMMU's pages, payload sizes, sockets. Each fitted figure is the median of those of the other
    /// servers of its kind, all else that of a sister server.
    ///
    /// # Errors
    /// A row that cannot be simulated, or a file that cannot be written.
    pub fn server_left_out(&self, progress: Progress<'_>) -> Result<Vec<GroupScore>, BenchError> {
        let mut targets = self.targets();
        for target in &mut targets {
            let server = target.machine.host.clone();
            let file = self.work.join(format!("without-{server}.toml"));
            foreign(&server)?.write(&file)?;
            target.machine.host = file.to_string_lossy().into_owned();
        }
        self.scores(&targets, "server left out", progress)
    }

    /// The scores with `mechanism` switched off.
    ///
    /// # Errors
    /// A row that cannot be simulated, or a file that cannot be written.
    pub fn without(&self, mechanism: &Mechanism, progress: Progress<'_>) -> Result<Ablation, BenchError> {
        let mut targets = self.targets();
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
            let file = self.work.join(format!("mutilated-{name}.toml"));
            profile.write(&file)?;
            *name = file.to_string_lossy().into_owned();
        }
        let scores = self.scores(&targets, mechanism.name, progress)?;
        Ok(Ablation { name: mechanism.name, scores })
    }

    /// Simulates the targets, and scores that.
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

    /// Measurements of the same server, without those of `configuration`.
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

/// Of a server's own, what shows in any of its configurations: the cache's share for devices.
const DDIO_SHARE: [(&str, &str); 1] = [("llc", "ddio_ways")];

/// A profile for `server` that knows nothing of it but its data sheet.
fn foreign(server: &str) -> Result<Profile, BenchError> {
    let mut profile = sister(server)?;
    profile.adopt(&text("host", server)?, &DATA_SHEET)?;
    let others: Vec<Profile> = servers()
        .filter(|other| *other != server && other.starts_with(KIND))
        .map(|other| Profile::parse(&text("host", other)?))
        .collect::<Result<_, BenchError>>()?;
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

/// What the profiles of servers begin with that are alike enough to stand in for each other. A client chip is none of them.
const KIND: &str = "xeon-e5";

/// The profiles of the measured servers, each once.
fn servers() -> impl Iterator<Item = &'static str> {
    let names: BTreeSet<&str> = CONFIGURATIONS.iter().map(|c| c.profile).collect();
    names.into_iter()
}

/// The profile whose figures stand in for those of `server` that nothing shows: that of the next older or newer one of its
/// kind, and where that has one socket, what Broadwell and Ivy Bridge say of the other, each for the other.
fn sister(server: &str) -> Result<Profile, BenchError> {
    let (next, two_sockets) = match server {
        "xeon-e5-2620v3" => ("xeon-e5-2637v3", "xeon-e5-2630v4"),
        "xeon-e5-2620v2" => ("xeon-e5-2620v3", "xeon-e5-2630v4"),
        _ => ("xeon-e5-2620v3", "xeon-e5-2620v2"),
    };
    let mut profile = Profile::parse(&text("host", next)?)?;
    profile.complete(&text("host", two_sockets)?)?;
    Ok(profile)
}

fn text(kind: &str, name: &str) -> Result<String, BenchError> {
    let shelf = if kind == CARDS.kind { &CARDS } else { &HOSTS };
    Ok(shelf.text(name, &Folder::default())?)
}
