// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors before a guest runs. Each message has the place and the expected value.

use std::io;
use std::path::{Path, PathBuf};

/// The reason why a machine or one of its parts could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation and its object.
        what: String,
        /// Error of the system.
        source: io::Error,
    },
    /// A file has wrong contents.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Description of the error, with its place and the expected value.
        what: String,
    },
    /// A part could not be fetched.
    #[error("cannot fetch {part}: {why}; give {instead}")]
    Fetch {
        /// Name of the part.
        part: String,
        /// Reason.
        why: String,
        /// Parts that the user can supply instead.
        instead: String,
    },
    /// A part in the cache does not work.
    #[error("{why}; if {} is damaged, remove it; riser then fetches it again", folder.display())]
    Part {
        /// Folder of the part.
        folder: PathBuf,
        /// The failure.
        why: String,
    },
    /// A kernel could not be built.
    #[error("{0}")]
    Build(String),
    /// An option is invalid.
    #[error("{0}")]
    Option(String),
    /// The caller's progress function returned false.
    #[error("stopped")]
    Stopped,
}

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Adds the attempted operation to an error of the system.
pub(crate) trait Context<T> {
    /// Converts the error; its message starts with `what`.
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Io { what: what(), source: source.into() })
    }
}

/// Creates an error about a file.
pub(crate) fn bad_file(path: &Path, what: impl Into<String>) -> Error {
    Error::File { path: path.to_owned(), what: what.into() }
}

/// Reads a regular file. An error names the file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    if std::fs::metadata(path).is_ok_and(|about| !about.is_file()) {
        return Err(bad_file(path, "not a regular file"));
    }
    std::fs::read(path).context(|| path.display().to_string())
}
