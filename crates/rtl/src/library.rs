// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The design of a slot, a link, a host or a switch with its library, which `riser rtl build` has made.

use crate::block::BlockKind;
use crate::build;
use crate::design::{self, Design};
use crate::loader::{Instance, LoadError, Loaded, in_folder};
use crate::model::check_link;
use plug::site::NativeCode;
use plug::{Fault, Site};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The library of a design.
pub(crate) struct LibraryFile {
    /// The file.
    pub(crate) path: PathBuf,
    /// Fingerprint that it must have.
    pub(crate) fingerprint: String,
    /// Command that builds it.
    pub(crate) command: String,
}

impl LibraryFile {
    /// Returns the library of the design in `file`, with or without waves.
    pub(crate) fn of(design: &Design, file: &Path, waves: bool) -> Result<LibraryFile, Fault> {
        let path = build::library(&design::folder(file), waves);
        let path = path.canonicalize().unwrap_or(path);
        let fingerprint = build::fingerprint(design, base(file)).map_err(at_design)?;
        let command = format!("riser rtl build {}{}", file.display(), if waves { " --waves" } else { "" });
        Ok(LibraryFile { path, fingerprint, command })
    }
}

fn base(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}

/// The fault of a design that cannot be used.
pub(crate) fn at_design(error: impl ToString) -> Fault {
    Fault::at("design", error.to_string())
}

/// Checks that the setting `design` is given.
pub(crate) fn check_given(design: &str) -> Result<(), Fault> {
    match design.is_empty() {
        true => Err(Fault::at("design", "design is missing; expected the path of a design's file")),
        false => Ok(()),
    }
}

/// Reads a design whose block is of this kind. `expected` describes the kind. Also returns the path of its file.
pub(crate) fn read_design(
    file: &str,
    site: &Site<'_>,
    kind: BlockKind,
    expected: &str,
) -> Result<(Design, PathBuf), Fault> {
    let path = site.folder.path().join(file);
    let design = Design::read(&path).map_err(at_design)?;
    if design.block.kind != kind {
        let path = path.display();
        return Err(at_design(format!("{path}: block.kind of another kind; expected {expected}")));
    }
    check_link(&design, site)?;
    Ok((design, path))
}

/// Creates the design from its library, in its working folder.
pub(crate) fn create(
    loaded: &Rc<Loaded>,
    design: &Design,
    file: &Path,
    seed: u64,
) -> Result<Instance, Fault> {
    let folder = design.working_folder(base(file));
    let made = in_folder(&folder, || Instance::create(loaded, seed));
    made.map_err(|e| at_design(format!("{}: {e}", folder.display())))?.map_err(at_design)
}

/// The fault of a design in a lab whose code may not run.
pub(crate) fn refused(file: &Path) -> Fault {
    at_design(format!("{}: a lab with a design needs --allow-native", file.display()))
}

/// Loads the library of the design in `file`, if it may run. Otherwise returns why it could not be loaded.
pub(crate) fn instance_of(
    design: &Design,
    file: &Path,
    site: &Site<'_>,
) -> Result<(Option<Instance>, Option<LoadError>), Fault> {
    let library = LibraryFile::of(design, file, false)?;
    match site.native {
        NativeCode::Allowed => {
            let loaded = Loaded::open(&library).map_err(at_design)?;
            Ok((Some(create(&loaded, design, file, site.seed)?), None))
        }
        NativeCode::NotLoaded => Ok((None, Loaded::look(&library).err())),
        NativeCode::Refused => Err(refused(file)),
    }
}
