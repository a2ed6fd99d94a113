// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tests of the Python package, which are in Python: pytest runs them on the library that this build has made. A machine
//! that has no Python or cannot get the wheels skips them and says so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Exit status of scripts/python.sh where the wheels cannot be had.
const NO_WHEELS: i32 = 77;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The folder where the package `riser` is put together from its two halves; what was there is replaced.
fn package() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.with_file_name("lib_riser.so");
    let site = Path::new(env!("CARGO_TARGET_TMPDIR")).join("site");
    let to = site.join("riser");
    let _ = fs::remove_dir_all(&to);
    copy(&root().join("crates/python/python/riser"), &to);
    fs::copy(&built, to.join("_riser.abi3.so")).unwrap_or_else(|e| panic!("{}: {e}", built.display()));
    site
}

/// Copies a folder with what is below it, but for what Python has compiled.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (name, path) = (entry.file_name(), entry.path());
        if path.is_dir() {
            if name != "__pycache__" {
                copy(&path, &to.join(name));
            }
        } else {
            fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

/// Runs pytest over `tests` with the package and the wheels of a requirements file.
fn pytest(requirements: &str, tests: &[&str]) {
    let args = [&["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "riser.testing"], tests].concat();
    let root = root();
    let run = Command::new(root.join("scripts/python.sh"))
        .args(["--with", requirements])
        .args(&args)
        .current_dir(&root)
        .env("PYTHONPATH", package())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .status()
        .unwrap();
    match run.code() {
        Some(NO_WHEELS) => eprintln!("skipped: Python or its wheels cannot be had here"),
        _ => assert!(run.success(), "python {args:?}: {run}"),
    }
}

#[test]
fn the_package_passes_its_tests() {
    let tests = ["--ignore=crates/python/tests/cluster", "crates/python/tests"];
    pytest("crates/python/tests/requirements.txt", &tests);
}

#[test]
#[ignore = "brings Ray; .ci/long python runs it"]
fn sweeps_run_on_ray() {
    pytest("crates/python/tests/cluster/requirements.txt", &["-s", "crates/python/tests/cluster"]);
}
