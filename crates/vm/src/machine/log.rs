// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The destination of a kernel's log, the log's last lines, and its first error.

use crate::error::{Context, Result};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Maximum number of lines of an extract.
const SHOWN_LINES: usize = 20;
/// Words that mark an error in a kernel's log.
const COMPLAINTS: [&str; 6] =
    ["BUG:", "WARNING:", "Oops", "Call Trace", "failed with error", "Unknown symbol"];

/// The end of a kernel's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log(pub String);

impl Log {
    /// Returns the last 20 lines, or all lines if there are fewer.
    pub fn last_lines(&self) -> String {
        let lines: Vec<&str> = self.0.lines().collect();
        lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
    }

    /// Returns up to 20 lines, from two lines before the first error. Without an error, returns an empty text.
    pub fn complaint(&self) -> String {
        let lines: Vec<&str> = self.0.lines().collect();
        let complains = |line: &&str| COMPLAINTS.iter().any(|complaint| line.contains(complaint));
        let Some(first) = lines.iter().position(complains) else { return String::new() };
        lines.into_iter().skip(first.saturating_sub(2)).take(SHOWN_LINES).collect::<Vec<_>>().join("\n")
    }
}

/// Destination of the logs of one or several machines: a file, or `-` for standard error.
#[derive(Clone, Debug)]
pub struct LogTarget(pub PathBuf);

impl LogTarget {
    /// Returns the file of the log of a machine. `name`, given if there are several machines, is appended to its name. `None` for standard
    /// error.
    pub fn file(&self, name: Option<&str>) -> Option<PathBuf> {
        let mut path = self.0.clone().into_os_string();
        if let Some(name) = name {
            path.push(format!(".{name}"));
        }
        (self.0 != Path::new("-")).then(|| path.into())
    }

    /// Appends `n` to the name of the file if this is not the first of several machines in a row.
    pub fn number(&mut self, n: u32) {
        let first = if n > 2 { self.0.with_extension("") } else { self.0.clone() };
        if let Some(numbered) = LogTarget(first).file(Some(&n.to_string())).filter(|_| n > 1) {
            self.0 = numbered;
        }
    }

    /// Opens the log of a machine. Creates missing folders of its file.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn open(&self, name: Option<&str>) -> Result<Box<dyn Write + Send>> {
        let Some(path) = self.file(name) else { return Ok(Box::new(io::stderr())) };
        let folder = path.parent().unwrap_or(Path::new(""));
        let file = fs::create_dir_all(folder).and_then(|()| File::create(&path));
        Ok(Box::new(file.context(|| path.display().to_string())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaint_starts_two_lines_before_the_error() {
        let line = |n| {
            let text = if n == 20 { "copier: probe of 10000:01:00.0 failed with error -22" } else { "fine" };
            format!("{n} {text}\n")
        };
        let log = Log((0..50).map(line).collect());
        let shown = log.complaint();
        assert!(
            shown.starts_with("18 fine\n19 fine\n20 copier: probe of") && shown.ends_with("\n37 fine"),
            "{shown}"
        );
        assert_eq!(log.last_lines().lines().count(), SHOWN_LINES);
        assert_eq!(Log::default().complaint(), "");
    }
}
