// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fit tasks, as users give them: names and paths. They become inputs of [`fit`](super::fit), and their results a report. Prints nothing.

use super::{Begun, Evidence, Fitted, Input, Parameter, Profile, Provenance, known_range};
use crate::BenchError;
use crate::ask::AskError;
use crate::compare::{Comparison, ExperimentComparison};
use crate::configurations::{Configuration, GENERATION, Iommu, PUBLISHED_CARD, SheetLink, Sockets};
use crate::results::{ResultSet, Tables};
use crate::suite::Machine;
use devices::pcie_bench::card;
use lab::Folder;
use lab::profile::{Basis, HOSTS};
use plug::values::{MpsBytes, MrrsBytes};
use serde::Serialize;
use session::table::numbers;
use std::collections::BTreeSet;
use std::fmt::{Display, Formatter};
use std::path::PathBuf;

/// A fit task.
#[derive(Clone, Debug)]
pub struct Task {
    /// Folders of results, all of one server.
    pub data: Vec<PathBuf>,
    /// The host profile to start from; `None`: the configuration's profile, or otherwise the profile of a server with
    /// links of the results' generation.
    pub like: Option<String>,
    /// Description of the server, for the profile.
    pub server: Option<String>,
    /// Device profile of the measuring card.
    pub device: Option<String>,
    /// Mode of the IOMMU (off, 4k, 2m, 1g), for unknown configurations whose results do not give it.
    pub iommu: String,
    /// Sockets of device, memory and program, for such configurations.
    pub sockets: Vec<u8>,
    /// Max_Payload_Size in bytes, for such configurations.
    pub mps: u32,
    /// Max_Read_Request_Size in bytes, for such configurations.
    pub mrrs: u32,
}

/// Inputs of a fit.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The measurements with their machines, all of one server.
    pub inputs: Vec<Input>,
    /// Name of the profile to start from.
    pub like: String,
    /// The profile, to be fitted.
    pub profile: Profile,
    /// Origin of the profile.
    pub begun: Begun,
    /// Contradictions in the results.
    pub warnings: Vec<String>,
}

impl Task {
    /// Reads the results.
    ///
    /// # Errors
    /// Results that cannot be read, results of two servers, or unknown names.
    pub fn prepare(&self) -> Result<Prepared, AskError> {
        let mut warnings = Vec::new();
        let inputs = inputs(self, read(&self.data)?, &mut warnings)?;
        let like = self.like.clone().unwrap_or_else(|| inputs[0].machine.host.clone());
        let profile = Profile::parse(shipped(&like)?).map_err(|e| AskError::Profile(e.to_string()))?;
        let begun = if is_own(&inputs, &like) { Begun::Own } else { Begun::Another };
        for input in &inputs {
            let extrapolated = Machine { host: like.clone(), ..input.machine.clone() }.warnings();
            warnings
                .extend(extrapolated.into_iter().filter(|line| !warnings.contains(line)).collect::<Vec<_>>());
        }
        Ok(Prepared { inputs, like, profile, begun, warnings })
    }
}

/// Returns true if `like` is the profile of the measured server. False for unknown configurations, which have no profile.
fn is_own(inputs: &[Input], like: &str) -> bool {
    inputs.iter().all(|input| Configuration::named(&input.machine.name).is_some_and(|c| c.profile == like))
}

/// Returns the host profile to start from for links of this generation: a profile of a measured server up to Gen3, and
/// a profile with partly assumed figures for newer links.
const fn usual_like(generation: u8) -> &'static str {
    match generation {
        0..=3 => "xeon-e5-2637v3",
        4 => "xeon-gold-6342",
        _ => "xeon-platinum-8480",
    }
}

/// Report of a fit.
#[derive(Serialize)]
pub struct FitReport<'a> {
    /// The profile.
    profile: String,
    /// Device profiles of the measuring cards.
    devices: Vec<&'a str>,
    /// Reasons to doubt figures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    figures: Vec<FigureReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    residuals: Option<&'a Comparison>,
}

#[derive(Serialize)]
struct FigureReport {
    figure: String,
    value_ps: u64,
    /// Whether the data determine it. If not, it is unchanged.
    determined: bool,
    /// Its basis after the fit; absent if the profile has no such figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    basis: Option<Basis>,
    /// Reason why it is unchanged, or the figure with which it was fitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    rows: usize,
    last_step_ns: f64,
    shown_by: &'static str,
    /// Range of the shipped profiles of measured servers, in picoseconds.
    known_ps: Option<(u64, u64)>,
}

impl<'a> FitReport<'a> {
    /// Returns a report on `profile`, which was fitted to `inputs` and is written to `path`.
    pub fn new(
        path: String,
        profile: &Profile,
        inputs: &'a [Input],
        (fitted, warnings): (&[Fitted], Vec<String>),
        residuals: Option<&'a Comparison>,
    ) -> FitReport<'a> {
        let figure = |f: &Fitted| FigureReport {
            figure: f.parameter.name(),
            value_ps: f.value_ps,
            determined: f.evidence.determines(),
            basis: profile.basis(f.parameter),
            reason: f.evidence.reason(f.parameter),
            rows: f.rows,
            last_step_ns: f.last_step_ns,
            shown_by: f.parameter.shown_by(),
            known_ps: known_range(f.parameter),
        };
        let figures = fitted.iter().map(figure).collect();
        FitReport { profile: path, devices: devices(inputs), warnings, figures, residuals }
    }
}

impl FigureReport {
    /// Returns the number of rows, or why the data do not determine the figure.
    fn rows(&self) -> String {
        let ns = |ps: u64| ps as f64 / 1000.0;
        match (self.rows, self.basis, self.known_ps) {
            (1.., ..) => self.rows.to_string(),
            (0, None, _) => "not in the profile".into(),
            (0, _, Some((least, most))) => {
                format!("unchanged; {:.1} to {:.1} on known servers", ns(least), ns(most))
            }
            (0, _, None) => "unchanged".into(),
        }
    }

    fn cells(&self) -> Vec<String> {
        let value = format!("{:.1}", self.value_ps as f64 / 1000.0);
        let step = format!("{:+.2}", self.last_step_ns);
        vec![self.figure.clone(), value, self.rows(), step, self.shown_by.to_owned()]
    }
}

impl FitReport<'_> {
    /// Names of the figures that the data determine, or of the others, separated by commas.
    fn names(&self, determined: bool) -> String {
        let of = self.figures.iter().filter(|f| f.determined == determined).map(|f| f.figure.as_str());
        let names = of.collect::<Vec<_>>().join(", ");
        if names.is_empty() { "none".into() } else { names }
    }
}

impl Display for FitReport<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let heads = ["figure", "ns", "rows", "last step ns", "shown by"];
        writeln!(f, "{}\n", numbers(&heads, self.figures.iter().map(FigureReport::cells)))?;
        writeln!(f, "determined by the data: {}", self.names(true))?;
        writeln!(f, "as before: {}", self.names(false))?;
        if let Some(comparison) = self.residuals {
            let row = |e: &ExperimentComparison| {
                let configuration = crate::score::short_name(&e.configuration).to_owned();
                let errors =
                    [e.mean_absolute_error_percent, e.mean_error_percent].map(|v| format!("{v:+.2}"));
                let [absolute, mean] = errors;
                vec![configuration, e.experiment.clone(), e.rows.to_string(), absolute, mean]
            };
            let heads = ["configuration", "experiment", "rows", "mean |error| %", "mean error %"];
            writeln!(f, "\n{}", numbers(&heads, comparison.experiments.iter().map(row)))?;
        }
        write!(f, "\nmeasured with: {}\nwritten: {}", self.devices.join(", "), self.profile)
    }
}

/// Figures of every server. If the data do not determine one of them, that part of the profile is another server's.
const OF_EVERY_SERVER: [Parameter; 4] =
    [Parameter::RootComplex, Parameter::CoreSnoop, Parameter::Dram, Parameter::Write];

/// Returns doubts about the figures, one per line: those of `prepared`, figures that the data do not determine, and figures that are at a bound or have not
/// settled.
pub fn warnings(prepared: &[String], begun: Begun, fitted: &[Fitted]) -> Vec<String> {
    let undetermined = |f: &&Fitted| match f.evidence {
        Evidence::Rows | Evidence::Absent => false,
        Evidence::Missing => begun == Begun::Another && OF_EVERY_SERVER.contains(&f.parameter),
        Evidence::Together(_) | Evidence::NotApart(_) => true,
    };
    let reason = |f: &Fitted| Some(format!("{}: {}", f.parameter.name(), f.evidence.reason(f.parameter)?));
    let undetermined = fitted.iter().filter(undetermined).filter_map(reason);
    let doubts = fitted.iter().filter_map(|f| Some(format!("{} {}", f.parameter.name(), f.doubt()?)));
    prepared.iter().cloned().chain(undetermined).chain(doubts).collect()
}

/// Reads the results in all folders.
fn read(folders: &[PathBuf]) -> Result<ResultSet, AskError> {
    let mut all = ResultSet::default();
    for folder in folders {
        let mut found = ResultSet::read(folder).map_err(|e| AskError::Profile(e.to_string()))?;
        if let Some(name) = found.configurations.keys().find(|name| all.configurations.contains_key(*name)) {
            return Err(AskError::Profile(format!(
                "{}: an earlier folder has results of {name} too",
                folder.display()
            )));
        }
        all.configurations.append(&mut found.configurations);
    }
    Ok(all)
}

/// Returns the measurements with their machines, all of one server.
fn inputs(task: &Task, data: ResultSet, warnings: &mut Vec<String>) -> Result<Vec<Input>, AskError> {
    let given = Given::of(task)?;
    let inputs: Vec<Input> = data
        .configurations
        .into_iter()
        .map(|(name, tables)| input(task, &given, &name, tables, warnings))
        .collect::<Result<_, _>>()?;
    let Some(first) = inputs.first() else {
        return Err(AskError::Profile("no results".into()));
    };
    let host = |input: &Input| input.tables.settings.as_ref().and_then(|s| s.get("host").cloned());
    let server = |input: &Input| host(input).unwrap_or_else(|| input.machine.host.clone());
    match inputs.iter().find(|input| server(input) != server(first)) {
        Some(other) => Err(AskError::Profile(format!(
            "results of two servers, {} of {} and {} of {}: expected one server",
            first.machine.name,
            server(first),
            other.machine.name,
            server(other)
        ))),
        None => Ok(inputs),
    }
}

/// Options for unknown configurations. They are checked even if all configurations are known.
struct Given {
    iommu: Iommu,
    sockets: Sockets,
    mps_bytes: u32,
    mrrs_bytes: u32,
}

impl Given {
    fn of(task: &Task) -> Result<Given, AskError> {
        let size = |flag: &str, why: plug::values::ValueError| AskError::Wrong(format!("--{flag}: {why}"));
        Ok(Given {
            iommu: task.iommu.parse().map_err(|why| AskError::Wrong(format!("--{why}")))?,
            sockets: sockets(&task.sockets)?,
            mps_bytes: MpsBytes::try_from(i64::from(task.mps)).map_err(|why| size("mps", why))?.0.bytes(),
            mrrs_bytes: MrrsBytes::try_from(i64::from(task.mrrs)).map_err(|why| size("mrrs", why))?.0.bytes(),
        })
    }
}

fn input(
    task: &Task,
    given: &Given,
    name: &str,
    tables: Tables,
    warnings: &mut Vec<String>,
) -> Result<Input, AskError> {
    if let Some(configuration) = Configuration::named(name) {
        let machine = Machine::configuration(configuration, task.device.as_deref().unwrap_or(PUBLISHED_CARD));
        return Ok(Input { machine, tables, cmd_path_valid: configuration.cmd_path_valid });
    }
    let link = tables.link().map_err(|e| AskError::Profile(format!("{name}: {e}")))?;
    let usual = usual_like(link.map_or(GENERATION, |link| link.generation));
    let like = task.like.as_deref().unwrap_or(usual);
    let mut machine = Machine {
        name: name.into(),
        iommu: tables
            .said("iommu")
            .map_or(Ok(given.iommu), str::parse)
            .map_err(|e: BenchError| AskError::Profile(e.to_string()))?,
        sockets: given.sockets,
        mps_bytes: given.mps_bytes,
        mrrs_bytes: given.mrrs_bytes,
        ..Machine::profile(like, &device(task, name, &tables, warnings)?)
    };
    if let Some(link) = link {
        (machine.generation, machine.lanes) = (link.generation, link.lanes);
        (machine.mps_bytes, machine.mrrs_bytes) = (link.mps_bytes, link.mrrs_bytes);
    }
    Ok(Input { machine, tables, cmd_path_valid: true })
}

/// Returns the device profile of the measuring card: the given one, or else the one that a table in the native format names.
fn device(
    task: &Task,
    results: &str,
    tables: &Tables,
    warnings: &mut Vec<String>,
) -> Result<String, AskError> {
    let named = tables.said("device").or_else(|| tables.said("device_profile"));
    match (&task.device, named) {
        (Some(device), Some(named)) if device != named => {
            warnings.push(format!("{results}: measured with device `{named}`, fitted with `{device}`"));
            Ok(device.clone())
        }
        (Some(device), _) => Ok(device.clone()),
        (None, None) => Ok(PUBLISHED_CARD.into()),
        (None, Some(named)) => match card(named, &Folder::default()) {
            Ok(_) => Ok(named.to_owned()),
            Err(why) => Err(AskError::Profile(format!("{results}: {why}; use --device to name the card"))),
        },
    }
}

/// Returns the measuring cards, each once.
fn devices(inputs: &[Input]) -> Vec<&str> {
    let all: BTreeSet<&str> = inputs.iter().map(|input| input.machine.device.as_str()).collect();
    all.into_iter().collect()
}

/// Returns the name of the server in its results: the host that a table names, or the folder.
fn server(input: &Input) -> &str {
    let host = input.tables.settings.as_ref().and_then(|settings| settings.get("host"));
    host.map_or(crate::score::short_name(&input.machine.name), String::as_str)
}

/// Returns the origin of the figures of a fitted profile, and the doubts about them.
pub fn provenance(task: &Task, inputs: &[Input], like: &str, warnings: &[String]) -> Provenance {
    let results: Vec<String> =
        inputs.iter().map(|i| crate::score::short_name(&i.machine.name).to_owned()).collect();
    let servers: BTreeSet<&str> = inputs.iter().map(server).collect();
    let named = servers.into_iter().collect::<Vec<_>>().join(", ");
    let machine = &inputs[0].machine;
    Provenance {
        server: task.server.clone().unwrap_or_else(|| format!("{named}, fitted")),
        results,
        device: devices(inputs).join(", "),
        link: SheetLink {
            generation: machine.generation,
            lanes: machine.lanes,
            mps_bytes: machine.mps_bytes,
            mrrs_bytes: machine.mrrs_bytes,
        },
        like: like.to_owned(),
        is_own: is_own(inputs, like) && task.server.is_none(),
        warnings: warnings.to_vec(),
    }
}

fn sockets(of: &[u8]) -> Result<Sockets, AskError> {
    match *of {
        [device @ 0..=1, memory @ 0..=1, program @ 0..=1] => Ok(Sockets { device, memory, program }),
        _ => Err(AskError::wrong("--sockets: expected three numbers, each 0 or 1: device, memory, program")),
    }
}

fn shipped(name: &str) -> Result<&'static str, AskError> {
    let refused =
        || AskError::wrong(format!("--like {name}: unknown; shipped host profiles: {}", HOSTS.names()));
    HOSTS.get(name).map(|s| s.text).ok_or_else(refused)
}
