// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Boots a guest on a lab, runs a script in it, and splits its output by headings.

use crate::common::{Outcome, command, finish};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::once;

const PRELUDE: &str = include_str!("prelude.sh");

/// Number of repetitions: the environment variable, which long forms of tests set, or `usually`.
pub(crate) fn times(variable: &str, usually: u32) -> u32 {
    std::env::var(variable)
        .map_or(usually, |text| text.parse().unwrap_or_else(|e| panic!("{variable}={text}: {e}")))
}

/// Output of a guest's script, split by the headings that the script prints as `== NAME`.
pub(crate) struct Guest {
    share: PathBuf,
    pub(crate) outcome: Outcome,
    _folder: Option<tempfile::TempDir>,
}

impl Guest {
    pub(crate) fn run(lab: &str, script: &str, arguments: &[&str]) -> Guest {
        Guest::with_programs(lab, script, arguments, &[])
    }

    /// Runs a script with these C programs of this folder in /share.
    pub(crate) fn with_programs(lab: &str, script: &str, arguments: &[&str], programs: &[&str]) -> Guest {
        Guest::with_files(lab, script, arguments, |share| {
            programs.iter().for_each(|name| compile(name, &share.join(name)));
        })
    }

    /// Runs a script with the files that `fill` writes to /share.
    pub(crate) fn with_files(lab: &str, script: &str, arguments: &[&str], fill: impl FnOnce(&Path)) -> Guest {
        let folder = tempfile::tempdir().unwrap();
        // Leaves time for the boot, and for other tests on the machine.
        let outcome = boot(folder.path(), lab, arguments, 4 * time_limit(), |share| {
            fs::write(share.join("script"), with_prelude(script)).unwrap();
            fill(share);
        });
        assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
        Guest { share: folder.path().join("share"), outcome, _folder: Some(folder) }
    }

    /// Returns the lines below a heading.
    pub(crate) fn said(&self, heading: &str) -> &str {
        let after = self.outcome.stdout.split(&format!("== {heading}\n")).nth(1);
        let after = after.unwrap_or_else(|| panic!("no `{heading}` in {}", self.outcome.stdout));
        after.split("== ").next().unwrap()
    }

    pub(crate) fn has(&self, heading: &str, text: &str) {
        assert!(self.said(heading).contains(text), "{heading}: no `{text}` in:\n{}", self.said(heading));
    }

    pub(crate) fn shared(&self, name: &str) -> String {
        fs::read_to_string(self.share.join(name)).unwrap()
    }
}

/// Time limit of a script in seconds. A round takes some seconds; a debug kernel takes several times as long as others.
fn time_limit() -> u32 {
    times("RISER_TIME_LIMIT", 120) + 10 * times("RISER_ROUNDS", 0)
}

fn with_prelude(script: &str) -> String {
    format!(". /share/prelude\ndmesg -c >/dev/null\n{script}\n")
}

/// Boots a guest whose files are in `folder`, and runs /share/script in it.
fn boot(folder: &Path, lab: &str, arguments: &[&str], seconds: u32, fill: impl FnOnce(&Path)) -> Outcome {
    let (file, share) = (folder.join("lab.toml"), folder.join("share"));
    fs::write(&file, lab).unwrap();
    fs::create_dir(&share).unwrap();
    fs::write(share.join("prelude"), PRELUDE).unwrap();
    fill(&share);
    let mut riser = command(&["guest", "run"]);
    riser.arg(&file).arg("--share").arg(&share).args(["--time-limit", &seconds.to_string()]).args(arguments);
    finish(riser.args(["--", "sh", "/share/script"]))
}

/// Scripts that share a boot, in the order in which they run. Each has its own time limit. The failure of one does not stop the next.
pub(crate) struct SharedBoot<'a> {
    /// Name of the folder that keeps the output.
    pub(crate) name: &'a str,
    pub(crate) lab: &'a str,
    pub(crate) arguments: &'a [&'a str],
    /// Name and text of each.
    pub(crate) scripts: &'a [(&'a str, String)],
}

impl SharedBoot<'_> {
    /// Returns the output of one script. Boots the guest if no other test of this run has done so.
    pub(crate) fn guest(&self, script: &str, fill: impl FnOnce(&Path)) -> Guest {
        let folder = once(self.name, |folder| {
            // A script usually takes a small part of its time limit. The sum must stay below the time limit of a test.
            let seconds = time_limit() * (self.scripts.len() as u32).div_ceil(2);
            let outcome = boot(folder, self.lab, self.arguments, seconds, |share| {
                let mut all = String::new();
                for (name, text) in self.scripts {
                    fs::write(share.join(format!("script-{name}")), with_prelude(text)).unwrap();
                    all += &format!(
                        "echo '=== {name}'; timeout {} sh /share/script-{name}; echo; echo \"=== end {name} $?\"\n",
                        time_limit()
                    );
                }
                fs::write(share.join("script"), all).unwrap();
                fill(share);
            });
            fs::write(folder.join("stdout"), outcome.stdout).unwrap();
            fs::write(folder.join("stderr"), outcome.stderr).unwrap();
            fs::write(folder.join("code"), outcome.code.to_string()).unwrap();
            Ok(())
        });
        let folder = folder.expect("it boots or panics");
        let [stdout, stderr, code] =
            ["stdout", "stderr", "code"].map(|file| fs::read_to_string(folder.join(file)).unwrap());
        let begin = stdout.split(&format!("=== {script}\n")).nth(1);
        let begin = begin.unwrap_or_else(|| panic!("{script} did not begin:\n{stdout}{stderr}"));
        let (said, status) = begin
            .split_once(&format!("\n=== end {script} "))
            .unwrap_or_else(|| panic!("{script} did not end:\n{begin}{stderr}"));
        assert_eq!(status.lines().next(), Some("0"), "status of {script}:\n{said}{stderr}");
        assert_eq!(code, "0", "status of riser:\n{stderr}");
        let outcome = Outcome { code: 0, stdout: said.to_owned(), stderr };
        Guest { share: folder.join("share"), outcome, _folder: None }
    }
}

/// Compiles a C program statically, since the guest has no libraries.
fn compile(name: &str, to: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/guest/{name}.c"));
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-Wall", "-Wextra", "-Werror", "-static", "-o"]).arg(to).arg(source);
    assert!(compiler.status().unwrap().success(), "{name}.c");
}
