// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that commands read and write, and the signals that end commands.
//!
//! A command names all its inputs and outputs to [`Outputs`] before it starts. Two outputs are never the same file, an output is never an
//! input, and an existing file is kept unless the user allows to overwrite it. A file appears only when complete: riser writes
//! `NAME.??????.part` in the same folder, and renames it at the end. Pipes, terminals and `-` for standard output cannot hold a file, and
//! are written directly.
//!
//! - [`Outputs`], [`ClaimedOutput`], [`Output`]: files that are written.
//! - [`mod@input`]: files that are read; `-` is standard input.
//! - [`mod@interrupt`]: Ctrl-C, after which unfinished files are removed.
//! - [`limit`]: the number of open files.
//!
//! This crate never checks the content of files, and prints nothing.

pub mod input;
pub mod interrupt;
pub mod limit;
mod outputs;
mod part;
mod pipe;
mod place;

pub use outputs::{ClaimedOutput, Note, Output, Outputs, failed, is_diverted};
pub use part::WorkFile;

use std::io;
use thiserror::Error;

/// Reason why a file cannot be read or written.
#[derive(Debug, Error)]
pub enum Error {
    /// The arguments name the same file twice.
    #[error("{0}")]
    Usage(String),
    /// An error of the file system, or an existing file that must not be overwritten.
    #[error("{0}")]
    File(String),
    /// Ctrl-C arrived before a pipe had a reader.
    #[error("{0}")]
    Interrupted(String),
    /// The reader of the output has closed it. This is no error for the user.
    #[error("the reader has closed the output")]
    ReaderLeft,
}

/// Result of an operation on files.
pub type Result<T> = std::result::Result<T, Error>;

/// Only errors of standard output are converted from a plain `io::Error`.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Error::ReaderLeft,
            _ => Error::File(format!("standard output: {error}")),
        }
    }
}
