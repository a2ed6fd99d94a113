// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A folder of parts that several runs share. A part is there whole, or not at all: it is made in a folder of its own and then
//! renamed, under a lock that ends with its holder.

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

/// How long to wait before a lock is tried again.
const AGAIN: Duration = Duration::from_millis(100);

/// The user's way to another cache, for error messages.
const OTHER: &str = "--cache DIR or XDG_CACHE_HOME names another folder";

/// The lock of those who add or remove parts.
pub(super) const LOCK: &str = "lock";

/// Shared lock of a part's folder. The part is not removed while a clone of it exists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Use(Option<Arc<File>>);

/// A part that is there, whole.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) folder: PathBuf,
    pub(crate) used: Use,
}

impl Use {
    /// Locks a folder. Returns `None` if there is no such folder.
    pub(super) fn of(folder: &Path) -> Option<Use> {
        let file = File::open(folder).ok()?;
        // A file system without locks has parts all the same.
        let _ = flock(&file, FlockOperation::LockShared);
        let same = |found: fs::Metadata| Some(found.is_dir() && found.ino() == file.metadata().ok()?.ino());
        // It may have been removed before it was locked.
        fs::metadata(folder).ok().and_then(same)?.then(|| Use(Some(Arc::new(file))))
    }

    /// Records the time of the use, if this user may.
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
    /// The cache in this folder, which is made when it is first written to.
    pub fn new(folder: impl Into<PathBuf>) -> Cache {
        let folder = folder.into();
        // apt is run in another folder.
        Cache { folder: std::path::absolute(&folder).unwrap_or(folder) }
    }

    /// The user's cache: `riser` in `$XDG_CACHE_HOME`, or else in `~/.cache`.
    ///
    /// # Errors
    /// Neither XDG_CACHE_HOME nor HOME names a folder.
    pub fn of_user() -> Result<Cache> {
        let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let caches = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
        let caches = caches.ok_or(Error::Option(
            "no folder to keep a guest's parts in: neither XDG_CACHE_HOME nor HOME is an absolute path"
                .to_owned(),
        ))?;
        Ok(Cache::new(caches.join("riser")))
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns a part if it is there, and records that it is used.
    pub(super) fn get(&self, name: &str) -> Option<Part> {
        let folder = self.folder.join(name);
        let used = Use::of(&folder)?;
        used.record();
        Some(Part { folder, used })
    }

    /// Returns a part, which `fill` makes if it is not there yet.
    ///
    /// # Errors
    /// Those of `fill`, and of the system; nothing is left behind.
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
        // Another run may have made it meanwhile.
        if let Some(found) = self.get(name) {
            return Ok(found);
        }
        self.clean()?;
        let unfinished = self.folder.join(format!("{UNFINISHED}{name}"));
        fs::create_dir(&unfinished).context(|| unfinished.display().to_string())?;
        // The lock stays when the folder is renamed.
        let used = Use::of(&unfinished).unwrap_or_default();
        let filled = fill(&unfinished, watch).and_then(|()| sync(&unfinished));
        let whole = self.folder.join(name);
        let done =
            filled.and_then(|()| fs::rename(&unfinished, &whole).context(|| whole.display().to_string()));
        match done {
            Ok(()) => Ok(Part { folder: whole, used }),
            Err(error) => {
                // What cannot be removed now, the next run removes.
                let _ = fs::remove_dir_all(&unfinished);
                Err(error)
            }
        }
    }

    fn cannot_write(&self) -> String {
        format!("cannot write the cache {} ({OTHER})", self.folder.display())
    }

    /// Refuses a cache on a file system that is mounted `noexec`.
    pub(super) fn check_programs(&self) -> Result<()> {
        let there = self.folder.ancestors().find(|path| path.exists()).unwrap_or(&self.folder);
        // If the call fails, the first program that is started shows it.
        let is_noexec = statvfs(there).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::NOEXEC));
        match is_noexec {
            true => Err(self.refused("its file system is mounted noexec, so that no program of it can run")),
            false => Ok(()),
        }
    }

    /// Refuses a path with a separator of the loader's `--library-path` (ld.so(8)).
    pub(super) fn check_list(&self) -> Result<()> {
        // QEMU starts by its real path.
        let real = self.folder.canonicalize().unwrap_or(self.folder.clone());
        match real.as_os_str().as_encoded_bytes().iter().any(|byte| b":;".contains(byte)) {
            true => Err(self.refused("the loader of QEMU takes no path with `:` or `;`")),
            false => Ok(()),
        }
    }

    fn refused(&self, why: &str) -> Error {
        Error::Option(format!("the cache {}: {why}; {OTHER}", self.folder.display()))
    }

    /// Removes unfinished parts that killed runs left. The caller holds the lock, so no other run is filling one.
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

    /// Takes a lock of the folder's, which ends with its holder. Others who wait for it read `work`, what its holder does.
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
    // Other versions write nothing there.
    let _ = File::open(lock).and_then(|file| file.take(1000).read_to_string(&mut said));
    if said.is_empty() { "another run that fetches".to_owned() } else { said }
}

/// Writes the file system of a folder to disk, so that a part is complete even after a power failure.
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
    fn a_part_is_made_once_by_whoever_comes_first() {
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
    fn what_fails_leaves_nothing_and_what_was_killed_is_cleaned() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path());
        // As a run that was killed leaves it.
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
    fn who_waits_for_the_lock_can_be_stopped() {
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
