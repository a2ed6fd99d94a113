// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs that a build runs: their names in the environment, and the reason if a program fails.

use std::env;
use std::path::{self, Path};
use std::process::{Command, ExitStatus};

/// Maximum number of lines of a failed program's output in an error.
const MAX_LINES: usize = 12;
/// Variables that change the behaviour of make, and of Python in Verilator's makefile: these include options and files
/// of an outer make.
const FOREIGN: [&str; 5] = ["MAKEFLAGS", "MFLAGS", "MAKEFILES", "PYTHONHOME", "PYTHONPATH"];

/// A program and its first arguments, as variables of make name it: `CXX="ccache g++"`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tool {
    words: Vec<String>,
}

impl Tool {
    /// Returns the program that the environment variable `variable` names, or `default` if it is unset or empty.
    pub(crate) fn from_env(variable: &str, default: &str) -> Tool {
        Tool::named(&env::var_os(variable).unwrap_or_default().to_string_lossy(), default)
    }

    /// Splits `value` at blanks, unless all of it is the path of a file.
    fn named(value: &str, default: &str) -> Tool {
        let mut words: Vec<String> = match Path::new(value).is_file() {
            true => vec![value.to_owned()],
            false => value.split_whitespace().map(str::to_owned).collect(),
        };
        match words.first_mut() {
            None => words.push(default.to_owned()),
            // Some programs run in another folder.
            Some(first) if first.contains('/') => {
                if let Ok(absolute) = path::absolute(&*first) {
                    *first = absolute.to_string_lossy().into_owned();
                }
            }
            Some(_) => {}
        }
        Tool { words }
    }

    /// Returns the name for error messages.
    pub(crate) fn name(&self) -> String {
        self.words.join(" ")
    }

    /// Returns the value of a variable of make.
    pub(crate) fn for_make(&self) -> String {
        let quoted = self.words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''")));
        quoted.collect::<Vec<_>>().join(" ").replace('$', "$$")
    }

    /// Returns a command that runs the program with English messages, for any locale, and without the variables of
    /// other programs.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).env("LC_ALL", "C");
        FOREIGN.iter().for_each(|variable| _ = command.env_remove(variable));
        command
    }
}

/// Returns the lines of a failed program's output that name an error; without such lines its last lines; without output
/// its exit status. Never empty.
pub(crate) fn reason(output: &str, status: ExitStatus) -> String {
    // If Verilator was killed or not found, its last line is its whole command line. The last line of make is the
    // failed rule.
    let no_reason = ["%Error: Command Failed", ": *** ["];
    let is_reason =
        |line: &&str| !line.trim().is_empty() && !no_reason.iter().any(|text| line.contains(text));
    let lines: Vec<&str> = output.lines().filter(is_reason).collect();
    let is_error = |line: &&str| line.contains("rror") || line.contains("cannot find");
    let errors: Vec<&str> = lines.iter().copied().filter(is_error).take(MAX_LINES).collect();
    match (&errors[..], &lines[..]) {
        ([], []) => status.to_string(),
        ([], lines) => lines[lines.len().saturating_sub(MAX_LINES)..].join("\n"),
        (errors, _) => errors.join("\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn splits_variable_like_make() {
        let words = |value: &str| Tool::named(value, "c++").words;
        assert_eq!(words(""), ["c++"]);
        assert_eq!(words("  "), ["c++"]);
        assert_eq!(words("g++"), ["g++"]);
        assert_eq!(words("ccache  g++ -m64"), ["ccache", "g++", "-m64"]);
        let here = env::current_dir().unwrap();
        assert_eq!(words("./bin/c++ -m64"), [here.join("bin/c++").display().to_string(), "-m64".to_owned()]);
    }

    #[test]
    fn make_and_shell_split_words_alike() {
        assert_eq!(Tool::named("it's $X", "").for_make(), r"'it'\''s' '$$X'");
    }

    #[test]
    fn reason_is_never_empty() {
        let failed = ExitStatus::from_raw(1 << 8);
        for (output, reason_of_it) in [
            ("a.cpp:1: error: x\nmore\nld: cannot find -lz\n", "a.cpp:1: error: x\nld: cannot find -lz"),
            ("a.cpp:1: Fehler: x\nmake: *** [/x.mk:239: x.o] Error 1\n", "a.cpp:1: Fehler: x"),
            (
                "sh: 1: /none/verilator_bin: not found\n%Error: Command Failed x\n",
                "sh: 1: /none/verilator_bin: not found",
            ),
            ("", "exit status: 1"),
        ] {
            assert_eq!(reason(output, failed), reason_of_it);
        }
    }
}
