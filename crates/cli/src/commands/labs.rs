// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lab files that commands take, also from standard input. Never says what is wrong with one.

use crate::failure::Failure;
use crate::{input, outputs};
use lab::{FileErrors, Folder, LabFile, Overrides};
use plug::Models;
use plug::site::NativeCode;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Bytes of a lab at most: what never ends is not read.
const MAX_BYTES: u64 = 16 << 20;

/// What is set over a lab file.
#[derive(clap::Args)]
pub(crate) struct Set {
    /// Set a key over what the lab says, as slot.nic.link.gen=4; again for further ones
    ///
    /// KEY is any key of the lab, with the tables above it and dots between. An element of a list goes by its name or by
    /// its place from 0; the place behind the last one adds one. Keys that the file has not are added. VALUE is as in the
    /// file; what is no TOML value is a string. Relative paths start from the folder of the lab file, as those in it do.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    given: Vec<String>,
}

impl Set {
    /// As the library takes them.
    pub(super) fn overrides(&self) -> Overrides {
        Overrides::new(&self.given)
    }
}

/// Leave for native code.
#[derive(clap::Args, Clone, Copy)]
pub(crate) struct Native {
    /// Let libraries that the lab names run: native code, which may do all that riser itself may
    #[arg(long)]
    allow_native: bool,
}

impl Native {
    /// As the library takes it.
    pub(super) fn leave(self) -> NativeCode {
        NativeCode::allowed(self.allow_native)
    }
}

/// A lab as text.
pub(super) struct LabText {
    /// What messages and reports call it.
    pub(super) name: PathBuf,
    pub(super) text: String,
    /// Where its relative paths start.
    pub(super) folder: Folder,
}

/// The text of the lab at `path`, or on standard input, whose relative paths start from the current folder.
pub(super) fn text(path: &Path) -> Result<LabText, Failure> {
    let (name, mut text) = (input::name(path).to_owned(), String::new());
    let read = input::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text);
    read.and_then(check).map_err(|e| outputs::failed(&name, &e))?;
    let folder = if input::is_standard(path) { Folder::default() } else { Folder::of(path) };
    Ok(LabText { name, text, folder })
}

fn check(bytes: usize) -> io::Result<()> {
    let legal = || io::Error::other(format!("legal are labs of at most {MAX_BYTES} bytes"));
    if bytes as u64 > MAX_BYTES { Err(legal()) } else { Ok(()) }
}

impl LabText {
    /// The lab of these models with `overrides` over it, checked.
    pub(super) fn parse(
        &self,
        models: &Models,
        folder: Folder,
        overrides: &Overrides,
    ) -> Result<LabFile, Failure> {
        lab::parse_with(models, &self.name, &self.text, folder, overrides).map_err(refused)
    }
}

/// What is wrong with a file, or with what is set over it.
pub(super) fn refused(errors: FileErrors) -> Failure {
    match errors.is_of_settings() {
        true => Failure::usage(errors),
        false => Failure::Run(errors.to_string()),
    }
}

/// The lab at `path`, or on standard input, with `set` over it, and what it is called.
pub(super) fn read(models: &Models, path: &Path, set: &Set) -> Result<(LabFile, String), Failure> {
    let lab = text(path)?;
    Ok((lab.parse(models, lab.folder.clone(), &set.overrides())?, lab.name.display().to_string()))
}
