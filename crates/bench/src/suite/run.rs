// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a whole suite: rows in parallel jobs, and each file when it is complete.

use super::figures::sample_line;
use super::folder::{Folder, Leave, SuiteError};
use super::machine::Machine;
use super::measure::{Measured, Task};
use super::rule::Rule;
use crate::BenchError;
use crate::experiments::{Experiment, Key};
use crate::jobs::for_each;
use crate::results::{Figures, RECORD, ResultRow, write};
use lab::profile::Basis;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Additional files of experiments whose distributions are kept, next to their tables and distributions (`_cdf`). The published data have no such files; the
/// format is riser's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extra {
    /// `NAME_hist.csv`: `cycles,ns,count`, for one row of the experiment after the other.
    pub histograms: bool,
    /// `NAME_ts.csv`: `cycles,ns` of every sample in order, for one row of the experiment after the other. Each row starts with a line `row,NUMBER`, from 1.
    pub time_series: bool,
}

/// A suite to run.
#[derive(Clone, Debug)]
pub struct Suite {
    /// The machines. Each has a folder of its name.
    pub machines: Vec<Machine>,
    /// The experiments.
    pub experiments: Vec<&'static Experiment>,
    /// Rule that ends a row.
    pub rule: Rule,
    /// Additional files.
    pub extra: Extra,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Number of rows measured in parallel, one thread each; at least 1.
    pub jobs: usize,
    /// Parent folder of the machines' folders.
    pub folder: PathBuf,
    /// Measure existing results again.
    pub fresh: bool,
    /// Overwrite files that are not the suite's own.
    pub force: bool,
}

/// Progress of a suite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress<'a> {
    /// Rows measured so far, by this run.
    pub rows: usize,
    /// Rows to be measured by this run.
    pub all_rows: usize,
    /// Name of the machine of the last row.
    pub machine: &'a str,
    /// Name of the experiment of the last row.
    pub experiment: &'a str,
}

/// Result of a suite.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Rows measured.
    pub rows: usize,
    /// Samples and transfers of these rows.
    pub samples: u64,
    /// Experiments written.
    pub written: usize,
    /// Experiments that existed already.
    pub kept: usize,
    /// Experiments that an interrupted suite did not finish.
    pub left: usize,
}

/// An unfinished experiment on a machine.
struct Item<'a> {
    machine: usize,
    experiment: &'static Experiment,
    parameters: String,
    rows: Vec<Key>,
    measured: Vec<Option<Measured>>,
    missing: usize,
    files: Files<'a>,
}

/// The files of an experiment.
#[derive(Clone, Copy)]
struct Files<'a> {
    experiment: &'static Experiment,
    extra: &'a Extra,
}

/// Result of a row, with its item and place; `None`: it was cancelled.
type Done = ((usize, usize), Result<Option<Measured>, BenchError>);

impl Suite {
    /// Measures and writes the missing experiments. Ends soon after `cancel` is set, with all complete files written.
    ///
    /// # Errors
    /// Before the first measurement: an invalid profile, or a file that may not be replaced. Later: a file that cannot
    /// be written, or the first row that cannot be measured. Files that are already complete stay.
    pub fn run(
        &self,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<Outcome, SuiteError> {
        let mut outcome = Outcome::default();
        let mut folders = self.open_folders()?;
        let mut items = self.items(&folders, &mut outcome)?;
        let tasks: Vec<(usize, usize)> = items
            .iter()
            .enumerate()
            .flat_map(|(i, item)| (0..item.rows.len()).map(move |row| (i, row)))
            .collect();
        let work: Vec<Task<'_>> = tasks.iter().map(|(item, row)| self.task(&items[*item], *row)).collect();
        let all_rows = work.len();
        let mut rows = 0;
        for_each(
            all_rows,
            self.jobs,
            |at| work[at].measure(cancel),
            |at, result| {
                rows += 1;
                if let Some(item) = self.take((tasks[at], result), &mut items, &mut folders, &mut outcome)? {
                    let (machine, experiment) =
                        (&self.machines[items[item].machine].name, items[item].experiment.name);
                    progress(&Progress { rows, all_rows, machine, experiment });
                }
                Ok(())
            },
        )?;
        outcome.left = items.iter().filter(|i| i.missing > 0).count();
        Ok(outcome)
    }

    /// Returns the files that a run writes or has written before.
    pub fn files(&self) -> Vec<PathBuf> {
        let of = |machine: &Machine| {
            let files = self
                .experiments
                .iter()
                .flat_map(|&experiment| Files { experiment, extra: &self.extra }.names());
            let folder = self.folder.join(&machine.name);
            files.chain([RECORD.to_owned()]).map(move |file| folder.join(file)).collect::<Vec<_>>()
        };
        self.machines.iter().flat_map(of).collect()
    }

    fn open_folders(&self) -> Result<Vec<Folder>, SuiteError> {
        let open = |m: &Machine| Folder::open(self.folder.join(&m.name), m);
        self.machines.iter().map(open).collect()
    }

    /// Returns the experiments to measure. Counts the experiments that exist already.
    fn items<'a>(&'a self, folders: &[Folder], outcome: &mut Outcome) -> Result<Vec<Item<'a>>, SuiteError> {
        let leave = Leave { fresh: self.fresh, force: self.force };
        let mut items = Vec::new();
        for (machine, folder) in folders.iter().enumerate() {
            let texts =
                self.machines[machine].profile_texts().map_err(|e| SuiteError::Plan(e.to_string()))?;
            for experiment in &self.experiments {
                let rows = experiment.rows();
                let files = Files { experiment, extra: &self.extra };
                let parameters = self.parameters(machine, experiment, &rows, &texts);
                if folder.has(experiment.name, &parameters, &files.names(), leave)? {
                    outcome.kept += 1;
                    continue;
                }
                let missing = rows.len();
                let measured = rows.iter().map(|_| None).collect();
                items.push(Item { machine, experiment, parameters, rows, measured, missing, files });
            }
            if items.last().is_some_and(|item| item.machine == machine) {
                folder.prepare()?;
            }
        }
        Ok(items)
    }

    /// Returns a digest of all inputs of an experiment's figures.
    fn parameters(
        &self,
        machine: usize,
        experiment: &Experiment,
        rows: &[Key],
        texts: &[String; 2],
    ) -> String {
        let rows: Vec<String> = rows.iter().map(Key::to_string).collect();
        let words = self.machines[machine].in_words();
        let all = (env!("CARGO_PKG_VERSION"), &words, texts, &self.rule, self.seed, experiment.name, rows);
        plug::file::digest(format!("{all:?}").as_bytes())
    }

    fn task(&self, item: &Item<'_>, row: usize) -> Task<'_> {
        let seed = format!("{} {} {}", self.seed, item.experiment.name, row);
        Task {
            machine: &self.machines[item.machine],
            key: item.rows[row],
            rule: &self.rule,
            detail: item.experiment.has_distribution(),
            seed: plug::file::hash(seed.as_bytes()),
        }
    }

    /// Takes the result of a row. Writes the experiment if this was its last row. Returns the item if the row was
    /// measured.
    fn take(
        &self,
        ((at, row), result): Done,
        items: &mut [Item<'_>],
        folders: &mut [Folder],
        outcome: &mut Outcome,
    ) -> Result<Option<usize>, SuiteError> {
        let item = &mut items[at];
        let which =
            || format!("{}, {}, {}", self.machines[item.machine].name, item.experiment.name, item.rows[row]);
        let Some(measured) = result.map_err(|error| SuiteError::Row { which: which(), error })? else {
            return Ok(None);
        };
        outcome.rows += 1;
        outcome.samples += samples(&measured.row);
        item.measured[row] = Some(measured);
        item.missing -= 1;
        if item.missing == 0 {
            let all: Vec<Measured> = item.measured.iter_mut().filter_map(Option::take).collect();
            let samples = all.iter().map(|m| samples(&m.row)).sum();
            let (name, files) = (item.experiment.name, item.files.texts(&all));
            let basis = self.machines[item.machine].basis_of(item.experiment);
            folders[item.machine].write(name, &item.parameters, (all.len(), samples), basis, &files)?;
            outcome.written += 1;
        }
        Ok(Some(at))
    }
}

fn samples(row: &ResultRow) -> u64 {
    match &row.figures {
        Figures::Latency(figures) => figures.samples,
        Figures::Bandwidth(figures) => figures.transactions,
    }
}

impl Files<'_> {
    fn name(&self, suffix: &str) -> String {
        format!("{}{suffix}.csv", self.experiment.name)
    }

    fn names(&self) -> Vec<String> {
        let detail = self.experiment.has_distribution();
        let kinds = [
            ("", true),
            ("_cdf", detail),
            ("_hist", detail && self.extra.histograms),
            ("_ts", detail && self.extra.time_series),
        ];
        kinds.into_iter().filter(|(_, wanted)| *wanted).map(|(suffix, _)| self.name(suffix)).collect()
    }

    /// Returns the files by name.
    fn texts(&self, all: &[Measured]) -> Vec<(String, String)> {
        let text = |name: String| {
            let text = match name.strip_prefix(self.experiment.name) {
                Some("_cdf.csv") => cdf(all),
                Some("_hist.csv") => histograms(all),
                Some("_ts.csv") => time_series(all),
                _ => write::table(&all.iter().map(|m| m.row).collect::<Vec<_>>()),
            };
            (name, text)
        };
        self.names().into_iter().map(text).collect()
    }
}

fn cdf(all: &[Measured]) -> String {
    let series: Vec<_> = all.iter().map(|m| m.histogram.distribution()).collect();
    write::distributions(series.iter().map(Vec::as_slice))
}

fn histograms(all: &[Measured]) -> String {
    let lines = all.iter().flat_map(|m| m.histogram.lines());
    std::iter::once("cycles,ns,count\r\n".to_owned()).chain(lines).collect()
}

fn time_series(all: &[Measured]) -> String {
    let row = |(number, m): (usize, &Measured)| {
        let lines: String = m.series.iter().map(|cycles| sample_line(*cycles)).collect();
        format!("row,{}\r\n{lines}", number + 1)
    };
    std::iter::once("cycles,ns\r\n".to_owned()).chain(all.iter().enumerate().map(row)).collect()
}

impl Suite {
    /// Returns the weakest basis of the profile figures that each experiment depends on, in alphabetical order of the experiments.
    pub fn bases(&self) -> Vec<(&'static str, Basis)> {
        let of = |e: &Experiment| self.machines.iter().map(|machine| machine.basis_of(e)).max();
        let mut bases: Vec<_> = self.experiments.iter().filter_map(|e| Some((e.name, of(e)?))).collect();
        bases.sort_unstable();
        bases
    }
}

impl Machine {
    /// Returns the weakest basis of the profile figures that an experiment depends on.
    fn basis_of(&self, experiment: &Experiment) -> Basis {
        self.basis(experiment.rows().into_iter().map(|row| row.test)).unwrap_or(Basis::Assumed)
    }

    /// Returns the whole machine in words, for records.
    pub(super) fn in_words(&self) -> BTreeMap<String, String> {
        let sockets = &self.sockets;
        let words: [(&str, String); 12] = [
            ("name", self.name.clone()),
            ("host_profile", self.host.clone()),
            ("device_profile", self.device.clone()),
            ("iommu", self.iommu.to_string()),
            ("buffer_pages", self.pages.name().to_owned()),
            ("device_socket", sockets.device.to_string()),
            ("memory_socket", sockets.memory.to_string()),
            ("program_socket", sockets.program.to_string()),
            ("mps_bytes", self.mps_bytes.to_string()),
            ("mrrs_bytes", self.mrrs_bytes.to_string()),
            ("gen", self.generation.to_string()),
            ("lanes", self.lanes.to_string()),
        ];
        words.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}
