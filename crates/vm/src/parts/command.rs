// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands of the system, and that they end with whoever has started them.

use super::Watch;
use crate::error::{Context, Error, Result};
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{self, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often a running command is looked after.
const LOOK: Duration = Duration::from_millis(50);

/// A command that the system kills when the thread that has started it ends, however that comes about. (The standard library has
/// no safe way to ask for it; util-linux's `setpriv` asks. Whether this process had ended before, a shell then looks.)
pub(crate) fn tethered(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--", "sh", "-c", TETHER])
        .arg(process::id().to_string())
        .arg(program);
    // Ctrl-C at the terminal is for this process, which then ends what it has started.
    command.process_group(0);
    command
}

/// Becomes the command that is its arguments, if its parent is the process of its name.
const TETHER: &str = "[ \"$PPID\" = \"$0\" ] && exec \"$@\"";

/// What a command has printed, and how it ended.
pub(super) struct Finished {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Finished {
    /// The last lines of what it has complained about, on one.
    pub(super) fn complaint(&self) -> String {
        let lines: Vec<&str> = self.stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        match lines.len() {
            0 => format!("{} without a word", self.status),
            count => lines[count.saturating_sub(6)..].join("; "),
        }
    }
}

/// Runs a command to its end. `look` is called while it runs; where it wants no more, the command is killed.
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

/// Reads all of a pipe beside the command, which would wait where a pipe is full.
fn reader(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // A pipe that breaks has said what it had to say.
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        bytes
    })
}

/// True where a command of this name is on the path.
pub(super) fn exists(name: &str) -> bool {
    find(name).is_some()
}

/// The file of the command of this name.
pub(super) fn find(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    })
}

/// As [`Error::Fetch`].
pub(super) fn no_fetch(part: &str, why: impl Into<String>, instead: &str) -> Error {
    Error::Fetch { part: part.to_owned(), why: why.into(), instead: instead.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tethered_command_has_its_words_and_its_status() {
        let output = tethered("sh").args(["-c", "echo \"$0|$1\"; exit 3", "a b", "$HOME"]).output().unwrap();
        assert_eq!((output.stdout, output.status.code()), (b"a b|$HOME\n".to_vec(), Some(3)));
    }

    #[test]
    fn one_whose_starter_has_ended_does_not_begin() {
        let mut command = Command::new("sh");
        // The parent of this is not the process 1 that it is told of.
        command.args(["-c", TETHER, "1", "echo", "begun"]);
        let output = command.output().unwrap();
        assert_eq!((output.stdout, output.status.success()), (Vec::new(), false));
    }
}
