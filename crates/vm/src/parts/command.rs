// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System commands that end together with their starter.

use super::Watch;
use crate::error::{Context, Error, Result};
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{self, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Polling interval for a running command.
const LOOK: Duration = Duration::from_millis(50);

/// Returns a command that the system kills when the thread that started it ends, for any reason. (The standard library
/// has no safe way to request this; `setpriv` of util-linux does. A shell then checks that this process has not ended
/// before.)
pub(crate) fn tethered(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--", "sh", "-c", TETHER])
        .arg(process::id().to_string())
        .arg(program);
    // Ctrl-C at the terminal only reaches this process, which then ends its children.
    command.process_group(0);
    command
}

/// Executes the command in its arguments, if its parent is the process $0.
const TETHER: &str = "[ \"$PPID\" = \"$0\" ] && exec \"$@\"";

/// Output and status of a command.
pub(super) struct Finished {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Finished {
    /// Returns the last lines of its stderr, joined into one.
    pub(super) fn complaint(&self) -> String {
        let lines: Vec<&str> = self.stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        match lines.len() {
            0 => format!("{} without a message", self.status),
            count => lines[count.saturating_sub(6)..].join("; "),
        }
    }
}

/// Runs a command to its end. Calls `look` while the command runs. If `look` fails, kills the command.
pub(super) fn run(
    mut command: Command,
    watch: &mut Watch,
    mut look: impl FnMut(&mut Watch) -> Result<()>,
) -> Result<Finished> {
    let name = format!("{command:?}");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.env("LC_ALL", "C").spawn().context(|| format!("cannot run {name}"))?;
    let stdout = reader(child.stdout.take());
    let stderr = reader(child.stderr.take());
    let status = loop {
        if let Some(status) = child.try_wait().context(|| name.clone())? {
            break status;
        }
        if let Err(error) = look(watch) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        thread::sleep(LOOK);
    };
    let text = |thread: JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&thread.join().unwrap_or_default()).into_owned()
    };
    Ok(Finished { status, stdout: text(stdout), stderr: text(stderr) })
}

/// Reads a pipe to its end in a thread. Otherwise the command would block on a full pipe.
fn reader(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // After an error, the bytes read so far are used.
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        bytes
    })
}

/// Returns whether there is a command of this name in the path.
pub(super) fn exists(name: &str) -> bool {
    find(name).is_some()
}

/// Returns the file of a command in the path.
pub(super) fn find(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    })
}

/// Creates an [`Error::Fetch`].
pub(super) fn no_fetch(part: &str, why: impl Into<String>, instead: &str) -> Error {
    Error::Fetch { part: part.to_owned(), why: why.into(), instead: instead.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tethered_command_gets_its_arguments_and_returns_its_status() {
        let output = tethered("sh").args(["-c", "echo \"$0|$1\"; exit 3", "a b", "$HOME"]).output().unwrap();
        assert_eq!((output.stdout, output.status.code()), (b"a b|$HOME\n".to_vec(), Some(3)));
    }

    #[test]
    fn tethered_command_needs_its_parent() {
        let mut command = Command::new("sh");
        // The parent of this process is not process 1.
        command.args(["-c", TETHER, "1", "echo", "begun"]);
        let output = command.output().unwrap();
        assert_eq!((output.stdout, output.status.success()), (Vec::new(), false));
    }
}
