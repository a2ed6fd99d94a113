// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the tests of the Python package, which are in Python, with pytest on the library of this build. These tests are
//! skipped with a message if Python or its wheels are not available.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Exit status of scripts/python.sh if the wheels are not available.
const NO_WHEELS: i32 = 77;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Assembles the package `riser` from its two halves, and returns its folder. An earlier folder is replaced.
fn package() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.with_file_name("lib_riser.so");
    let site = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-site");
    let to = site.join("riser");
    let _ = fs::remove_dir_all(&to);
    copy(&root().join("crates/python/python/riser"), &to);
    fs::copy(&built, to.join("_riser.abi3.so")).unwrap_or_else(|e| panic!("{}: {e}", built.display()));
    site
}

/// Copies a folder with its contents, except files compiled by Python.
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

const OF_TESTS: &str = "crates/python/tests/requirements.txt";
const OF_CLUSTERS: &str = "crates/python/tests/cluster/requirements.txt";
const OF_TYPES: &str = "crates/python/tests/types/requirements.txt";
const OF_BENCHES: &str = "crates/python/bench/requirements.txt";

/// Runs Python with the package, the wheels of this file and these arguments.
fn python(wheels: &str, args: &[&str]) {
    let root = root();
    let run = Command::new(root.join("scripts/python.sh"))
        .args(["--with", wheels, "--path"])
        .arg(package())
        .args(args)
        .current_dir(&root)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .status()
        .unwrap();
    match run.code() {
        Some(NO_WHEELS) => eprintln!("skipped: Python or its wheels are not available"),
        _ => assert!(run.success(), "python {args:?}: {run}"),
    }
}

const STUDIES: &str = "crates/python/tests/test_studies.py";
const TOUR: &str = "crates/python/tests/test_notebook.py::test_the_tour_runs";
const TYPES: &str = "crates/python/tests/types";
const VERILOG: &str = "crates/python/tests/test_devices_page.py::test_verilog_design_has_a_python_driver";

const PYTEST: [&str; 7] = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "riser.testing"];

#[test]
fn package_passes_its_tests() {
    let others = ["--ignore=crates/python/tests/cluster", "--ignore", STUDIES, "--ignore", TYPES];
    let slow = ["--deselect", TOUR, "--deselect", VERILOG];
    python(OF_TESTS, &[&PYTEST[..], &others, &slow, &["crates/python/tests"]].concat());
}

#[test]
#[ignore = "of .ci/long python"]
fn notebooks_run_without_error() {
    python(OF_TESTS, &[&PYTEST[..], &[STUDIES, TOUR]].concat());
}

#[test]
#[ignore = "of .ci/long python"]
fn verilog_design_has_a_python_driver() {
    python(OF_TESTS, &[&PYTEST[..], &[VERILOG]].concat());
}

#[test]
#[ignore = "of .ci/long python"]
fn types_are_correct() {
    python(OF_TYPES, &[&PYTEST[..], &[TYPES]].concat());
}

#[test]
#[ignore = "wants Ray"]
fn sweeps_run_on_ray() {
    python(OF_CLUSTERS, &[&PYTEST[..], &["-s", "crates/python/tests/cluster"]].concat());
}

/// Passes many random TLPs through both codecs. `RISER_TLPS` sets their number per test.
#[test]
#[ignore = "wants cocotb and cocotbext-pcie"]
fn tlps_agree_with_cocotbext_pcie() {
    python(OF_BENCHES, &[&PYTEST[..], &["crates/python/tests/test_cocotbext.py"]].concat());
}

#[test]
#[ignore = "boots a kernel"]
fn python_device_works_below_a_guest_kernel() {
    let page = ["crates/python/tests/test_devices_page.py", "-k", "guest", "--guest"];
    python(OF_TESTS, &[&PYTEST[..], &page].concat());
}
