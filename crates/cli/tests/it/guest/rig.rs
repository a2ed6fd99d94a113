// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Boots a guest below which a lab lies, runs a script in it, and takes what it says apart.

use crate::common::{Outcome, command};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PRELUDE: &str = include_str!("prelude.sh");

/// How often something is done: as the environment variable says, which long forms of tests set.
pub(crate) fn times(variable: &str, usually: u32) -> u32 {
    std::env::var(variable)
        .map_or(usually, |text| text.parse().unwrap_or_else(|e| panic!("{variable}={text}: {e}")))
}

/// A lab of its own, and what a guest that runs a script below it has said: by the headings that the script makes with `== NAME`.
pub(crate) struct Guest {
    folder: tempfile::TempDir,
    pub(crate) outcome: Outcome,
}

impl Guest {
    pub(crate) fn run(lab: &str, script: &str, arguments: &[&str]) -> Guest {
        Guest::with_programs(lab, script, arguments, &[])
    }

    /// The same, with these programs in C of this folder at /share.
    pub(crate) fn with_programs(lab: &str, script: &str, arguments: &[&str], programs: &[&str]) -> Guest {
        Guest::with_files(lab, script, arguments, |share| {
            programs.iter().for_each(|name| compile(name, &share.join(name)));
        })
    }

    /// The same, with what `fill` puts into the folder that is /share.
    pub(crate) fn with_files(lab: &str, script: &str, arguments: &[&str], fill: impl FnOnce(&Path)) -> Guest {
        let folder = tempfile::tempdir().unwrap();
        let (file, share) = (folder.path().join("lab.toml"), folder.path().join("share"));
        fs::write(&file, lab).unwrap();
        fs::create_dir(&share).unwrap();
        fs::write(share.join("prelude"), PRELUDE).unwrap();
        fs::write(share.join("script"), format!(". /share/prelude\ndmesg -c >/dev/null\n{script}\n"))
            .unwrap();
        fill(&share);
        let mut riser = command(&["guest", "run"]);
        // A round takes some seconds, and a kernel that watches itself several times as long as others.
        let time_limit = (times("RISER_TIME_LIMIT", 120) + 10 * times("RISER_ROUNDS", 0)).to_string();
        riser.arg(&file).arg("--share").arg(&share).args(["--time-limit", &time_limit]).args(arguments);
        let output = riser.args(["--", "sh", "/share/script"]).stdin(Stdio::null()).output().unwrap();
        let outcome = Outcome {
            code: output.status.code().expect("riser ends by itself"),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
        Guest { folder, outcome }
    }

    /// What stands below a heading.
    pub(crate) fn said(&self, heading: &str) -> &str {
        let after = self.outcome.stdout.split(&format!("== {heading}\n")).nth(1);
        let after = after.unwrap_or_else(|| panic!("no `{heading}` in {}", self.outcome.stdout));
        after.split("== ").next().unwrap()
    }

    pub(crate) fn has(&self, heading: &str, text: &str) {
        assert!(self.said(heading).contains(text), "{heading}: no `{text}` in:\n{}", self.said(heading));
    }

    pub(crate) fn shared(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("share").join(name)
    }
}

/// For a guest, which has no libraries of its own for it.
fn compile(name: &str, to: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/guest/{name}.c"));
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-Wall", "-Wextra", "-Werror", "-static", "-o"]).arg(to).arg(source);
    assert!(compiler.status().unwrap().success(), "{name}.c");
}
