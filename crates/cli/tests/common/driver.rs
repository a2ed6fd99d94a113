// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The DMA engine's Linux driver for tests: its sources, and programs for guests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn drivers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../drivers/linux")
}

/// Copies the module's sources, without what a build has left beside them.
pub(crate) fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()) {
        let name = entry.file_name().unwrap();
        let is_source = entry.extension().is_some_and(|e| e == "c" || e == "h") || name == "Kbuild";
        if is_source && !name.to_string_lossy().ends_with(".mod.c") {
            fs::copy(&entry, to.join(name)).unwrap();
        }
    }
}

/// Compiles a program for a guest, which has no libraries of its own for it, with the driver's library.
pub(crate) fn compile(source: &Path, to: &Path) {
    let linux = drivers();
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-o"]).arg(to);
    compiler.arg("-I").arg(&linux).arg("-I").arg(linux.join("lib"));
    compiler.arg(source).arg(linux.join("lib/libriser_dma.c"));
    assert!(compiler.status().unwrap().success(), "{}", source.display());
}
