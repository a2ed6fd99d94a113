// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Resolves paths to files: through symbolic links and other names of the same file, also for files that do not exist yet. Never
//! writes.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

/// Maximum number of symbolic links in a row; the limit of Linux.
const MAX_LINKS: usize = 40;
/// Paths of standard output in the file system.
const STANDARD: [&str; 3] = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// Identity of a file under any of its paths.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Named {
    /// `None` for a stream.
    path: Option<PathBuf>,
    file: Option<FileId>,
}

/// Device and inode.
type FileId = (u64, u64);

/// Kinds of output paths.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// Standard output.
    Standard,
    /// A pipe or character device, which is written directly.
    Device(Option<FileId>),
    /// A file at this path, with all symbolic links resolved.
    File {
        /// Path of the existing or future file.
        path: PathBuf,
        /// The existing file.
        there: Option<FileId>,
    },
}

impl Named {
    /// Returns the file that `path` leads to; `None` if no file can exist there.
    pub(crate) fn of(path: &Path) -> Option<Named> {
        let file = fs::metadata(path).ok().as_ref().and_then(id);
        Some(Named { path: Some(resolve(path).ok()?), file })
    }

    /// Returns the file to which a stream is redirected; `None` for a terminal or similar, which any number of outputs
    /// may share.
    pub(crate) fn of_stream(about: &Metadata) -> Option<Named> {
        id(about).map(|file| Named { path: None, file: Some(file) })
    }

    pub(crate) fn is(&self, other: &Named) -> bool {
        self.path.is_some() && self.path == other.path || self.file.is_some() && self.file == other.file
    }
}

impl Target {
    /// Returns its file; `None` for a device, which any number of outputs may share.
    pub(crate) fn named(&self) -> Option<Named> {
        match self {
            Target::Standard => Some(Named { path: Some("-".into()), file: None }),
            Target::Device(file) => file.map(|file| Named { path: None, file: Some(file) }),
            Target::File { path, there } => Some(Named { path: Some(path.clone()), file: *there }),
        }
    }
}

/// Classifies an output path. `standard` is the file behind standard output.
pub(crate) fn target(path: &Path, standard: Option<&Named>) -> io::Result<Target> {
    if path == Path::new("-") || STANDARD.iter().any(|name| path == Path::new(name)) {
        return Ok(Target::Standard);
    }
    let about = match fs::metadata(path) {
        Ok(about) => about,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Ok(Target::File { path: resolve(path)?, there: None });
        }
        Err(e) => return Err(e),
    };
    let (kind, file) = (about.file_type(), id(&about));
    if kind.is_file() {
        Ok(Target::File { path: fs::canonicalize(path)?, there: file })
    } else if kind.is_fifo() && standard.is_some_and(|standard| standard.file == file) {
        Ok(Target::Standard)
    } else if kind.is_fifo() || kind.is_char_device() {
        Ok(Target::Device(file))
    } else {
        let why = "not a file, expected a file, a pipe, a character device, or `-` for standard output";
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }
}

/// Returns the identity of a file or pipe, in which writes of all holders end up. `None` for other kinds.
fn id(about: &Metadata) -> Option<FileId> {
    let kind = about.file_type();
    (kind.is_file() || kind.is_fifo()).then(|| (about.dev(), about.ino()))
}

/// Resolves all symbolic links of `path`, which need not exist.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Some(Component::Normal(name)) = path.components().next_back() else {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        };
        let place = folder(path.parent().unwrap_or(Path::new("")))?.join(name);
        match fs::read_link(&place) {
            Ok(link) => path = place.with_file_name(link),
            Err(_) => return Ok(place),
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "too many symbolic links"))
}

/// Resolves all symbolic links of a folder, which need not exist.
fn folder(path: &Path) -> io::Result<PathBuf> {
    if path.as_os_str().is_empty() {
        return fs::canonicalize(".");
    }
    match fs::canonicalize(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        done => return done,
    }
    let above = folder(path.parent().unwrap_or(Path::new("")))?;
    Ok(match path.components().next_back() {
        Some(Component::Normal(name)) => above.join(name),
        Some(Component::ParentDir) => above.parent().unwrap_or(&above).to_owned(),
        _ => above,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn scratch() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn recognizes_one_file_under_several_names() {
        let scratch = scratch();
        let at = |name: &str| scratch.path().join(name);
        fs::write(at("there"), "x").unwrap();
        fs::create_dir(at("folder")).unwrap();
        fs::hard_link(at("there"), at("hard")).unwrap();
        symlink("there", at("soft")).unwrap();
        symlink("folder", at("way")).unwrap();
        symlink("way/new", at("dangling")).unwrap();
        let is = |a: &str, b: &str| Named::of(&at(a)).unwrap().is(&Named::of(&at(b)).unwrap());
        for (a, b, same) in [
            ("there", "./there", true),
            ("there", "hard", true),
            ("there", "soft", true),
            ("there", "folder/../there", true),
            ("there", "new", false),
            ("folder/new", "way/new", true),
            ("folder/new", "dangling", true),
            ("folder/new", "folder/newer", false),
            ("none/deep/new", "none/./deep/../deep/new", true),
            ("none/deep/new", "way/../none/deep/new", true),
        ] {
            assert_eq!(is(a, b), same, "{a} and {b}");
        }
        symlink("round", at("round")).unwrap();
        assert!(Named::of(&at("round")).is_none());
    }

    #[test]
    fn classifies_output_paths() {
        let scratch = scratch();
        let of = |path: &str| target(&scratch.path().join(path), None);
        for name in STANDARD.into_iter().chain(["-"]) {
            assert_eq!(target(Path::new(name), None).unwrap(), Target::Standard, "{name}");
        }
        assert_eq!(of("/dev/null").unwrap(), Target::Device(None));
        let path = scratch.path().canonicalize().unwrap().join("new");
        assert_eq!(of("new").unwrap(), Target::File { path, there: None });
        assert!(of(".").unwrap_err().to_string().contains("expected a file, a pipe"));
        fs::write(scratch.path().join("file"), "").unwrap();
        assert!(of("file/below").is_err());
    }
}
