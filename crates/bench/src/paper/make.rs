// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the Makefile of a design in RTL, in a checkout of riser.

use super::PaperError;
use std::path::Path;
use std::process::Command;

/// Returns the numbers of a table's row that begins with `head`. Without such a row, there are none.
pub(super) fn row(report: &str, head: &str) -> Vec<f64> {
    let row = report.lines().find_map(|line| line.strip_prefix(&format!("| {head} |")));
    row.unwrap_or_default().split('|').filter_map(|cell| cell.trim().parse().ok()).collect()
}

/// Runs `make` in `folder`, and returns its standard output.
///
/// # Errors
/// There is no such folder, or the command fails: the last line of its standard error.
pub(super) fn make(folder: &str, arguments: &[&str]) -> Result<String, PaperError> {
    let command = format!("make -C {folder} {}", arguments.join(" "));
    let failed = |why: String| PaperError::Run(format!("{command}: {why}"));
    if !Path::new(folder).is_dir() {
        return Err(failed(format!("no folder {folder} here: run this in a checkout of riser")));
    }
    let output = Command::new("make").args(["-s", "-C", folder]).args(arguments).output();
    let output = output.map_err(|e| failed(e.to_string()))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let last = errors.lines().rfind(|line| !line.starts_with("make")).unwrap_or_default();
        return Err(failed(format!("{}, {last}", output.status)));
    }
    String::from_utf8(output.stdout).map_err(|e| failed(e.to_string()))
}
