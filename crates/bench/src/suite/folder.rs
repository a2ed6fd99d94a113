// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A folder of results: which of its files are the suite's own, what they were measured with, and how they get there.
//!
//! The record is written before the files that it names; so a run that ends between the two leaves a record of files that
//! are not there, which the next run makes, and never a file that nothing is known of.

use super::Machine;
use crate::BenchError;
use crate::results::RECORD;
use lab::profile::Basis;
use plug::file::digest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Bytes of a record that is read at most.
const MAX_RECORD_BYTES: u64 = 4 << 20;
/// Version of the record's form.
const VERSION: u32 = 1;

/// Why a suite came to no end.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SuiteError {
    /// Files of the folder stand in the way: they are not this suite's, or were made otherwise.
    #[error("{}: {why}", path.display())]
    InTheWay {
        /// The first of these files.
        path: PathBuf,
        /// Why it may not be replaced, and which flag allows it.
        why: &'static str,
    },
    /// The suite names a profile that is not there, or not legal.
    #[error("{0}")]
    Plan(String),
    /// A file cannot be read or written.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A row cannot be measured.
    #[error("{which}: {error}")]
    Row {
        /// Machine, experiment, and row.
        which: String,
        /// What the lab or its run says.
        error: BenchError,
    },
}

fn failed(path: &Path, error: &io::Error) -> SuiteError {
    SuiteError::File { path: path.into(), why: error.to_string() }
}

/// What a folder holds of the suite.
#[derive(Serialize, Deserialize, Default, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
struct Record {
    version: u32,
    /// Version of the riser that made it.
    riser: String,
    /// What was measured, in words.
    machine: BTreeMap<String, String>,
    /// Warnings of figures that are extrapolated on the link, one per line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    /// What is done, by name of the experiment.
    experiments: BTreeMap<String, Entry>,
}

/// An experiment that is done.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Digest of all that its figures depend on.
    parameters: String,
    rows: usize,
    /// Samples or transfers of all rows.
    samples: u64,
    /// How the figures of the profiles are known that its rows rest on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    basis: Option<Basis>,
    /// Digest of each of its files.
    files: BTreeMap<String, String>,
}

/// A folder that results go to.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    record: Record,
}

/// What a suite may do about the files of an experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Leave {
    /// Measure anew what is there.
    pub(super) fresh: bool,
    /// Write over files that are not the suite's own.
    pub(super) force: bool,
}

impl Folder {
    /// Opens the folder at `path`, which may be missing, for results of `measured`.
    pub(super) fn open(path: PathBuf, measured: &Machine) -> Result<Folder, SuiteError> {
        let old = read_record(&path.join(RECORD))?;
        let experiments = old.map(|old| old.experiments).unwrap_or_default();
        let riser = env!("CARGO_PKG_VERSION").to_owned();
        let (machine, warnings) = (measured.in_words(), measured.warnings());
        Ok(Folder { path, record: Record { version: VERSION, riser, machine, warnings, experiments } })
    }

    /// Makes the folder, and checks that files can be made in it.
    pub(super) fn prepare(&self) -> Result<(), SuiteError> {
        let path = self.path.join(format!("{}.part", std::process::id()));
        let made = fs::create_dir_all(&self.path).and_then(|()| fs::File::create(&path));
        made.and_then(|_| fs::remove_file(&path)).map_err(|e| failed(&self.path, &e))
    }

    /// True where the experiment's files are all there, made with the same parameters, and may stay.
    ///
    /// # Errors
    /// Where a file stands in the way.
    pub(super) fn has(
        &self,
        experiment: &str,
        parameters: &str,
        files: &[String],
        leave: Leave,
    ) -> Result<bool, SuiteError> {
        let entry = self.record.experiments.get(experiment);
        let mut there = 0;
        for file in files {
            let path = self.path.join(file);
            let Some(digest) = digest_of(&path)? else { continue };
            there += 1;
            let own = entry.is_some_and(|e| e.files.get(file) == Some(&digest));
            if !own && !leave.force {
                let why = "is there, and not of this suite: --force overwrites it";
                return Err(SuiteError::InTheWay { path, why });
            }
            let same = entry.is_some_and(|e| e.parameters == parameters);
            if own && !same && !leave.fresh && !leave.force {
                let why = "was measured with other parameters: --fresh measures it anew";
                return Err(SuiteError::InTheWay { path, why });
            }
            if !own || !same || leave.fresh {
                check_writable(&path)?;
                return Ok(false);
            }
        }
        Ok(there == files.len())
    }

    /// Writes the files of an experiment, each in one step.
    pub(super) fn write(
        &mut self,
        experiment: &str,
        parameters: &str,
        (rows, samples): (usize, u64),
        basis: Basis,
        files: &[(String, String)],
    ) -> Result<(), SuiteError> {
        fs::create_dir_all(&self.path).map_err(|e| failed(&self.path, &e))?;
        let digests = files.iter().map(|(name, text)| (name.clone(), digest(text.as_bytes()))).collect();
        let entry =
            Entry { parameters: parameters.into(), rows, samples, basis: Some(basis), files: digests };
        let parts: Vec<PathBuf> =
            files.iter().map(|(name, text)| part(&self.path.join(name), text)).collect::<Result<_, _>>()?;
        self.record.experiments.insert(experiment.into(), entry);
        self.write_record()?;
        for (part, (name, _)) in parts.iter().zip(files) {
            let path = self.path.join(name);
            fs::rename(part, &path).map_err(|e| failed(&path, &e))?;
        }
        Ok(())
    }

    fn write_record(&self) -> Result<(), SuiteError> {
        let path = self.path.join(RECORD);
        let text = serde_json::to_string_pretty(&self.record);
        let text = text.map_err(|e| SuiteError::File { path: path.clone(), why: e.to_string() })?;
        let part = part(&path, &format!("{text}\n"))?;
        fs::rename(&part, &path).map_err(|e| failed(&path, &e))
    }
}

/// The text on disk, beside the file that it becomes.
fn part(path: &Path, text: &str) -> Result<PathBuf, SuiteError> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".part");
    let part = path.with_file_name(name);
    let written = fs::File::create(&part).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|e| {
        // What is not whole is of no use to anybody.
        let _ = fs::remove_file(&part);
        failed(path, &e)
    })?;
    Ok(part)
}

/// Who may write to a folder could put another file in place of one that is not theirs to write.
fn check_writable(path: &Path) -> Result<(), SuiteError> {
    fs::OpenOptions::new().write(true).open(path).map(drop).map_err(|e| failed(path, &e))
}

fn read_record(path: &Path) -> Result<Option<Record>, SuiteError> {
    let mut text = String::new();
    match fs::File::open(path) {
        Ok(file) => file.take(MAX_RECORD_BYTES).read_to_string(&mut text).map_err(|e| failed(path, &e))?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(path, &e)),
    };
    let bad = |why: String| SuiteError::File { path: path.into(), why };
    let record: Record =
        serde_json::from_str(&text).map_err(|e| bad(format!("no record of a suite: {e}")))?;
    match record.version {
        VERSION => Ok(Some(record)),
        other => Err(bad(format!("version {other}: this riser reads version {VERSION}"))),
    }
}

/// The digest of a file that is there.
fn digest_of(path: &Path) -> Result<Option<String>, SuiteError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(digest(&bytes))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(failed(path, &e)),
    }
}
