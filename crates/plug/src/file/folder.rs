// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The folder that a lab's relative paths start from, or a kept copy of the files that the lab names.

use rustix::fs::{FlockOperation, flock};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of bytes of all files kept of one lab.
pub const MAX_KEPT_BYTES: usize = 64 << 20;
/// Maximum number of files kept of one lab.
pub const MAX_KEPT_FILES: usize = 256;

/// Files by their names in a lab.
pub type KeptFiles = BTreeMap<String, Vec<u8>>;

/// Source of the files that a lab names. Clones of a folder that keeps files share them.
#[derive(Clone, Debug, Default)]
pub struct Folder {
    path: PathBuf,
    source: Source,
    named: Arc<Mutex<BTreeSet<String>>>,
}

#[derive(Clone, Debug, Default)]
enum Source {
    /// Reads from the file system.
    #[default]
    Disk,
    /// Reads each file once from the file system, and stores it.
    Keeping(Arc<Mutex<KeptFiles>>),
    /// Reads only kept files.
    Kept(Arc<KeptFiles>),
}

/// A file that stores a device's contents.
pub enum Image {
    /// The file itself.
    File(File),
    /// The file's contents at the time when a run was recorded.
    Kept(Vec<u8>),
}

impl From<&str> for Folder {
    fn from(path: &str) -> Folder {
        Folder::from(PathBuf::from(path))
    }
}

impl From<PathBuf> for Folder {
    fn from(path: PathBuf) -> Folder {
        Folder { path, ..Folder::default() }
    }
}

impl From<&Path> for Folder {
    fn from(path: &Path) -> Folder {
        Folder::from(path.to_owned())
    }
}

impl Folder {
    /// Returns the folder of a lab file.
    pub fn of(lab: &Path) -> Folder {
        Folder::from(lab.parent().unwrap_or(Path::new("")))
    }

    /// Makes the folder read each file once and store it: see [`kept`](Self::kept).
    #[must_use]
    pub fn keeping(self) -> Folder {
        Folder { source: Source::Keeping(Arc::default()), ..self }
    }

    /// Returns a folder that serves `files` instead of the folder at `path`. Other files do not exist.
    pub fn of_kept(path: &Path, files: KeptFiles) -> Folder {
        Folder { path: path.to_owned(), source: Source::Kept(Arc::new(files)), ..Folder::default() }
    }

    /// Returns the path of the folder, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the paths of all files that were requested so far, also through clones.
    pub fn named(&self) -> Vec<PathBuf> {
        let named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        named.iter().map(|name| self.path.join(name)).collect()
    }

    fn note(&self, name: &str) {
        self.named.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
    }

    /// Returns the files read so far, if the folder keeps them; otherwise an empty map.
    pub fn kept(&self) -> KeptFiles {
        match &self.source {
            Source::Disk => KeptFiles::new(),
            Source::Keeping(files) => files.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            Source::Kept(files) => KeptFiles::clone(files),
        }
    }

    /// Opens the file that a lab calls `name`.
    ///
    /// # Errors
    /// Errors of the file system. If files are kept, also too many or too large files.
    pub fn open(&self, name: &str) -> io::Result<Box<dyn Read>> {
        self.note(name);
        match &self.source {
            Source::Disk => Ok(Box::new(File::open(self.path.join(name))?)),
            _ => Ok(Box::new(io::Cursor::new(self.read(name, MAX_KEPT_BYTES as u64)?))),
        }
    }

    /// Opens the file that a lab calls `name` for reading and writing, with an exclusive lock. If the folder keeps files, the
    /// current contents are kept. For kept contents, an [`Image::Kept`] is returned, and writes to it do not reach a file.
    ///
    /// # Errors
    /// As [`read`](Self::read). Also if the path is not a regular file, or is already locked by this method.
    pub fn open_image(&self, name: &str) -> io::Result<Image> {
        self.note(name);
        if !matches!(self.source, Source::Disk) {
            let contents = self.read(name, MAX_KEPT_BYTES as u64)?;
            if matches!(self.source, Source::Kept(_)) {
                return Ok(Image::Kept(contents));
            }
        }
        let path = self.path.join(name);
        // Checked before opening: opening a pipe for writing would block, and a folder cannot be opened.
        if !fs::metadata(&path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let file = File::options().read(true).write(true).open(&path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            io::Error::new(io::ErrorKind::ResourceBusy, "it is in use by another device or run")
        })?;
        Ok(Image::File(file))
    }

    /// Reads the whole file that a lab calls `name`. Endless files, such as devices, are rejected.
    ///
    /// # Errors
    /// As [`open`](Self::open). Also if the path is not a regular file, or the file has more than `most` bytes.
    pub fn read(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        self.note(name);
        let bytes = match &self.source {
            Source::Disk => return read_file(&self.path.join(name), most),
            Source::Keeping(files) => {
                let files = &mut *files.lock().unwrap_or_else(PoisonError::into_inner);
                if !files.contains_key(name) {
                    let bytes = read_file(&self.path.join(name), most)?;
                    check_room(files, bytes.len())?;
                    files.insert(name.to_owned(), bytes);
                }
                files.get(name).cloned()
            }
            Source::Kept(files) => files.get(name).cloned(),
        };
        let none = || io::Error::new(io::ErrorKind::NotFound, "not among the kept files");
        bytes.filter(|bytes| bytes.len() as u64 <= most).ok_or_else(none)
    }
}

fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let about = fs::metadata(path)?;
    if !about.is_file() || about.len() > most {
        return Err(too_large(format!("not a file of at most {most} bytes")));
    }
    let mut bytes = Vec::with_capacity(about.len() as usize);
    // The file may have grown since the check.
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(too_large(format!("not a file of at most {most} bytes")));
    }
    Ok(bytes)
}

fn check_room(files: &KeptFiles, more: usize) -> io::Result<()> {
    let bytes = files.values().map(Vec::len).sum::<usize>() + more;
    if bytes > MAX_KEPT_BYTES || files.len() >= MAX_KEPT_FILES {
        let (count, most) = (files.len() + 1, MAX_KEPT_FILES);
        return Err(too_large(format!(
            "the lab names {count} files of {bytes} bytes, a record holds at most {most} of {MAX_KEPT_BYTES}"
        )));
    }
    Ok(())
}

fn too_large(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_keeps_contents_of_first_read() {
        let path = std::env::temp_dir().join(format!("riser-lab-folder-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("a"), b"first").unwrap();
        let (disk, keeping) = (Folder::from(&*path), Folder::from(&*path).keeping());
        let text = |folder: &Folder, name| folder.read(name, 5).map_err(|e| e.to_string());
        assert_eq!(text(&keeping, "a"), Ok(b"first".to_vec()));
        fs::write(path.join("a"), b"then").unwrap();
        assert_eq!(text(&disk, "a"), Ok(b"then".to_vec()));
        assert_eq!(text(&keeping, "a"), Ok(b"first".to_vec()));
        fs::write(path.join("long"), b"sixsix").unwrap();
        assert_eq!(text(&disk, "long"), Err("not a file of at most 5 bytes".into()));
        assert_eq!(text(&disk, "."), Err("not a file of at most 5 bytes".into()));
        let names = |folder: &Folder| folder.clone().named();
        assert_eq!(
            (names(&keeping), names(&disk)),
            (vec![path.join("a")], [".", "a", "long"].map(|n| path.join(n)).to_vec())
        );
        let kept = Folder::of_kept(&path, keeping.kept());
        fs::remove_dir_all(&path).unwrap();
        assert_eq!(text(&kept, "a"), Ok(b"first".to_vec()));
        assert_eq!(text(&kept, "b"), Err("not among the kept files".into()));
        let mut streamed = Vec::new();
        kept.open("a").unwrap().read_to_end(&mut streamed).unwrap();
        assert_eq!(streamed, b"first");
    }

    #[test]
    fn size_of_kept_files_is_limited() {
        let mut files = KeptFiles::new();
        assert!(check_room(&files, MAX_KEPT_BYTES).is_ok());
        let error = check_room(&files, MAX_KEPT_BYTES + 1).unwrap_err().to_string();
        assert!(error.contains("a record holds at most 256 of 67108864"), "{error}");
        files.extend((0..MAX_KEPT_FILES).map(|n| (n.to_string(), Vec::new())));
        assert!(check_room(&files, 0).is_err());
    }
}
