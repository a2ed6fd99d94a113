// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds designs of `rtl/pcie_stack` in a temporary folder, and runs labs with them.

use fabric::{Limits, Stop};
use lab::{BuildOptions, LabFile, parse};
use plug::site::NativeCode;
use riser_worlds::models;
use session::Session;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Whether Verilator is there. If it is not, the test is skipped.
pub(crate) fn has_verilator() -> bool {
    let is_there = Command::new("verilator").arg("--version").output().is_ok();
    if !is_there {
        println!("skipped: no verilator");
    }
    is_there
}

/// Copies the RTL to `folder`.
pub(crate) fn copy(folder: &Path) {
    let from = testkit::root().join("rtl/pcie_stack");
    for part in ["", "lab"] {
        fs::create_dir_all(folder.join(part)).unwrap();
        for entry in fs::read_dir(from.join(part)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "sv" || e == "svh" || e == "toml") {
                fs::copy(&path, folder.join(part).join(path.file_name().unwrap())).unwrap();
            }
        }
    }
}

/// Copies the RTL to `folder`, and builds the libraries of these designs.
pub(crate) fn build(folder: &Path, designs: &[&str]) {
    copy(folder);
    for design in designs {
        let file = folder.join("lab").join(design);
        rtl::build(&file, &rtl::Options::default(), &mut |_| {}).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Reads the text of a lab.
pub(crate) fn file(folder: &Path, text: &str) -> Result<LabFile, String> {
    let lab = parse(&models(), &folder.join("lab.toml"), text).map_err(|e| e.to_string())?;
    Ok(LabFile { lab, base: folder.into() })
}

/// Runs a lab to its end; returns the session.
pub(crate) fn run(folder: &Path, text: &str) -> Session {
    let file = file(folder, text).unwrap_or_else(|e| panic!("{e}"));
    let mut session = Session::with(&file, BuildOptions::native(NativeCode::Allowed)).unwrap();
    let stop = session.fabric.run(Limits::default());
    assert_eq!(stop, Stop::Finished, "{text}");
    session
}
