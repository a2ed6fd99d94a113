// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A folder of results: the suite's own files, their parameters, and how they are written.
//!
//! The record is written before the files that it lists. A run that ends in between leaves a record of missing files,
//! which the next run measures. So every file has a record.

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

/// Size limit of a record, in bytes.
const MAX_RECORD_BYTES: u64 = 4 << 20;
/// Version of the record format.
const VERSION: u32 = 1;

/// Reason why a suite did not finish.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SuiteError {
    /// A file of the folder may not be replaced: it is not this suite's, or has other parameters.
    #[error("{}: {why}", path.display())]
    InTheWay {
        /// The first such file.
        path: PathBuf,
        /// Reason why it may not be replaced, and the option that allows it.
        why: &'static str,
    },
    /// The suite names an unknown or invalid profile.
    #[error("{0}")]
    Plan(String),
    /// A file could not be read or written.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A row could not be measured.
    #[error("{which}: {error}")]
    Row {
        /// Machine, experiment, and row.
        which: String,
        /// The error of the lab or its run.
        error: BenchError,
    },
}

fn failed(path: &Path, error: &io::Error) -> SuiteError {
    SuiteError::File { path: path.into(), why: error.to_string() }
}

/// Record of the suite's results in a folder.
#[derive(Serialize, Deserialize, Default, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
struct Record {
    version: u32,
    /// Version of riser that wrote it.
    riser: String,
    /// The measured machine, in words.
    machine: BTreeMap<String, String>,
    /// Warnings about figures that are extrapolated on the link, one per line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    /// Finished experiments by name.
    experiments: BTreeMap<String, Entry>,
}

/// A finished experiment.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Digest of all inputs of its figures.
    parameters: String,
    rows: usize,
    /// Samples or transfers of all rows.
    samples: u64,
    /// Weakest basis of the profile figures that its rows depend on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    basis: Option<Basis>,
    /// Digest of each of its files.
    files: BTreeMap<String, String>,
}

/// A folder for results.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    record: Record,
}

/// Permissions of a suite for existing files of an experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Leave {
    /// Measure existing results again.
    pub(super) fresh: bool,
    /// Overwrite files that are not the suite's own.
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

    /// Creates the folder, and checks that files can be created in it.
    pub(super) fn prepare(&self) -> Result<(), SuiteError> {
        let path = self.path.join(format!("{}.part", std::process::id()));
        let made = fs::create_dir_all(&self.path).and_then(|()| fs::File::create(&path));
        made.and_then(|_| fs::remove_file(&path)).map_err(|e| failed(&self.path, &e))
    }

    /// Returns true if all files of the experiment exist with the same parameters and may stay.
    ///
    /// # Errors
    /// A file that may not be replaced.
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
                let why = "exists and is not of this suite: --force overwrites it";
                return Err(SuiteError::InTheWay { path, why });
            }
            let same = entry.is_some_and(|e| e.parameters == parameters);
            if own && !same && !leave.fresh && !leave.force {
                let why = "was measured with other parameters: --fresh measures it again";
                return Err(SuiteError::InTheWay { path, why });
            }
            if !own || !same || leave.fresh {
                check_writable(&path)?;
                return Ok(false);
            }
        }
        Ok(there == files.len())
    }

    /// Writes the files of an experiment, each atomically.
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

/// Writes the text to a temporary file next to `path`.
fn part(path: &Path, text: &str) -> Result<PathBuf, SuiteError> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".part");
    let part = path.with_file_name(name);
    let written = fs::File::create(&part).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|e| {
        // Remove the incomplete file.
        let _ = fs::remove_file(&part);
        failed(path, &e)
    })?;
    Ok(part)
}

/// A user who may write to the folder could otherwise replace a file that they may not write.
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
        serde_json::from_str(&text).map_err(|e| bad(format!("not a record of a suite: {e}")))?;
    match record.version {
        VERSION => Ok(Some(record)),
        other => Err(bad(format!("version {other}: expected version {VERSION}"))),
    }
}

/// Returns the digest of a file; `None` if it does not exist.
fn digest_of(path: &Path) -> Result<Option<String>, SuiteError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(digest(&bytes))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(failed(path, &e)),
    }
}
