// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the `riser` binary and checks its outputs. Never uses its internals.

pub(crate) mod driver;
pub(crate) mod nets;
pub(crate) mod pages;
pub(crate) mod programs;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use testkit::once;

/// Exit status and outputs of a finished command.
pub(crate) struct Outcome {
    /// Exit status.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

impl Outcome {
    /// Returns the outcome of a process that was not ended by a signal. Bytes that are not UTF-8 are replaced. The first guest on a machine
    /// fetches its parts; these lines on standard error are left out.
    pub(crate) fn of(output: &Output) -> Outcome {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = output.status.code().expect("it ends by itself");
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        let lines = stderr.split_inclusive('\n').filter(|line| !line.starts_with("riser: guest parts: "));
        Outcome { code, stdout, stderr: lines.collect() }
    }
}

/// Returns the names of the commands that a help lists, before its options.
pub(crate) fn listed_commands(help: &str) -> impl Iterator<Item = &str> {
    let other = ["Usage:", "Example", "Arguments:"];
    let before_options = help.split("\nOptions:").next().expect("a first part");
    let lists =
        before_options.split("\n\n").filter(move |part| !other.iter().any(|title| part.starts_with(title)));
    let rows = lists.flat_map(|list| list.lines().skip(1)).filter_map(|line| line.strip_prefix("  "));
    let names = rows.filter(|row| row.starts_with(|c: char| c.is_ascii_lowercase()));
    names.filter_map(|row| row.split_whitespace().next()).filter(|name| *name != "help")
}

/// Returns a `riser` command with these arguments.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_riser"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs a command. Its output may contain any bytes, such as the output of a guest.
pub(crate) fn finish(command: &mut Command) -> Outcome {
    Outcome::of(&command.stdin(Stdio::null()).output().expect("it starts"))
}

/// True if Verilator is installed. Otherwise prints that the test is skipped.
pub(crate) fn has_verilator() -> bool {
    let found = Command::new("verilator").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("skipped: no verilator");
    }
    found
}

/// Runs `riser` to its end.
pub(crate) fn riser(args: &[&str]) -> Outcome {
    let output = command(args).output().expect("riser starts");
    Outcome {
        code: output.status.code().expect("riser ends by itself"),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// Runs `riser`, and returns its standard output. It must succeed and print nothing on standard error except warnings about extrapolated
/// profiles: some shipped labs have links of all generations on one host.
pub(crate) fn riser_ok(args: &[&str]) -> String {
    let outcome = riser(args);
    let is_expected =
        |line: &str| line.contains("they are extrapolated") || line.ends_with(" points have warnings");
    let stderr: Vec<_> = outcome.stderr.lines().filter(|line| !is_expected(line)).collect();
    assert_eq!((outcome.code, stderr.as_slice()), (0, &[""; 0][..]), "riser {}", args.join(" "));
    outcome.stdout
}

/// Builds the design in the file `path`, once per run. Returns the path.
pub(crate) fn built_design(path: String) -> String {
    let build = |_: &Path| {
        let output = command(&["rtl", "build", &path]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    };
    once(&format!("rtl{}", path.replace(['/', '.'], "-")), build).expect("it builds or panics");
    path
}

/// Runs `riser` with a standard output that is closed after one byte, like `| head -c 1`.
pub(crate) fn riser_whose_reader_leaves(args: &[&str]) -> (i32, String) {
    use std::io::Read;
    let mut child =
        command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("riser starts");
    let mut one = [0];
    child.stdout.take().expect("piped").read_exact(&mut one).expect("a byte of output");
    let output = child.wait_with_output().expect("riser ends");
    (
        output.status.code().expect("riser ends by itself"),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// Replaces the numbers after `IRQ `, which depend on the machine.
pub(crate) fn masked_irqs(text: &str) -> String {
    let line = |line: &str| match line.split_once("routed to IRQ ") {
        Some((before, _)) => format!("{before}routed to IRQ N"),
        None => line.trim_end().to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n").trim().to_owned()
}
