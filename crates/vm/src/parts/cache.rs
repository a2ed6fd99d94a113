// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A folder of parts that several runs share. A part is complete or absent: it is created in a temporary folder and then
//! renamed. This happens under a lock that ends with its holder.

use super::Watch;
use super::names::{UNFINISHED, is_name};
use crate::error::{Context, Error, Result};
use rustix::fs::{FlockOperation, StatVfsMountFlags, flock, statvfs, syncfs};
use rustix::io::Errno;
use std::env;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

/// Interval between attempts to take a lock.
const AGAIN: Duration = Duration::from_millis(100);

/// Hint in error messages how to use another cache.
const OTHER: &str = "--cache-dir DIR or XDG_CACHE_HOME sets another folder";

/// Lock for adding or removing parts.
pub(super) const LOCK: &str = "lock";

/// Shared lock of a part's folder. The part is not removed while a clone of it exists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Use(Option<Arc<File>>);

/// A complete part.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) folder: PathBuf,
    pub(crate) used: Use,
}

impl Use {
    /// Locks a folder. Returns `None` if there is no such folder.
    pub(super) fn of(folder: &Path) -> Option<Use> {
        let file = File::open(folder).ok()?;
        // On a file system without locks, the part is still usable.
        let _ = flock(&file, FlockOperation::LockShared);
        let same = |found: fs::Metadata| Some(found.is_dir() && found.ino() == file.metadata().ok()?.ino());
        // The folder may have been removed before the lock.
        fs::metadata(folder).ok().and_then(same)?.then(|| Use(Some(Arc::new(file))))
    }

    /// Records the time of use, if the user has permission.
    fn record(&self) {
        let _ = self.0.as_ref().map(|folder| folder.set_modified(SystemTime::now()));
    }
}

/// The folder of parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// Creates a cache in this folder. The folder itself is created at the first write.
    pub fn new(folder: impl Into<PathBuf>) -> Cache {
        let folder = folder.into();
        // apt runs in another folder.
        Cache { folder: std::path::absolute(&folder).unwrap_or(folder) }
    }

    /// Returns the user's cache: `riser` in `$XDG_CACHE_HOME`, or else in `~/.cache`.
    ///
    /// # Errors
    /// If neither XDG_CACHE_HOME nor HOME is an absolute path.
    pub fn of_user() -> Result<Cache> {
        let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let caches = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
        let caches = caches.ok_or(Error::Option(
            "no folder for a guest's parts: neither XDG_CACHE_HOME nor HOME is an absolute path".to_owned(),
        ))?;
        Ok(Cache::new(caches.join("riser")))
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns a part if it exists, and records its use.
    pub(super) fn get(&self, name: &str) -> Option<Part> {
        let folder = self.folder.join(name);
        let used = Use::of(&folder)?;
        used.record();
        Some(Part { folder, used })
    }

    /// Returns a part. Creates the part with `fill` if it does not exist.
    ///
    /// # Errors
    /// Errors of `fill` and of the system. An incomplete part is removed.
    pub(super) fn part(
        &self,
        name: &str,
        watch: &mut Watch,
        fill: impl FnOnce(&Path, &mut Watch) -> Result<()>,
    ) -> Result<Part> {
        if let Some(found) = self.get(name) {
            return Ok(found);
        }
        fs::create_dir_all(&self.folder).context(|| self.cannot_write())?;
        let _lock = self.lock(LOCK, &format!("fetches {name}"), watch)?;
        // Another run may have created the part before this run got the lock.
        if let Some(found) = self.get(name) {
            return Ok(found);
        }
        self.clean()?;
        let unfinished = self.folder.join(format!("{UNFINISHED}{name}"));
        fs::create_dir(&unfinished).context(|| unfinished.display().to_string())?;
        // The lock survives the rename.
        let used = Use::of(&unfinished).unwrap_or_default();
        let filled = fill(&unfinished, watch).and_then(|()| sync(&unfinished));
        let whole = self.folder.join(name);
        let done =
            filled.and_then(|()| fs::rename(&unfinished, &whole).context(|| whole.display().to_string()));
        match done {
            Ok(()) => Ok(Part { folder: whole, used }),
            Err(error) => {
                // If this fails, the next run removes the folder.
                let _ = fs::remove_dir_all(&unfinished);
                Err(error)
            }
        }
    }

    fn cannot_write(&self) -> String {
        format!("cannot write the cache {} ({OTHER})", self.folder.display())
    }

    /// Rejects a cache on a file system that is mounted `noexec`.
    pub(super) fn check_programs(&self) -> Result<()> {
        let there = self.folder.ancestors().find(|path| path.exists()).unwrap_or(&self.folder);
        // If the call fails, the first program to start will show the problem.
        let is_noexec = statvfs(there).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::NOEXEC));
        match is_noexec {
            true => {
                Err(self.refused("its file system is mounted noexec, so riser cannot run programs in it"))
            }
            false => Ok(()),
        }
    }

    /// Rejects a path with a separator of the loader's `--library-path` (ld.so(8)).
    pub(super) fn check_list(&self) -> Result<()> {
        // QEMU is started by its real path.
        let real = self.folder.canonicalize().unwrap_or(self.folder.clone());
        match real.as_os_str().as_encoded_bytes().iter().any(|byte| b":;".contains(byte)) {
            true => {
                Err(self.refused("expected a path without `:` and `;`, which QEMU's loader does not accept"))
            }
            false => Ok(()),
        }
    }

    fn refused(&self, why: &str) -> Error {
        Error::Option(format!("the cache {}: {why}; {OTHER}", self.folder.display()))
    }

    /// Removes incomplete parts of killed runs. The caller holds the lock, so no other run is filling a part.
    pub(super) fn clean(&self) -> Result<()> {
        let what = || self.folder.display().to_string();
        for entry in fs::read_dir(&self.folder).context(what)? {
            let entry = entry.context(what)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(UNFINISHED) && is_name(&name) {
                fs::remove_dir_all(entry.path()).context(|| entry.path().display().to_string())?;
            }
        }
        Ok(())
    }

    /// Takes a lock in the folder, which ends with its holder. Writes `work` into the lock, which other runs show while
    /// they wait.
    pub(super) fn lock(&self, name: &str, work: &str, watch: &mut Watch) -> Result<File> {
        let path = self.folder.join(name);
        let what = || path.display().to_string();
        let file = File::options().create(true).read(true).append(true).open(&path);
        let mut file = file.context(|| self.cannot_write())?;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) => {
                    watch.step(&format!("waiting for {} (lock {})", holder(&path), path.display()))?;
                    thread::sleep(AGAIN);
                }
                Err(e) => return Err(e).context(what),
            }
        }
        file.set_len(0).context(what)?;
        file.write_all(format!("process {}, which {work}", process::id()).as_bytes()).context(what)?;
        Ok(file)
    }
}

/// Returns what the holder of a lock has written into it.
fn holder(lock: &Path) -> String {
    let mut said = String::new();
    // Older versions do not write anything there.
    let _ = File::open(lock).and_then(|file| file.take(1000).read_to_string(&mut said));
    if said.is_empty() { "another run that fetches".to_owned() } else { said }
}

/// Writes a folder's file system to disk, so that a part is complete even after a power failure.
fn sync(folder: &Path) -> Result<()> {
    let what = || folder.display().to_string();
    syncfs(File::open(folder).context(what)?).context(what)
}

#[cfg(test)]
mod tests {
    use super::super::Progress;
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn watch<T>(work: impl FnOnce(&mut Watch) -> T) -> T {
        work(&mut Watch { tell: &mut |_: Progress<'_>| true, step: String::new() })
    }

    #[test]
    fn concurrent_runs_create_a_part_once() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path());
        let made = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let fill = |folder: &Path, _: &mut Watch| {
                        thread::sleep(Duration::from_millis(50));
                        made.fetch_add(1, Ordering::Relaxed);
                        fs::write(folder.join("whole"), "").context(String::new)
                    };
                    let found = watch(|watch| cache.part("a", watch, fill)).unwrap();
                    assert!(found.folder.join("whole").is_file());
                });
            }
        });
        assert_eq!(made.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn removes_failed_and_killed_parts() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path());
        // The state after a run was killed.
        fs::create_dir_all(folder.path().join("unfinished-kernel-6.1/c")).unwrap();
        let fill = |folder: &Path, _: &mut Watch| {
            fs::write(folder.join("half"), "").context(String::new)?;
            Err(Error::Stopped)
        };
        let failed = watch(|watch| cache.part("a", watch, fill));
        assert!(matches!(failed, Err(Error::Stopped)), "{failed:?}");
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["lock"]);
        assert!(cache.get("a").is_none());
        watch(|watch| cache.part("a", watch, |_, _| Ok(()))).unwrap();
        assert_eq!(cache.get("a").unwrap().folder, folder.path().join("a"));
    }

    #[test]
    fn waiting_for_the_lock_can_be_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path());
        let lock = watch(|watch| cache.lock(LOCK, "fetches b", watch)).unwrap();
        let mut told = Vec::new();
        let mut tell = |progress: Progress<'_>| {
            told.push(format!("{progress:?}"));
            told.len() < 3
        };
        let mut stopping = Watch { tell: &mut tell, step: String::new() };
        assert!(matches!(cache.part("a", &mut stopping, |_, _| Ok(())), Err(Error::Stopped)));
        let expected = format!(
            "process {}, which fetches b (lock {})",
            process::id(),
            folder.path().join(LOCK).display()
        );
        assert_eq!(told, [&format!("Step(\"waiting for {expected}\")"), "Waiting", "Waiting"]);
        drop(lock);
        watch(|watch| cache.part("a", watch, |_, _| Ok(()))).unwrap();
    }
}
