// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The DMA engine's Linux driver for tests: its sources, and programs for guests.

use crate::common::riser;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::once;

pub(crate) fn drivers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../drivers/linux")
}

/// Copies the module's sources, but not the results of earlier builds.
fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()) {
        let name = entry.file_name().unwrap();
        let is_source = entry.extension().is_some_and(|e| e == "c" || e == "h") || name == "Kbuild";
        if is_source && !name.to_string_lossy().ends_with(".mod.c") {
            fs::copy(&entry, to.join(name)).unwrap();
        }
    }
}

/// Builds the DMA engine's module for a kernel with these arguments of make, once per run. `check` checks the output of make.
///
/// # Errors
/// The parts cannot be fetched.
pub(crate) fn build(
    name: &str,
    kernel: &str,
    arguments: &[&str],
    check: impl FnOnce(&str),
) -> Result<PathBuf, String> {
    build_module(&drivers(), "riser_dma.ko", name, kernel, arguments, check)
}

/// Builds a module whose sources are in another folder, in the same way.
pub(crate) fn build_module(
    sources: &Path,
    module: &str,
    name: &str,
    kernel: &str,
    arguments: &[&str],
    check: impl FnOnce(&str),
) -> Result<PathBuf, String> {
    let folder = once(name, |folder| {
        copy(sources, folder);
        let common = ["guest", "build", folder.to_str().unwrap(), "--kernel", kernel, "--"];
        let outcome = riser(&[&common, arguments].concat());
        let cannot = ["cannot fetch", "building needs a user namespace"];
        if cannot.iter().any(|why| outcome.stderr.contains(why)) {
            return Err(outcome.stderr);
        }
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        assert_eq!(outcome.stdout, format!("{}\n", folder.join(module).display()));
        check(&outcome.stderr);
        Ok(())
    })?;
    Ok(folder.join(module))
}

/// Compiles a statically linked program for a guest, with the driver's headers.
pub(crate) fn compile(sources: &[PathBuf], to: &Path) {
    let linux = drivers();
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-o"]).arg(to);
    compiler.arg("-I").arg(&linux).arg("-I").arg(linux.join("lib")).args(sources);
    assert!(compiler.status().unwrap().success(), "{}", to.display());
}
