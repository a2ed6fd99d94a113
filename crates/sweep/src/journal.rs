// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The journal of a sweep: a file to which records are added as they come, so that no point is run twice. Never rewrites what stands
//! in it.
//!
//! The first line says which sweep it is of, each further one is a record. A line is a checksum of its text (FNV-1a, 64 bits, in
//! hexadecimal), a blank, and its text, one object of JSON. A last line that is not whole was being written when the sweep ended: it
//! counts as not written.

use crate::record::Record;
use plug::file::digest;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The version of the format.
const VERSION: u32 = 1;
/// Signs of a checksum.
const SUM: usize = 16;

/// What a journal begins with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The version of the format: 1.
    pub riser_sweep_journal: u32,
    /// [`Sweep::fingerprint`](crate::Sweep::fingerprint).
    pub fingerprint: String,
    /// Points of the sweep.
    pub points: u64,
}

impl Header {
    /// The header of a journal of a sweep.
    pub fn new(fingerprint: String, points: u64) -> Header {
        Header { riser_sweep_journal: VERSION, fingerprint, points }
    }
}

/// Why a journal cannot be used.
#[derive(Debug, Error)]
pub enum JournalError {
    /// The file system says so.
    #[error("{0}: {1}")]
    Io(PathBuf, io::Error),
    /// There is one already.
    #[error("{0} is there already: --resume goes on with it, --force begins anew")]
    Exists(PathBuf),
    /// Another process writes to it.
    #[error("{0} is in use by another process")]
    InUse(PathBuf),
    /// It is of another sweep, or of this one before a change.
    #[error(
        "{0} is of another sweep: this one, its lab, a file that the lab names or riser has changed since; --force begins anew"
    )]
    OtherSweep(PathBuf),
    /// A line of it is not as it was written.
    #[error("{path}:{line}: {why}: the journal is damaged; --force begins anew")]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
}

/// What stands in the text of a journal.
#[derive(Clone, PartialEq, Debug)]
pub struct Contents {
    /// The first line; `None` where not even that is whole.
    pub header: Option<Header>,
    /// The records, in the order in which they came.
    pub records: Vec<Record>,
    /// Bytes of the lines that are whole.
    pub whole_bytes: usize,
}

/// Reads the bytes of a journal.
///
/// # Errors
/// A line, from 1, that is damaged and not the last one, or holds no record of this version, and what is wrong.
pub fn read(bytes: &[u8]) -> Result<Contents, (usize, String)> {
    let mut contents = Contents { header: None, records: Vec::new(), whole_bytes: 0 };
    let mut number = 0;
    while contents.whole_bytes < bytes.len() {
        let rest = &bytes[contents.whole_bytes..];
        number += 1;
        let end = rest.iter().position(|b| *b == b'\n');
        let text = end.and_then(|end| checked(&rest[..end]));
        let (Some(end), Some(text)) = (end, text) else {
            // The last one, whole or not, may be one that was not written to its end.
            return match end.is_none_or(|end| end + 1 == rest.len()) {
                true => Ok(contents),
                false => Err((number, "its checksum is not that of its text".into())),
            };
        };
        line(&mut contents, text).map_err(|why| (number, why))?;
        contents.whole_bytes += end + 1;
    }
    Ok(contents)
}

/// The text of a line, where its checksum is right.
fn checked(line: &[u8]) -> Option<&str> {
    let (sum, text) = (line.get(..SUM)?, line.get(SUM + 1..)?);
    (line[SUM] == b' ' && digest(text).as_bytes() == sum).then(|| std::str::from_utf8(text).ok())?
}

fn line(contents: &mut Contents, text: &str) -> Result<(), String> {
    let Some(header) = &contents.header else {
        let header: Header =
            serde_json::from_str(text).map_err(|e| format!("it begins with no header: {e}"))?;
        if header.riser_sweep_journal != VERSION {
            return Err(format!("version {}: legal is {VERSION}", header.riser_sweep_journal));
        }
        contents.header = Some(header);
        return Ok(());
    };
    let record: Record = serde_json::from_str(text).map_err(|e| format!("no record: {e}"))?;
    if record.point >= header.points {
        return Err(format!("point {}: legal are 0 to {}", record.point, header.points.saturating_sub(1)));
    }
    contents.records.push(record);
    Ok(())
}

/// An object as a line.
pub fn written(object: &impl Serialize) -> String {
    let text = serde_json::to_string(object).unwrap_or_default();
    format!("{} {text}\n", digest(text.as_bytes()))
}

/// How a sweep begins where there may be a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// None may be there.
    New,
    /// With what one says; without one, anew.
    Resume,
    /// Anew, over one that is there.
    Force,
}

/// A journal that is being written, by this process alone.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Bytes of its whole lines.
    len: u64,
}

impl Journal {
    /// Opens the journal at `path` for a sweep with this header; returns its records.
    ///
    /// # Errors
    /// Where it cannot be had, or is not of this sweep; it is left as it is.
    pub fn open(path: &Path, header: &Header, start: Start) -> Result<(Journal, Vec<Record>), JournalError> {
        let io = |e: io::Error| JournalError::Io(path.to_owned(), e);
        let mut options = File::options();
        options.read(true).append(true);
        let opened = match start {
            Start::New => options.create_new(true).open(path),
            Start::Resume | Start::Force => options.create(true).open(path),
        };
        let file = opened.map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => JournalError::Exists(path.to_owned()),
            _ => io(e),
        })?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| JournalError::InUse(path.to_owned()))?;
        let mut journal = Journal { path: path.to_owned(), file, len: 0 };
        let records = if start == Start::Resume { journal.resume(header)? } else { None };
        if records.is_none() {
            journal.file.set_len(0).map_err(io)?;
            journal.write(&written(header))?;
        }
        Ok((journal, records.unwrap_or_default()))
    }

    /// The records of the file; `None` where it holds nothing yet.
    fn resume(&mut self, header: &Header) -> Result<Option<Vec<Record>>, JournalError> {
        let path = self.path.clone();
        let io = |e: io::Error| JournalError::Io(path.clone(), e);
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(0)).map_err(io)?;
        self.file.read_to_end(&mut bytes).map_err(io)?;
        let damaged = |(line, why)| JournalError::Damaged { path: path.clone(), line, why };
        let contents = read(&bytes).map_err(damaged)?;
        match contents.header {
            // Another file, which is not written over.
            None if bytes.len() > written(header).len() => {
                Err(damaged((1, "it begins with no header of a journal".into())))
            }
            None => Ok(None),
            Some(found) if found != *header => Err(JournalError::OtherSweep(path.clone())),
            Some(_) => {
                let len = contents.whole_bytes as u64;
                self.file.set_len(len).map_err(io)?;
                self.len = len;
                Ok(Some(contents.records))
            }
        }
    }

    /// Adds records, in one piece.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn add<'r>(&mut self, records: impl IntoIterator<Item = &'r Record>) -> Result<(), JournalError> {
        let text: String = records.into_iter().map(written).collect();
        self.write(&text)
    }

    fn write(&mut self, text: &str) -> Result<(), JournalError> {
        if let Err(e) = self.file.write_all(text.as_bytes()) {
            // A part of a line may stand only at the end: what is written later must not follow it.
            let _ = self.file.set_len(self.len);
            return Err(JournalError::Io(self.path.clone(), e));
        }
        self.len += text.len() as u64;
        Ok(())
    }

    /// Waits until all that was written is on the disk.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn sync(&self) -> Result<(), JournalError> {
        self.file.sync_data().map_err(|e| JournalError::Io(self.path.clone(), e))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
