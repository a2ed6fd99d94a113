// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists the parts in a cache and removes old ones. Never touches folders that riser did not create.

use super::Parts;
use super::apt::size;
use super::cache::{Cache, LOCK};
use super::names::{UNFINISHED, content, is_name};
use crate::error::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Returns whether riser created this folder as a part. The content of an incomplete part is unknown.
fn is_part(folder: &Path, name: &str) -> bool {
    match content(name) {
        Some(files) => files.iter().any(|file| folder.join(file).exists()),
        None => is_name(name),
    }
}

/// One part in a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name of its folder.
    pub name: String,
    /// Size of its files.
    pub bytes: u64,
    /// Time of the last use by a user who may write to the cache.
    pub last_used: SystemTime,
    /// Whether a process uses the part.
    pub in_use: bool,
}

impl Cache {
    /// Returns the parts in the order of their names. A folder without [`LOCK`] has no parts, because [`LOCK`] is
    /// created before the first part.
    ///
    /// # Errors
    /// If the folder cannot be read. A folder that does not exist has no parts.
    pub fn entries(&self) -> Result<Vec<Entry>> {
        let folder = self.folder();
        let what = || folder.display().to_string();
        let found = match fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            found => found.context(what)?,
        };
        let mut entries = Vec::new();
        if !folder.join(LOCK).is_file() {
            return Ok(entries);
        }
        for found in found {
            let found = found.context(what)?;
            let name = found.file_name().to_string_lossy().into_owned();
            let metadata = found.metadata().context(what)?;
            if metadata.is_dir() && is_part(&found.path(), &name) {
                let (bytes, in_use) = (size(&found.path()), lock(&found.path()).is_none());
                entries.push(Entry { name, bytes, last_used: metadata.modified().context(what)?, in_use });
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// Removes a part. Returns false if the part is in use.
    fn remove(&self, name: &str) -> Result<bool> {
        let folder = self.folder().join(name);
        let Some(lock) = lock(&folder) else { return Ok(false) };
        // The rename ensures that no partial folder remains under its name if this process is killed.
        let aside = match name.starts_with(UNFINISHED) {
            true => folder,
            false => {
                let aside: PathBuf = self.folder().join(format!("{UNFINISHED}{name}"));
                fs::rename(&folder, &aside).context(|| folder.display().to_string())?;
                aside
            }
        };
        drop(lock);
        fs::remove_dir_all(&aside).context(|| aside.display().to_string())?;
        Ok(true)
    }
}

/// Takes an exclusive lock of a part's folder. Returns `None` if the part is in use.
fn lock(folder: &Path) -> Option<File> {
    let file = File::open(folder).ok()?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => None,
        // On a file system without locks, uses cannot be detected.
        _ => Some(file),
    }
}

impl Parts<'_> {
    /// Removes the parts that were last used at least `unused` ago, unless a process uses them. With `dry_run`, removes nothing.
    ///
    /// Returns those parts. Parts with `in_use` were not removed.
    ///
    /// # Errors
    /// If the folder cannot be read or written.
    pub fn clean(&mut self, unused: Duration, dry_run: bool) -> Result<Vec<Entry>> {
        let cache = self.sources.cache.clone();
        let is_old = |entry: &Entry| entry.last_used.elapsed().unwrap_or_default() >= unused;
        let old = || Ok(cache.entries()?.into_iter().filter(is_old).collect::<Vec<Entry>>());
        if dry_run || old()?.is_empty() {
            return old();
        }
        let _lock = cache.lock(LOCK, "cleans the cache", &mut self.watch)?;
        let mut found = old()?;
        for entry in &mut found {
            entry.in_use = !cache.remove(&entry.name)?;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Progress, Sources};
    use super::*;

    const DAY: Duration = Duration::from_secs(86400);

    /// Creates a cache with parts of five bytes, by name and age in days, and with two other entries.
    fn cache(folder: &Path, parts: &[(&str, u32)]) -> Cache {
        fs::write(folder.join(LOCK), "").unwrap();
        for (name, age) in parts {
            let part = folder.join(name);
            let file = part.join(content(name).map_or("in".to_owned(), |files| files[0].clone()));
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "bytes").unwrap();
            File::open(&part).unwrap().set_modified(SystemTime::now() - *age * DAY).unwrap();
        }
        fs::create_dir(folder.join("verilator")).unwrap();
        fs::write(folder.join("kernel-list"), "").unwrap();
        Cache::new(folder)
    }

    fn clean(cache: &Cache, unused: Duration, dry_run: bool) -> Vec<(String, bool)> {
        let sources = Sources { cache: cache.clone(), mirror: None, keyring: None };
        let mut tell = |_: Progress<'_>| true;
        let found = Parts::new(sources, &mut tell).clean(unused, dry_run).unwrap();
        found.into_iter().map(|entry| (entry.name, entry.in_use)).collect()
    }

    fn names(cache: &Cache) -> Vec<String> {
        cache.entries().unwrap().into_iter().map(|entry| entry.name).collect()
    }

    #[test]
    fn removes_old_unused_parts() {
        let folder = tempfile::tempdir().unwrap();
        let [packages, programs] = ["packages-bash_busybox-static", "programs-busybox-static_kmod"];
        let unfinished = "unfinished-qemu-amd64";
        let parts = [("kernel-6.1", 40), (packages, 40), (programs, 20), (unfinished, 40)];
        let cache = cache(folder.path(), &parts);
        assert!(cache.entries().unwrap().iter().all(|entry| (entry.bytes, entry.in_use) == (5, false)));

        // A use updates its age and protects it.
        let kernel = cache.get("kernel-6.1").unwrap();
        assert!(cache.entries().unwrap()[0].in_use);
        let old = [(packages.to_owned(), false), (unfinished.to_owned(), false)];
        assert_eq!(clean(&cache, 30 * DAY, true), old);
        assert_eq!(names(&cache).len(), 4);
        assert_eq!(clean(&cache, 30 * DAY, false), old);
        assert_eq!(names(&cache), ["kernel-6.1", programs]);

        let all = [("kernel-6.1".to_owned(), true), (programs.to_owned(), false)];
        assert_eq!(clean(&cache, Duration::ZERO, false), all);
        assert!(kernel.folder.join("bzImage").is_file());
        drop(kernel);
        assert_eq!(clean(&cache, Duration::ZERO, false), [("kernel-6.1".to_owned(), false)]);
        assert!(folder.path().join("verilator").is_dir() && folder.path().join("kernel-list").is_file());
    }

    #[test]
    fn ignores_folders_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), &[]);
        let names_of_others = [
            "kernel-mine",
            "kernel-6.1.5",
            "packages-mine",
            "programs-old",
            "builder-bob",
            "qemu-my-build",
            "source-code",
            "linux-source-mine",
            "unfinished-thesis",
            "unfinished-kernel-mine",
        ];
        // Names that riser uses, with other content.
        let same_names = ["kernel-6.1", "qemu-amd64", "builder-6.1.0-50-amd64", "packages-busybox-static"];
        let all: Vec<_> =
            names_of_others.iter().chain(&same_names).map(|name| folder.path().join(name)).collect();
        for folder in &all {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("mine"), "").unwrap();
        }
        assert_eq!((names(&cache), clean(&cache, Duration::ZERO, false)), (vec![], vec![]));
        cache.clean().unwrap();
        assert!(all.iter().all(|folder| folder.join("mine").is_file()));

        // A folder without a lock is not a cache, even if it has copies of parts.
        fs::write(folder.path().join("kernel-6.1/bzImage"), "").unwrap();
        assert_eq!(names(&cache), ["kernel-6.1"]);
        fs::remove_file(folder.path().join(LOCK)).unwrap();
        assert_eq!((names(&cache), clean(&cache, Duration::ZERO, false)), (vec![], vec![]));
    }

    #[test]
    fn clean_keeps_part_that_is_being_created() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), &[]);
        let sources = Sources { cache: cache.clone(), mirror: None, keyring: None };
        let mut tell = |_: Progress<'_>| true;
        let mut parts = Parts::new(sources, &mut tell);
        let fill = |folder: &Path, _: &mut super::super::Watch| {
            let program = folder.join(&content("qemu-amd64").unwrap()[0]);
            fs::create_dir_all(program).unwrap();
            assert!(cache.entries().unwrap()[0].in_use);
            assert!(!cache.remove("unfinished-qemu-amd64").unwrap());
            Ok(())
        };
        let part = cache.part("qemu-amd64", &mut parts.watch, fill).unwrap();
        assert!(cache.entries().unwrap()[0].in_use);
        drop(part);
        assert!(!cache.entries().unwrap()[0].in_use);
    }

    #[test]
    fn cache_that_does_not_exist_is_empty() {
        let cache = Cache::new("/nowhere/at/all");
        assert_eq!((cache.entries().unwrap(), clean(&cache, Duration::ZERO, false)), (vec![], vec![]));
    }
}
