// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that are not complete yet. They get their names when complete, and are removed if the command ends before.

use crate::interrupt;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Mode bits of a new file before the umask.
const NEW_FILE: u32 = 0o666;
/// Maximum length of a file name in bytes on Linux file systems.
const MAX_NAME: usize = 255;
/// Number of random letters in the name of an unfinished file.
const RANDOM: usize = 6;
/// End of the name of an unfinished file.
const SUFFIX: &str = ".part";

/// An unfinished file that will replace `target`.
pub(crate) struct Part {
    file: WorkFile,
    target: PathBuf,
    force: bool,
}

impl Part {
    /// Creates the unfinished file in the folder of `target`. A missing folder is created.
    ///
    /// # Errors
    /// Errors of the file system; another run is writing `target`.
    pub(crate) fn begin(target: PathBuf, force: bool) -> io::Result<Part> {
        let folder = target.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder)?;
        let prefix = prefix(target.file_name().unwrap_or_default());
        let file = WorkFile::begin(folder, &prefix, SUFFIX)?;
        // Failure is ignored: some file systems have no locks.
        let _ = flock(file.file()?, FlockOperation::NonBlockingLockExclusive);
        if others(folder, &prefix)?.any(|path| path != file.path() && is_locked(&path)) {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "another run is writing this file"));
        }
        if let Ok(old) = fs::metadata(&target) {
            file.file()?.set_permissions(old.permissions())?;
        }
        Ok(Part { file, target, force })
    }

    /// Returns the file to write to.
    ///
    /// # Errors
    /// The file has been finished.
    pub(crate) fn file(&self) -> io::Result<&File> {
        self.file.file()
    }

    /// Renames the file to its target.
    ///
    /// # Errors
    /// Errors of the file system; a new file at the target without `force`.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        let path = self.file.path().to_owned();
        let Some(file) = self.file.0.take() else { return Ok(()) };
        let named = match self.force {
            true => file.persist(&self.target),
            false => file.persist_noclobber(&self.target),
        };
        interrupt::forget(&path);
        named.map(drop).map_err(|e| e.error)
    }
}

/// Start of the name of an unfinished file, before the random letters: as much of the target's name as fits.
fn prefix(name: &OsStr) -> OsString {
    let bytes = name.as_bytes();
    let mut end = bytes.len().min(MAX_NAME - 1 - RANDOM - SUFFIX.len());
    // Do not cut within a character.
    while end < bytes.len() && end > 0 && bytes[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    let mut prefix = OsStr::from_bytes(&bytes[..end]).to_os_string();
    prefix.push(".");
    prefix
}

/// Returns the unfinished files with this prefix, including those of killed runs.
fn others(folder: &Path, prefix: &OsStr) -> io::Result<impl Iterator<Item = PathBuf>> {
    let prefix = prefix.as_bytes().to_owned();
    let is_one = move |name: &[u8]| {
        let random = name.strip_prefix(&*prefix).and_then(|rest| rest.strip_suffix(SUFFIX.as_bytes()));
        random.is_some_and(|random| random.len() == RANDOM)
    };
    let entries = fs::read_dir(folder)?.flatten();
    Ok(entries.filter(move |entry| is_one(entry.file_name().as_bytes())).map(|entry| entry.path()))
}

/// True if a running process writes this file.
fn is_locked(path: &Path) -> bool {
    let tried = File::open(path).map(|file| flock(file, FlockOperation::NonBlockingLockShared));
    matches!(tried, Ok(Err(Errno::WOULDBLOCK)))
}

/// Removes the unfinished files of killed runs that were writing `target`. Files that a running process writes stay, and
/// so do files whose lock cannot be read.
pub(crate) fn remove_leftovers(target: &Path) {
    let folder = target.parent().unwrap_or(Path::new("/"));
    let is_free = |path: &PathBuf| {
        File::open(path).is_ok_and(|file| flock(file, FlockOperation::NonBlockingLockShared).is_ok())
    };
    let prefix = prefix(target.file_name().unwrap_or_default());
    let parts = others(folder, &prefix);
    // A file that cannot be removed does no harm.
    parts.into_iter().flatten().filter(is_free).for_each(|path| _ = fs::remove_file(path));
}

/// A file that is removed when the command ends, even by a signal.
pub struct WorkFile(Option<NamedTempFile>);

impl WorkFile {
    /// Creates a file in the system's temporary folder.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn new() -> io::Result<WorkFile> {
        WorkFile::begin(&std::env::temp_dir(), OsStr::new("riser."), "")
    }

    fn begin(folder: &Path, prefix: &OsStr, suffix: &str) -> io::Result<WorkFile> {
        interrupt::watch()?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(prefix).suffix(suffix).rand_bytes(RANDOM);
        // The lock is held until the file is in the list. So when a signal comes, the file either is in the list or
        // does not exist yet.
        let mut unfinished = interrupt::unfinished();
        // The system's error without the temporary name, which the user does not know.
        let mut code = None;
        let open = |path: &Path| {
            let mut options = OpenOptions::new();
            let made = options.read(true).write(true).create_new(true).mode(NEW_FILE).open(path);
            made.inspect_err(|e| code = e.raw_os_error())
        };
        let file = builder.make_in(folder, open).map_err(|e| code.map_or(e, io::Error::from_raw_os_error))?;
        unfinished.push(file.path().to_owned());
        Ok(WorkFile(Some(file)))
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        self.0.as_ref().map_or(Path::new(""), NamedTempFile::path)
    }

    fn file(&self) -> io::Result<&File> {
        let ended = || io::Error::other("the file has been finished");
        self.0.as_ref().map(NamedTempFile::as_file).ok_or_else(ended)
    }
}

impl Drop for WorkFile {
    fn drop(&mut self) {
        interrupt::forget(self.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_of_long_name_leaves_room_for_suffix() {
        let of = |name: &str| prefix(OsStr::new(name)).into_string().unwrap();
        assert_eq!(of("z.pcapng"), "z.pcapng.");
        assert_eq!(of(&"x".repeat(243)), "x".repeat(243) + ".");
        assert_eq!(of(&"x".repeat(255)), "x".repeat(243) + ".");
        // 242 bytes, then a character that would exceed the limit.
        assert_eq!(of(&("x".repeat(242) + "éé")), "x".repeat(242) + ".");
    }

    #[test]
    fn error_omits_temporary_file_name() {
        let none = Path::new("/none/of/these");
        let error = WorkFile::begin(none, OsStr::new("x."), SUFFIX).err().map(|e| e.to_string());
        assert_eq!(error.as_deref(), Some("No such file or directory (os error 2)"));
    }
}
