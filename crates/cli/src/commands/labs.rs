// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the lab files that commands take, also from standard input. The checks are in `riser-lab`.

use crate::{Failure, input};
use lab::{FileErrors, Folder, LabFile, Overrides};
use plug::Models;
use plug::file::text_of;
use plug::site::NativeCode;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Maximum size of a lab in bytes. Protects against input without end.
const MAX_BYTES: u64 = 16 << 20;

/// Settings that replace values of a lab file.
#[derive(clap::Args)]
pub(crate) struct Set {
    /// Set a key of the lab, such as slot.nic.link.gen=4; can be given several times
    ///
    /// KEY is any key of the lab, preceded by its tables and separated by dots. The name or the index from 0 selects an
    /// element of a list. The index after the last element adds an element. Keys that are not in the file are added.
    /// VALUE is written as in the file; a VALUE that is not valid TOML is a string. Relative paths start from the
    /// folder of the lab file.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    given: Vec<String>,
}

impl Set {
    /// Returns the settings in the form that the library takes.
    pub(super) fn overrides(&self) -> Overrides {
        Overrides::new(&self.given)
    }
}

/// Permission for native code.
#[derive(clap::Args, Clone, Copy)]
pub(crate) struct Native {
    /// Allow libraries that the lab names to run: native code with all rights of riser
    #[arg(long)]
    allow_native: bool,
}

impl Native {
    /// Returns the permission in the form that the library takes.
    pub(super) fn leave(self) -> NativeCode {
        NativeCode::allowed(self.allow_native)
    }
}

/// Settings of a lab, and permission for its native code.
#[derive(clap::Args)]
pub(crate) struct LabOptions {
    #[command(flatten)]
    pub(super) set: Set,

    #[command(flatten)]
    pub(super) native: Native,
}

/// A lab as text.
pub(super) struct LabText {
    /// Name in messages and reports.
    pub(super) name: PathBuf,
    pub(super) text: String,
    /// Folder in which its relative paths start.
    pub(super) folder: Folder,
}

/// Reads the lab at `path` or, for `-`, on standard input, whose relative paths start from the current folder.
pub(super) fn text(path: &Path) -> Result<LabText, Failure> {
    let (name, mut bytes) = (input::name(path).to_owned(), Vec::new());
    let read = input::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes).and_then(check);
    let text = read.and_then(|()| text_of(bytes)).map_err(|e| files::failed(&name, &e))?;
    let folder = if input::is_standard(path) { Folder::default() } else { Folder::of(path) };
    Ok(LabText { name, text, folder })
}

fn check(bytes: usize) -> io::Result<()> {
    let legal = || io::Error::other(format!("larger than {MAX_BYTES} bytes, the maximum of a lab"));
    if bytes as u64 > MAX_BYTES { Err(legal()) } else { Ok(()) }
}

impl LabText {
    /// Parses and checks the lab for these models, with `overrides` applied.
    pub(super) fn parse(
        &self,
        models: &Models,
        folder: Folder,
        overrides: &Overrides,
    ) -> Result<LabFile, Failure> {
        lab::parse_with(models, &self.name, &self.text, folder, overrides).map_err(refused)
    }
}

/// Errors of a lab file as a failed run, or errors of only its settings as wrong usage.
pub(super) fn refused(errors: FileErrors) -> Failure {
    match errors.is_of_settings() {
        true => Failure::usage(errors),
        false => Failure::Run(errors.to_string()),
    }
}

/// Reads the lab at `path` or on standard input, with `set` applied. Returns it with its name.
pub(super) fn read(models: &Models, path: &Path, set: &Set) -> Result<(LabFile, String), Failure> {
    let lab = text(path)?;
    Ok((lab.parse(models, lab.folder.clone(), &set.overrides())?, lab.name.display().to_string()))
}
