// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the Makefile of a design in RTL, in a checkout of riser.

use super::PaperError;
use files::interrupt;
use std::env;
use std::path::Path;
use std::process::Command;

/// Returns the numbers of a table's row that begins with `head`. If the table has no such row, the list is empty.
pub(super) fn row(report: &str, head: &str) -> Vec<f64> {
    let row = report.lines().find_map(|line| line.strip_prefix(&format!("| {head} |")));
    row.unwrap_or_default().split('|').filter_map(|cell| cell.trim().parse().ok()).collect()
}

/// Runs `make` in `folder`, and returns its standard output. The target needs the programs `tools`. They end with riser.
///
/// # Errors
/// There is no such folder, a program is not installed, or the command fails: the last line of its standard error.
pub(super) fn make(folder: &str, tools: &[&str], arguments: &[&str]) -> Result<String, PaperError> {
    let command = format!("make -C {folder} {}", arguments.join(" "));
    let failed = |why: String| PaperError::Run(format!("{command}: {why}"));
    if !Path::new(folder).is_dir() {
        return Err(failed(format!("no folder {folder} here: run this in a checkout of riser")));
    }
    if let Some(missing) = ["make"].iter().chain(tools).find(|tool| !is_installed(tool)) {
        return Err(failed(format!("{missing} is not installed: no such program in PATH")));
    }
    let output = interrupt::output_of(Command::new("make").args(["-s", "-C", folder]).args(arguments));
    let output = output.map_err(|e| failed(e.to_string()))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let last = errors.lines().rfind(|line| !line.starts_with("make")).unwrap_or_default();
        return Err(failed(format!("{}, {last}", output.status)));
    }
    String::from_utf8(output.stdout).map_err(|e| failed(e.to_string()))
}

/// Returns whether a folder of `PATH` has this program.
fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_missing_folder_and_program() {
        let error = |folder, tools: &[&str]| make(folder, tools, &["all"]).unwrap_err().to_string();
        let no_folder = error("no/such/folder", &[]);
        assert_eq!(
            no_folder,
            "run: make -C no/such/folder all: no folder no/such/folder here: run this in a checkout of riser"
        );
        let no_program = error(".", &["sh", "no-such-program"]);
        assert_eq!(
            no_program,
            "run: make -C . all: no-such-program is not installed: no such program in PATH"
        );
    }
}
