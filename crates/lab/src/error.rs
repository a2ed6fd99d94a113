// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is wrong with a file, and where.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The longest line that is shown.
const MAX_LINE_BYTES: usize = 200;

/// Something wrong in a lab file or a profile: one message that names the place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// Line and column from 1, where the fault has a place in the file.
    pub place: Option<(usize, usize)>,
    /// The line of the file, where there is a place, and the line is of a length that helps.
    pub line: Option<String>,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl FileError {
    /// A fault of the file as a whole.
    #[must_use]
    pub fn whole(path: &Path, message: impl Into<String>) -> FileError {
        FileError { path: path.into(), place: None, line: None, message: message.into() }
    }

    /// A fault at the bytes `span` of `text`. An empty span at zero is that of a value that stands by default: such a
    /// fault has no place of its own.
    #[must_use]
    pub fn at(path: &Path, text: &str, span: Range<usize>, message: impl Into<String>) -> FileError {
        if span == (0..0) {
            return FileError::whole(path, message);
        }
        let start = span.start.min(text.len());
        let before = text.get(..start).unwrap_or("");
        let row = before.matches('\n').count();
        let column = before.rsplit('\n').next().map_or(0, |s| s.chars().count());
        FileError {
            path: path.into(),
            place: Some((row + 1, column + 1)),
            line: text.lines().nth(row).filter(|line| line.len() <= MAX_LINE_BYTES).map(str::to_owned),
            message: message.into(),
        }
    }

    /// A fault that the TOML reader found. Its own message may say several things on several lines.
    #[must_use]
    pub fn toml(path: &Path, text: &str, error: &toml::de::Error) -> FileError {
        let message = error.message().trim().replace('\n', ": ");
        match error.span() {
            Some(span) => FileError::at(path, text, span, message),
            None => FileError::whole(path, message),
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some((row, column)) = self.place {
            write!(f, ":{row}:{column}")?;
        }
        write!(f, ": {}", self.message)?;
        match (&self.line, self.place) {
            (Some(line), Some((row, column))) => {
                let number = row.to_string();
                write!(f, "\n{number} | {line}\n{:>width$}^", "", width = number.len() + 3 + column - 1)
            }
            _ => Ok(()),
        }
    }
}

impl std::error::Error for FileError {}

/// Faults of one file that are told at most.
pub(crate) const MAX_ERRORS: usize = 50;

/// What is wrong with a file: all that was found, in the order of places; what is wrong with the file as a whole, or with
/// what was set over it, comes last. Never empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileErrors(Vec<FileError>);

impl FileErrors {
    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[FileError] {
        &self.0
    }
}

impl FromIterator<FileError> for FileErrors {
    fn from_iter<I: IntoIterator<Item = FileError>>(errors: I) -> FileErrors {
        let mut all: Vec<FileError> = errors.into_iter().collect();
        all.sort_by_key(|e| (e.place.is_none(), e.place));
        all.dedup();
        all.truncate(MAX_ERRORS);
        FileErrors(all)
    }
}

impl From<FileError> for FileErrors {
    fn from(error: FileError) -> FileErrors {
        FileErrors(vec![error])
    }
}

impl fmt::Display for FileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if n == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for FileErrors {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_shows_its_line() {
        let text = "version = 1\nlanes = 3\n";
        let error = FileError::at(Path::new("a.toml"), text, 20..21, "3 lanes");
        assert_eq!(error.to_string(), "a.toml:2:9: 3 lanes\n2 | lanes = 3\n            ^");
    }
}
