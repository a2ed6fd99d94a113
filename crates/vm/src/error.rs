// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong before a guest runs, each with the place and what would be right.

use std::io;
use std::path::{Path, PathBuf};

/// Why a machine or one of its parts could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was tried, and on what.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong, where, and what was expected.
        what: String,
    },
    /// A part could not be fetched.
    #[error("cannot fetch {part}: {why}; give {instead}")]
    Fetch {
        /// What was to be fetched.
        part: String,
        /// What failed.
        why: String,
        /// What the user can give in its place.
        instead: String,
    },
    /// A part in the cache does not work.
    #[error("{why}; if {} is damaged, remove it, and it is fetched anew", folder.display())]
    Part {
        /// The part's folder.
        folder: PathBuf,
        /// The failure.
        why: String,
    },
    /// A kernel could not be built.
    #[error("{0}")]
    Build(String),
    /// An option is outside of what is legal.
    #[error("{0}")]
    Option(String),
    /// The caller's progress function wanted no more.
    #[error("stopped")]
    Stopped,
}

/// The result of what can fail so.
pub type Result<T> = std::result::Result<T, Error>;

/// Says what was tried when the system refuses.
pub(crate) trait Context<T> {
    /// `what` is said before the system's words.
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Io { what: what(), source: source.into() })
    }
}

/// An error about a file.
pub(crate) fn bad_file(path: &Path, what: impl Into<String>) -> Error {
    Error::File { path: path.to_owned(), what: what.into() }
}

/// The bytes of a file, or an error that names it.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).context(|| path.display().to_string())
}
