// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of a file, with their places.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Maximum length in bytes of a source line that an error shows.
const MAX_LINE_BYTES: usize = 200;

/// Maximum number of characters before the legal values for which an error shows a line in full.
const MAX_HEAD: usize = 300;
/// Maximum number of characters of the legal values, or of a line without legal values, that an error shows in full.
const MAX_TAIL: usize = 1_500;
/// Number of characters that are kept at the beginning and at the end of a shortened text.
const LEFT: [usize; 2] = [160, 60];
/// Maximum number of lines of one message.
const MAX_LINES: usize = 400;
/// Texts that introduce the legal values.
const LEGAL: [&str; 4] = [", expected", ": legal", ": expected", ": there are"];

/// Shortens `text`, parts of which may come from a file and be arbitrarily long. Long lines lose their middle but keep the legal
/// values. Text after the last permitted line is dropped.
pub fn brief(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_HEAD {
        return text.into();
    }
    let mut lines: Vec<String> = text.lines().take(MAX_LINES).map(brief_line).collect();
    let more = text.lines().count() - lines.len();
    if more > 0 {
        lines.push(format!("... {more} more lines"));
    }
    lines.join("\n").into()
}

fn brief_line(line: &str) -> String {
    let legal = LEGAL.iter().filter_map(|mark| line.find(mark)).min();
    match legal {
        Some(at) => without_middle(&line[..at], MAX_HEAD) + &without_middle(&line[at..], MAX_TAIL),
        None => without_middle(line, MAX_TAIL),
    }
}

fn without_middle(text: &str, most: usize) -> String {
    let all = text.chars().count();
    if all <= most {
        return text.to_owned();
    }
    let [first, last] = LEFT;
    let head: String = text.chars().take(first).collect();
    let tail: String = text.chars().skip(all - last).collect();
    format!("{head}[... {} characters ...]{tail}", all - first - last)
}

/// Bytes of the longest unknown key that may be a typing error.
const MAX_KEY_BYTES: usize = 64;

/// Returns `message`. If the TOML reader reports an unknown word, adds a legal word: the first that has an ending more, such as a
/// unit, or the nearest that differs in at most a third of the letters.
fn suggested(message: String) -> String {
    let is_unknown = message.starts_with("unknown ") && message.contains("`, expected ");
    let mut words = message.split('`').skip(1).step_by(2);
    let Some(given) = words.next().filter(|given| is_unknown && given.len() <= MAX_KEY_BYTES) else {
        return message;
    };
    let words: Vec<&str> = words.collect();
    let longer = |legal: &&&str| legal.strip_prefix(given).is_some_and(|rest| rest.starts_with('_'));
    let nearest = words.iter().map(|legal| (strsim::osa_distance(given, legal), legal)).min();
    let near = nearest.filter(|(distance, _)| *distance <= given.len() / 3).map(|(_, legal)| legal);
    match words.iter().find(longer).or(near) {
        Some(legal) => format!("{message}; did you mean `{legal}`?"),
        None => message,
    }
}

/// Returns the bytes of a file as text.
///
/// # Errors
/// The line of the first byte that is not UTF-8.
pub fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let (valid, rest) = error.as_bytes().split_at(error.utf8_error().valid_up_to());
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        let byte = rest.first().copied().unwrap_or_default();
        let message = format!(
            "line {line}: byte {byte:02x}, number {}, is not UTF-8: expected text in UTF-8",
            valid.len()
        );
        io::Error::new(io::ErrorKind::InvalidData, message)
    })
}

/// An error in a lab file or a profile: one message, with its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// Line and column from 1, if the error has a place in the file.
    pub place: Option<(usize, usize)>,
    /// Text of the line, if there is a place and the line is not too long.
    pub line: Option<String>,
    /// The illegal value, and the legal values.
    pub message: String,
    /// True if the error is in an override, not in the file.
    pub is_setting: bool,
}

impl FileError {
    /// Returns an error of the file as a whole.
    pub fn whole(path: &Path, message: impl Into<String>) -> FileError {
        let message = brief(&suggested(message.into())).into_owned();
        FileError { path: path.into(), place: None, line: None, message, is_setting: false }
    }

    /// Returns an error of an override, such as `--set`.
    pub(super) fn setting(given: &str, message: impl Into<String>) -> FileError {
        let path = format!("--set {}", brief(given));
        FileError { is_setting: true, ..FileError::whole(Path::new(&path), message) }
    }

    /// Returns an error at the bytes `span` of `text`. An empty span at zero means a default value: such an error has no place.
    pub fn at(path: &Path, text: &str, span: Range<usize>, message: impl Into<String>) -> FileError {
        if span == (0..0) {
            return FileError::whole(path, message);
        }
        let start = span.start.min(text.len());
        let before = text.get(..start).unwrap_or("");
        let row = before.matches('\n').count();
        let column = before.rsplit('\n').next().map_or(0, |s| s.chars().count());
        FileError {
            place: Some((row + 1, column + 1)),
            line: text.lines().nth(row).filter(|line| line.len() <= MAX_LINE_BYTES).map(str::to_owned),
            ..FileError::whole(path, message)
        }
    }

    /// Converts an error of the TOML reader. Its message may have several lines.
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

/// Maximum number of errors shown for one file.
pub(super) const MAX_ERRORS: usize = 50;

/// Errors of a file in the order of their places, followed by errors of the file as a whole and of overrides. Never empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileErrors(Vec<FileError>);

impl FileErrors {
    /// Returns the errors, at least one.
    pub fn all(&self) -> &[FileError] {
        &self.0
    }

    /// True if all errors are in overrides.
    pub fn is_of_settings(&self) -> bool {
        self.0.iter().all(|error| error.is_setting)
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
    fn error_shows_its_line() {
        let text = "version = 1\nlanes = 3\n";
        let error = FileError::at(Path::new("a.toml"), text, 20..21, "3 lanes");
        assert_eq!(error.to_string(), "a.toml:2:9: 3 lanes\n2 | lanes = 3\n            ^");
    }

    #[test]
    fn suggests_nearest_known_word() {
        for (message, suggestion) in [
            ("unknown field `nmbers`, expected one of `step`, `numbers`", "; did you mean `numbers`?"),
            ("unknown field `lnaes`, expected `lanes`", "; did you mean `lanes`?"),
            ("unknown variant `drpo`, expected one of `drop`, `double`", "; did you mean `drop`?"),
            ("unknown device `nmve`, expected one of `nic`, `nvme`", "; did you mean `nvme`?"),
            ("unknown field `mps`, expected one of `ms`, `mpss`, `mps_bytes`", "; did you mean `mps_bytes`?"),
            ("unknown field `colour`, expected one of `step`, `numbers`", ""),
            ("unknown field `a`, there are no fields", ""),
            ("unknown field ``, expected `b`", ""),
            ("`lnaes` of 3, expected `lanes`", ""),
        ] {
            assert_eq!(FileError::whole(Path::new("a"), message).message, format!("{message}{suggestion}"));
        }
    }

    #[test]
    fn place_of_a_byte_that_is_not_text() {
        assert_eq!(text_of("ä\n".into()).unwrap(), "ä\n");
        let error = text_of(b"a\n\xc3\xa4 = \xff\n".to_vec()).unwrap_err().to_string();
        assert_eq!(error, "line 2: byte ff, number 7, is not UTF-8: expected text in UTF-8");
    }

    #[test]
    fn shortens_long_text_but_keeps_legal_values() {
        let long = "x".repeat(100_000);
        let error = FileError::whole(Path::new("a.toml"), format!("no model `{long}`, expected `a`, `b`"));
        assert!(error.message.starts_with("no model `xxx"), "{error}");
        assert!(error.message.ends_with("xxx`, expected `a`, `b`"), "{error}");
        assert!(error.message.contains("[... 99791 characters ...]") && error.message.len() < 400, "{error}");
        // Text that imitates legal values, and text without line breaks.
        for text in
            [format!("a `: legal {long}`, expected 1"), long.replace('x', "x\n"), long.replace('x', "ä")]
        {
            let shown = brief(&text);
            assert!(shown.len() < 2_000, "{shown}");
        }
        let whole = "key, expected ".to_owned() + &"`value`, ".repeat(100);
        assert_eq!(brief(&whole), whole);
    }
}
