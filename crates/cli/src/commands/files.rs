// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that commands write: never over one that is there, unless asked.

use crate::failure::Failure;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

/// Refuses to write to `path` where it is `input`, by whatever name.
pub(crate) fn not_the_input(path: &Path, input: &Path) -> Result<(), Failure> {
    match (fs::canonicalize(path), fs::canonicalize(input)) {
        (Ok(out), Ok(input)) if out == input => {
            Err(Failure::usage(format!("{} is an input of this run: it is not overwritten", path.display())))
        }
        _ => Ok(()),
    }
}

/// Creates `path`, and the folders above it.
pub(crate) fn create(path: &Path, force: bool) -> Result<File, Failure> {
    if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(|e| failed(folder, &e))?;
    }
    let mut options = OpenOptions::new();
    options.write(true);
    if force {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    options.open(path).map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::Run(format!("{} exists: --force overwrites it", path.display()))
        }
        _ => failed(path, &e),
    })
}

pub(crate) fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::Run(format!("{}: {error}", path.display()))
}
