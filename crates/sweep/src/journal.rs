// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The journal of a sweep: a file to which records are appended as they arrive, so that no point is run twice. Existing lines are
//! never changed.
//!
//! The first line identifies the sweep; each further line is a record. A line is a checksum of its text (FNV-1a, 64
//! bits, in hexadecimal), a space, and its text, one JSON object. An incomplete last line was being written when the
//! sweep ended, and is ignored.

use crate::record::Record;
use plug::file::digest;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Version of the format.
const VERSION: u32 = 1;
/// Characters of a checksum.
const SUM: usize = 16;

/// First line of a journal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Version of the format: 1.
    pub riser_sweep_journal: u32,
    /// [`Sweep::fingerprint`](crate::Sweep::fingerprint).
    pub fingerprint: String,
    /// Number of points of the sweep.
    pub points: u64,
}

impl Header {
    /// Returns the header for a sweep's journal.
    pub fn new(fingerprint: String, points: u64) -> Header {
        Header { riser_sweep_journal: VERSION, fingerprint, points }
    }
}

/// Reason why a journal cannot be used.
#[derive(Debug, Error)]
pub enum JournalError {
    /// Error of the file system.
    #[error("{0}: {1}")]
    Io(PathBuf, io::Error),
    /// A journal exists already.
    #[error("{0} exists already: --resume continues it, --force replaces it")]
    Exists(PathBuf),
    /// Another process writes to the journal.
    #[error("{0} is in use by another process")]
    InUse(PathBuf),
    /// The journal belongs to another sweep, or to this sweep before a change.
    #[error(
        "{0} is of another sweep: this sweep, its lab, a file of the lab or riser has changed since; --force replaces it"
    )]
    OtherSweep(PathBuf),
    /// A line was changed after it was written.
    #[error("{path}:{line}: {why}: the journal is damaged; --force replaces it")]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The fault.
        why: LineError,
    },
}

/// Reason why a line of a journal is damaged.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LineError {
    /// The line was changed.
    #[error("its checksum does not match its text")]
    Checksum,
    /// The file is not a journal.
    #[error("it does not begin with the header of a journal")]
    NoJournal,
    /// The first line is not a header.
    #[error("no header: {0}")]
    Header(serde_json::Error),
    /// The journal has another version.
    #[error("version {0}: expected {VERSION}")]
    Version(u32),
    /// The line is not a record.
    #[error("no record: {0}")]
    Record(serde_json::Error),
    /// The record is of a point that the sweep does not have.
    #[error("point {point}: expected 0 to {last}")]
    Point {
        /// Number of the point.
        point: u64,
        /// Number of the last point.
        last: u64,
    },
}

/// Contents of a journal.
#[derive(Clone, PartialEq, Debug)]
pub struct Contents {
    /// The first line; `None` if it is incomplete.
    pub header: Option<Header>,
    /// The records, in the order of writing.
    pub records: Vec<Record>,
    /// Bytes of the complete lines.
    pub whole_bytes: usize,
}

/// Parses the bytes of a journal.
///
/// # Errors
/// The number of a line, from 1, and its fault: the line is damaged and is not the last line, or it is no record of
/// this version.
pub fn read(bytes: &[u8]) -> Result<Contents, (usize, LineError)> {
    let mut contents = Contents { header: None, records: Vec::new(), whole_bytes: 0 };
    let mut number = 0;
    while contents.whole_bytes < bytes.len() {
        let rest = &bytes[contents.whole_bytes..];
        number += 1;
        let end = rest.iter().position(|b| *b == b'\n');
        let text = end.and_then(|end| checked(&rest[..end]));
        let (Some(end), Some(text)) = (end, text) else {
            // The last line, complete or not, may not have been written to its end.
            return match end.is_none_or(|end| end + 1 == rest.len()) {
                true => Ok(contents),
                false => Err((number, LineError::Checksum)),
            };
        };
        line(&mut contents, text).map_err(|why| (number, why))?;
        contents.whole_bytes += end + 1;
    }
    Ok(contents)
}

/// Returns the text of a line if its checksum is right.
fn checked(line: &[u8]) -> Option<&str> {
    let (sum, text) = (line.get(..SUM)?, line.get(SUM + 1..)?);
    (line[SUM] == b' ' && digest(text).as_bytes() == sum).then(|| std::str::from_utf8(text).ok())?
}

fn line(contents: &mut Contents, text: &str) -> Result<(), LineError> {
    let Some(header) = &contents.header else {
        let header: Header = serde_json::from_str(text).map_err(LineError::Header)?;
        if header.riser_sweep_journal != VERSION {
            return Err(LineError::Version(header.riser_sweep_journal));
        }
        contents.header = Some(header);
        return Ok(());
    };
    let record: Record = serde_json::from_str(text).map_err(LineError::Record)?;
    if record.point >= header.points {
        return Err(LineError::Point { point: record.point, last: header.points.saturating_sub(1) });
    }
    contents.records.push(record);
    Ok(())
}

/// Returns an object as a line.
pub fn written(object: &impl Serialize) -> String {
    let text = serde_json::to_string(object).unwrap_or_default();
    format!("{} {text}\n", digest(text.as_bytes()))
}

/// How a sweep handles an existing journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// Fail if there is a journal.
    New,
    /// Continue with its records. Without a journal, start a new one.
    Resume,
    /// Replace it.
    Force,
}

/// An open journal, locked by this process.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Bytes of its complete lines.
    len: u64,
}

impl Journal {
    /// Opens the journal at `path` for a sweep with this header, and returns its records.
    ///
    /// # Errors
    /// The journal cannot be opened or locked, or is not of this sweep. In this case the journal is not changed.
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

    /// Returns the records of the file; `None` if it is still empty.
    fn resume(&mut self, header: &Header) -> Result<Option<Vec<Record>>, JournalError> {
        let path = self.path.clone();
        let io = |e: io::Error| JournalError::Io(path.clone(), e);
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(0)).map_err(io)?;
        self.file.read_to_end(&mut bytes).map_err(io)?;
        let damaged = |(line, why)| JournalError::Damaged { path: path.clone(), line, why };
        let contents = read(&bytes).map_err(damaged)?;
        match contents.header {
            // Some other file, which must not be overwritten.
            None if bytes.len() > written(header).len() => Err(damaged((1, LineError::NoJournal))),
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

    /// Appends records with a single write.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn add<'r>(&mut self, records: impl IntoIterator<Item = &'r Record>) -> Result<(), JournalError> {
        let text: String = records.into_iter().map(written).collect();
        self.write(&text)
    }

    fn write(&mut self, text: &str) -> Result<(), JournalError> {
        if let Err(e) = self.file.write_all(text.as_bytes()) {
            // Only the end of the file may be an incomplete line: later writes must not follow it.
            let _ = self.file.set_len(self.len);
            return Err(JournalError::Io(self.path.clone(), e));
        }
        self.len += text.len() as u64;
        Ok(())
    }

    /// Waits until all writes are on the disk.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn sync(&self) -> Result<(), JournalError> {
        self.file.sync_data().map_err(|e| JournalError::Io(self.path.clone(), e))
    }

    /// Returns the path of the journal.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
