// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser fit`: a host profile fitted to measurements, by `riser-bench`. Never decides what a row shows.

use crate::failure::Failure;
use crate::output;
use crate::outputs::{Outputs, WorkFile};
use crate::progress;
use bench::compare::Comparison;
use bench::configurations::{Configuration, Iommu, Sockets};
use bench::fit::{self, Fitted, Input, Profile, Provenance};
use bench::results::sheet::SheetLink;
use bench::results::{ResultSet, Tables};
use bench::suite::{Machine, Rule};
use clap::builder::RangedU64ValueParser;
use devices::pcie_bench::card;
use lab::Folder;
use lab::profile::HOSTS;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  riser fit measured/ -o my-server.toml
  riser fit measured/*E5-2620v3* -o e5-2620v3.toml
  riser fit measured/ -o my-server.toml --like xeon-e5-2637v3 --iommu 4k
  riser bench --suite full --format pcie-bench --host my-server.toml -o predicted/
  riser compare measured/ predicted/

DIR holds results of one server in pcie-bench's public form: EXPERIMENT.csv, or CONFIGURATION/EXPERIMENT.csv; or a table as \
`riser bench -o` writes it, which says itself what its link and its card were. For several modes of the server give several. Configurations of the \
published data are known by the names of their folders; of others, --iommu, --sockets, --mps and --mrrs say what they were measured on.

The profile begins as that of --like. What no row shows stays, and says whose it is; description and head are of the server that was \
fitted. Each figure is fitted on the rows in which it is alone once those before it are known: nine on latencies, and the two gaps \
of completions on bandwidths of reads, where there are any. Of a figure that no row shows it is said how far the known servers are \
apart in it; where no row shows any figure, nothing is written. A figure at its bound, and one that has not settled, are told with \
a warning. The residuals are of every row, most bandwidths among them, which nothing was fitted on.

--json prints one object: profile, devices, warnings where there are any, figures: [{figure, value_ps, rows, last_step_ns, shown_by, known_ps: [least, greatest]}], and residuals as `riser compare \
--json` has them.";

/// Fit a host profile to results of a server
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Results of one server
    #[arg(value_name = "DIR", required = true)]
    data: Vec<PathBuf>,

    /// The profile to be written
    #[arg(short, long, value_name = "PROFILE.toml")]
    output: PathBuf,

    /// The host profile to begin with: one that ships. Default: that of the configuration, or else xeon-e5-2637v3
    #[arg(long, value_name = "PROFILE")]
    like: Option<String>,

    /// What the server is, for the profile's description. Default: the names of its results
    #[arg(long, value_name = "TEXT")]
    server: Option<String>,

    /// Device profile of the card that measured. Default: that which a table of `riser bench -o` names; of the public form nfp6000
    #[arg(long, value_name = "PROFILE")]
    device: Option<String>,

    /// The IOMMU's mode, of configurations that are not known: off, 4k, 2m
    #[arg(long, value_name = "MODE", default_value = "off")]
    iommu: String,

    /// Sockets of device, memory and program, of configurations that are not known
    #[arg(long, value_name = "D,M,P", value_delimiter = ',', default_values_t = [0, 0, 0])]
    sockets: Vec<u8>,

    /// Max_Payload_Size in bytes, of configurations that are not known
    #[arg(long, value_name = "BYTES", default_value_t = 256)]
    mps: u32,

    /// Max_Read_Request_Size in bytes, of configurations that are not known
    #[arg(long, value_name = "BYTES", default_value_t = 512)]
    mrrs: u32,

    /// Rows that are simulated at the same time for the residuals
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = RangedU64ValueParser::<usize>::new().range(1..=256))]
    jobs: usize,

    /// Leave the residuals out: they take most of the time
    #[arg(long)]
    no_residuals: bool,

    /// Overwrite the profile
    #[arg(long)]
    force: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    profile: String,
    /// Device profiles of the cards that measured.
    devices: Vec<&'a str>,
    /// What makes figures doubtful.
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
    rows: usize,
    last_step_ns: f64,
    shown_by: &'static str,
    /// On the servers whose profiles ship.
    known_ps: Option<(u64, u64)>,
}

pub(super) fn run(args: Args) -> Result<(), Failure> {
    let inputs = inputs(&args, read(&args.data)?)?;
    let like = args.like.clone().unwrap_or_else(|| inputs[0].machine.host.clone());
    let mut profile = Profile::parse(shipped(&like)?).map_err(Failure::Run)?;
    let mut outputs = Outputs::new(args.force);
    args.data.iter().for_each(|folder| outputs.reads(folder));
    let mut out = outputs.claim("-o", &args.output)?.open()?;
    let work = WorkFile::new().map_err(|e| Failure::Run(format!("a work copy of the profile: {e}")))?;
    let rule = Rule::quick();
    let bar = progress::spinner("{spinner} fitting, {elapsed}: {msg}");
    let fitted = fit::fit(&inputs, &mut profile, &rule, work.path(), |f| {
        bar.set_message(format!("{} {} ns", name(f), f.value_ps as f64 / 1000.0));
        bar.tick();
    });
    bar.finish_and_clear();
    let fitted = fitted.map_err(Failure::Run)?;
    if let Some(why) = fit::nothing_shown(&fitted) {
        return Err(Failure::Run(format!("{}: {why}", paths(&args.data))));
    }
    profile.attribute(&provenance(&args, &inputs, &like), &fitted);
    out.write_all(profile.text().as_bytes()).map_err(|e| out.failed(&e))?;
    out.finish()?;
    let residuals = match args.no_residuals {
        true => None,
        false => Some(residuals(&args, &inputs, &rule, work.path())?),
    };
    let told = Told { args: &args, inputs: &inputs, fitted: &fitted, residuals: residuals.as_ref() };
    output::warn(&told.warnings());
    if args.json { told.json() } else { told.print() }
}

fn paths(of: &[PathBuf]) -> String {
    of.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// The results in all folders.
fn read(folders: &[PathBuf]) -> Result<ResultSet, Failure> {
    let mut all = ResultSet::default();
    for folder in folders {
        let mut found = ResultSet::read(folder).map_err(|e| Failure::Run(e.to_string()))?;
        if let Some(name) = found.configurations.keys().find(|name| all.configurations.contains_key(*name)) {
            return Err(Failure::Run(format!("{}: there are results of {name} before", folder.display())));
        }
        all.configurations.append(&mut found.configurations);
    }
    Ok(all)
}

/// The measurements with what they were made on: all of one server.
fn inputs(args: &Args, data: ResultSet) -> Result<Vec<Input>, Failure> {
    let inputs: Vec<Input> = data
        .configurations
        .into_iter()
        .map(|(name, tables)| input(args, &name, tables))
        .collect::<Result<_, _>>()?;
    let Some(first) = inputs.first() else {
        return Err(Failure::Run("there are no results".into()));
    };
    let host = |input: &Input| input.tables.settings.as_ref().and_then(|s| s.get("host").cloned());
    let server = |input: &Input| host(input).unwrap_or_else(|| input.machine.host.clone());
    match inputs.iter().find(|input| server(input) != server(first)) {
        Some(other) => Err(Failure::Run(format!(
            "results of two servers, {} of {} and {} of {}: give those of one",
            first.machine.name,
            server(first),
            other.machine.name,
            server(other)
        ))),
        None => Ok(inputs),
    }
}

fn input(args: &Args, name: &str, tables: Tables) -> Result<Input, Failure> {
    if let Some(configuration) = Configuration::named(name) {
        let machine = Machine::configuration(configuration, args.device.as_deref().unwrap_or(PUBLISHED_CARD));
        return Ok(Input { machine, tables, cmd_path_valid: configuration.cmd_path_valid });
    }
    let like = args.like.as_deref().unwrap_or("xeon-e5-2637v3");
    let mut machine = Machine {
        name: name.into(),
        iommu: iommu(&args.iommu)?,
        sockets: sockets(&args.sockets)?,
        mps_bytes: args.mps,
        mrrs_bytes: args.mrrs,
        ..Machine::profile(like, &device(args, name, &tables)?)
    };
    if let Some(link) = tables.link().map_err(|e| Failure::Run(format!("{name}: {e}")))? {
        (machine.generation, machine.lanes) = (link.generation, link.lanes);
        (machine.mps_bytes, machine.mrrs_bytes) = (link.mps_bytes, link.mrrs_bytes);
    }
    Ok(Input { machine, tables, cmd_path_valid: true })
}

/// The card of the published results.
const PUBLISHED_CARD: &str = "nfp6000";

/// Device profile of the card that measured: as it was said, or else as a table of riser's own names it.
fn device(args: &Args, results: &str, tables: &Tables) -> Result<String, Failure> {
    let named = tables.settings.as_ref().and_then(|settings| settings.get("device"));
    match (&args.device, named) {
        (Some(device), Some(named)) if device != named => {
            output::warn(&[format!("{results}: measured with device `{named}`, fitted with `{device}`")]);
            Ok(device.clone())
        }
        (Some(device), _) => Ok(device.clone()),
        (None, None) => Ok(PUBLISHED_CARD.into()),
        (None, Some(named)) => match card(named, &Folder::default()) {
            Ok(_) => Ok(named.clone()),
            Err(why) => Err(Failure::Run(format!("{results}: {why}; --device says which card it is"))),
        },
    }
}

/// The cards that measured, each once.
fn devices(inputs: &[Input]) -> Vec<&str> {
    let all: BTreeSet<&str> = inputs.iter().map(|input| input.machine.device.as_str()).collect();
    all.into_iter().collect()
}

/// What the server is called in its results: the host that a table names, or the folder.
fn server(input: &Input) -> &str {
    let host = input.tables.settings.as_ref().and_then(|settings| settings.get("host"));
    host.map_or(bench::score::short_name(&input.machine.name), String::as_str)
}

fn provenance(args: &Args, inputs: &[Input], like: &str) -> Provenance {
    let results: Vec<String> =
        inputs.iter().map(|i| bench::score::short_name(&i.machine.name).to_owned()).collect();
    let servers: BTreeSet<&str> = inputs.iter().map(server).collect();
    let named = servers.into_iter().collect::<Vec<_>>().join(", ");
    // Of configurations that are not known, the machine has the profile that was begun with for want of its own.
    let is_own = inputs.iter().all(|input| {
        Configuration::named(&input.machine.name).is_some_and(|configuration| configuration.profile == like)
    });
    let machine = &inputs[0].machine;
    Provenance {
        server: args.server.clone().unwrap_or_else(|| format!("{named}, fitted")),
        results,
        device: devices(inputs).join(", "),
        link: SheetLink {
            generation: machine.generation,
            lanes: machine.lanes,
            mps_bytes: machine.mps_bytes,
            mrrs_bytes: machine.mrrs_bytes,
        },
        like: like.to_owned(),
        is_own: is_own && args.server.is_none(),
    }
}

fn iommu(mode: &str) -> Result<Iommu, Failure> {
    let modes = [Iommu::Off, Iommu::Pages4k, Iommu::Pages2m];
    let found = modes.into_iter().find(|m| m.in_labs() == mode);
    found.ok_or_else(|| Failure::usage(format!("--iommu {mode}: legal are off, 4k, 2m")))
}

fn sockets(of: &[u8]) -> Result<Sockets, Failure> {
    match *of {
        [device @ 0..=1, memory @ 0..=1, program @ 0..=1] => Ok(Sockets { device, memory, program }),
        _ => Err(Failure::usage("--sockets: legal are three numbers, each 0 or 1: device, memory, program")),
    }
}

fn shipped(name: &str) -> Result<&'static str, Failure> {
    let refused =
        || Failure::usage(format!("--like {name}: the host profiles that ship are {}", HOSTS.names()));
    HOSTS.get(name).map(|s| s.text).ok_or_else(refused)
}

fn residuals(args: &Args, inputs: &[Input], rule: &Rule, profile: &Path) -> Result<Comparison, Failure> {
    let bar = progress::bar("{pos}/{len} rows for the residuals, {eta} left {wide_bar}");
    let compared = fit::residuals(inputs, rule, profile, args.jobs, &mut |done, of| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    compared.map_err(Failure::Run)
}

/// A figure as a profile has it.
fn name(fitted: &Fitted) -> String {
    match fitted.parameter.place() {
        (Some(table), key) => format!("{table}.{key}"),
        (None, key) => key.into(),
    }
}

/// How sure a figure is that no row shows.
fn unseen(fitted: &Fitted) -> String {
    let ns = |ps: u64| ps as f64 / 1000.0;
    match fit::known_range(fitted.parameter) {
        Some((least, most)) => {
            format!("none: as it was; {:.1} to {:.1} on known servers", ns(least), ns(most))
        }
        None => "none: as it was".into(),
    }
}

/// What is told of a fit.
struct Told<'a> {
    args: &'a Args,
    inputs: &'a [Input],
    fitted: &'a [Fitted],
    residuals: Option<&'a Comparison>,
}

impl Told<'_> {
    /// What makes figures doubtful, a line each.
    fn warnings(&self) -> Vec<String> {
        self.fitted.iter().filter_map(|f| Some(format!("{} {}", name(f), f.doubt()?))).collect()
    }

    fn json(&self) -> Result<(), Failure> {
        let figure = |f: &Fitted| FigureReport {
            figure: name(f),
            value_ps: f.value_ps,
            rows: f.rows,
            last_step_ns: f.last_step_ns,
            shown_by: f.parameter.shown_by(),
            known_ps: fit::known_range(f.parameter),
        };
        output::json(&Report {
            profile: self.args.output.display().to_string(),
            devices: devices(self.inputs),
            warnings: self.warnings(),
            figures: self.fitted.iter().map(figure).collect(),
            residuals: self.residuals,
        })
    }

    fn print(&self) -> Result<(), Failure> {
        let row = |f: &Fitted| {
            let rows = if f.rows == 0 { unseen(f) } else { f.rows.to_string() };
            let value = format!("{:.1}", f.value_ps as f64 / 1000.0);
            vec![name(f), value, rows, format!("{:+.2}", f.last_step_ns), f.parameter.shown_by().to_owned()]
        };
        output::table(&["figure", "ns", "rows", "last step ns", "shown by"], self.fitted.iter().map(row))?;
        if let Some(comparison) = self.residuals {
            output::text("")?;
            let row = |e: &bench::compare::ExperimentComparison| {
                let configuration = bench::score::short_name(&e.configuration).to_owned();
                let errors =
                    [e.mean_absolute_error_percent, e.mean_error_percent].map(|v| format!("{v:+.2}"));
                let [absolute, mean] = errors;
                vec![configuration, e.experiment.clone(), e.rows.to_string(), absolute, mean]
            };
            let heads = ["configuration", "experiment", "rows", "mean |error| %", "mean error %"];
            output::table(&heads, comparison.experiments.iter().map(row))?;
        }
        output::text(&format!("\nmeasured with: {}", devices(self.inputs).join(", ")))?;
        output::text(&format!("written: {}", self.args.output.display()))
    }
}
