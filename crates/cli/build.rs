// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sets the version of the command to include the git commit if the checkout is riser's own. Works without git.

use std::path::Path;
use std::process::Command;

/// Digits of the commit in the version.
const SHOWN: usize = 12;

/// Output of git; `None` if git is missing or fails.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize();
    // The sources may be part of another project's checkout.
    let is_ours = git(&["rev-parse", "--show-toplevel"])
        .is_some_and(|top| root.is_ok_and(|root| root == Path::new(&top)));
    let commit = git(&["rev-parse", "HEAD"]).filter(|_| is_ours);
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|_| commit.is_some()) {
        println!("cargo:rerun-if-changed={log}");
    }
    let version = env!("CARGO_PKG_VERSION");
    let version =
        commit.iter().fold(version.to_owned(), |version, commit| format!("{version} ({})", &commit[..SHOWN]));
    println!("cargo:rustc-env=RISER_VERSION={version}");
    println!("cargo:rustc-env=RISER_COMMIT={}", commit.unwrap_or_default());
}
