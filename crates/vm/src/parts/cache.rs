// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A folder of parts that several runs share. A part is there whole, or not at all: it is made in a folder of its own and then
//! renamed, under a lock that ends with its holder.

use super::Watch;
use crate::error::{Context, Error, Result};
use rustix::fs::{FlockOperation, StatVfsMountFlags, flock, statvfs, syncfs};
use rustix::io::Errno;
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// How long to wait before a lock is tried again.
const AGAIN: Duration = Duration::from_millis(100);

/// The user's way to another cache, for error messages.
const OTHER: &str = "--cache DIR or XDG_CACHE_HOME names another folder";

/// What begins the name of a part that is not whole.
const UNFINISHED: &str = "unfinished-";

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

    /// The folder of a part, if it is there.
    pub fn get(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.join(name)).filter(|path| path.is_dir())
    }

    /// The folder of a part, which `fill` fills where it is not there yet.
    ///
    /// # Errors
    /// Those of `fill`, and of the system; nothing is left behind.
    pub(super) fn part(
        &self,
        name: &str,
        watch: &mut Watch,
        fill: impl FnOnce(&Path, &mut Watch) -> Result<()>,
    ) -> Result<PathBuf> {
        if let Some(found) = self.get(name) {
            return Ok(found);
        }
        fs::create_dir_all(&self.folder).context(|| self.cannot_write())?;
        let _lock = self.lock("lock", watch)?;
        // Another run may have made it meanwhile.
        if let Some(found) = self.get(name) {
            return Ok(found);
        }
        self.clean()?;
        let unfinished = self.folder.join(format!("{UNFINISHED}{name}"));
        fs::create_dir(&unfinished).context(|| unfinished.display().to_string())?;
        let filled = fill(&unfinished, watch).and_then(|()| sync(&unfinished));
        let whole = self.folder.join(name);
        let done =
            filled.and_then(|()| fs::rename(&unfinished, &whole).context(|| whole.display().to_string()));
        match done {
            Ok(()) => Ok(whole),
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

    /// Removes what runs have left that were killed. Under the lock nobody is at work.
    fn clean(&self) -> Result<()> {
        let what = || self.folder.display().to_string();
        for entry in fs::read_dir(&self.folder).context(what)? {
            let entry = entry.context(what)?;
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                fs::remove_dir_all(entry.path()).context(|| entry.path().display().to_string())?;
            }
        }
        Ok(())
    }

    /// A lock of the folder's, by its name; the system gives it back when its holder ends, in whatever way.
    pub(super) fn lock(&self, name: &str, watch: &mut Watch) -> Result<File> {
        let path = self.folder.join(name);
        let what = || path.display().to_string();
        let file = File::options().create(true).append(true).open(&path);
        let file = file.context(|| self.cannot_write())?;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(file),
                Err(Errno::WOULDBLOCK) => {
                    watch.step("waiting for another run that fetches")?;
                    thread::sleep(AGAIN);
                }
                Err(e) => return Err(e).context(what),
            }
        }
    }
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
                    assert!(found.join("whole").is_file());
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
        fs::create_dir_all(folder.path().join("unfinished-b/c")).unwrap();
        let fill = |folder: &Path, _: &mut Watch| {
            fs::write(folder.join("half"), "").context(String::new)?;
            Err(Error::Stopped)
        };
        let failed = watch(|watch| cache.part("a", watch, fill));
        assert!(matches!(failed, Err(Error::Stopped)), "{failed:?}");
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["lock"]);
        assert_eq!(cache.get("a"), None);
        watch(|watch| cache.part("a", watch, |_, _| Ok(()))).unwrap();
        assert_eq!(cache.get("a"), Some(folder.path().join("a")));
    }

    #[test]
    fn who_waits_for_the_lock_can_be_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path());
        let lock = watch(|watch| cache.lock("lock", watch)).unwrap();
        let mut told = Vec::new();
        let mut tell = |progress: Progress<'_>| {
            told.push(format!("{progress:?}"));
            told.len() < 3
        };
        let mut stopping = Watch { tell: &mut tell, step: String::new() };
        assert!(matches!(cache.part("a", &mut stopping, |_, _| Ok(())), Err(Error::Stopped)));
        assert_eq!(told, ["Step(\"waiting for another run that fetches\")", "Waiting", "Waiting"]);
        drop(lock);
        watch(|watch| cache.part("a", watch, |_, _| Ok(()))).unwrap();
    }
}
