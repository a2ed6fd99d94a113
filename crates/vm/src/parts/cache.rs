// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A folder of parts that several runs share. A part is there whole, or not at all: it is made in a folder of its own and then
//! renamed, under a lock that ends with its holder.

use super::Watch;
use crate::error::{Context, Error, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// How long to wait before a lock is tried again.
const AGAIN: Duration = Duration::from_millis(100);

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
        Cache { folder: folder.into() }
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
        fs::create_dir_all(&self.folder).context(|| self.folder.display().to_string())?;
        let _lock = self.lock(watch)?;
        // Another run may have made it meanwhile.
        if let Some(found) = self.get(name) {
            return Ok(found);
        }
        self.clean()?;
        let unfinished = self.folder.join(format!("{UNFINISHED}{name}"));
        fs::create_dir(&unfinished).context(|| unfinished.display().to_string())?;
        let filled = fill(&unfinished, watch);
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

    /// The lock of the folder; the system gives it back when its holder ends, in whatever way.
    fn lock(&self, watch: &mut Watch) -> Result<File> {
        let path = self.folder.join("lock");
        let what = || path.display().to_string();
        let file = File::options().create(true).append(true).open(&path).context(what)?;
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
