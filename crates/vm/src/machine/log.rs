// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The end of a kernel's log, and its first error.

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
