// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options for the sources and the cache of a machine's parts, and the progress of a fetch.

use crate::{Failure, output, progress};
use indicatif::{HumanBytes, ProgressBar};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use vm::{Cache, Parts, Progress, Sources};

/// Interval between two lines of progress if standard error is not a terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// Sources of parts.
#[derive(clap::Args)]
pub(super) struct SourceArgs {
    #[command(flatten)]
    cache: CacheArgs,

    /// Mirror of Debian's archive [default: the one in this machine's own package sources]
    #[arg(long, value_name = "URL", help_heading = "Parts")]
    mirror: Option<String>,

    /// Keys of Debian's archive [default: those of the package debian-archive-keyring]
    #[arg(long, value_name = "FILE", help_heading = "Parts")]
    keyring: Option<PathBuf>,
}

/// The cache of parts.
#[derive(clap::Args)]
pub(super) struct CacheArgs {
    /// Folder for cached parts [default: riser in $XDG_CACHE_HOME, or in ~/.cache]
    #[arg(long = "cache-dir", alias = "cache", value_name = "DIR", help_heading = "Parts")]
    cache: Option<PathBuf>,
}

impl SourceArgs {
    /// Fetches missing parts and shows the progress. Stops if `stop` is set.
    pub(super) fn fetch<T>(
        &self,
        stop: &AtomicBool,
        what: impl FnOnce(&mut Parts<'_>) -> vm::Result<T>,
    ) -> Result<T, Failure> {
        let sources =
            Sources { cache: self.cache.open()?, mirror: self.mirror.clone(), keyring: self.keyring.clone() };
        watched(sources, stop, what)
    }
}

impl CacheArgs {
    pub(super) fn open(&self) -> Result<Cache, Failure> {
        let cache = self.cache.clone().map_or_else(Cache::of_user, |folder| Ok(Cache::new(folder)));
        Ok(cache?)
    }

    /// Works on the cached parts and shows the progress.
    pub(super) fn work<T>(
        &self,
        stop: &AtomicBool,
        what: impl FnOnce(&mut Parts<'_>) -> vm::Result<T>,
    ) -> Result<T, Failure> {
        watched(Sources { cache: self.open()?, mirror: None, keyring: None }, stop, what)
    }
}

fn watched<T>(
    sources: Sources,
    stop: &AtomicBool,
    what: impl FnOnce(&mut Parts<'_>) -> vm::Result<T>,
) -> Result<T, Failure> {
    let bar = progress::spinner("{spinner} {msg}");
    let mut lines = Lines::default();
    let mut report = |progress: Progress<'_>| {
        match bar.is_hidden() {
            false => show(&bar, progress),
            true => lines.next(progress, Instant::now()).into_iter().for_each(output::note),
        }
        !stop.load(Ordering::Relaxed)
    };
    let done = what(&mut Parts::new(sources, &mut report));
    bar.finish_and_clear();
    Ok(done?)
}

fn show(bar: &ProgressBar, progress: Progress<'_>) {
    match progress {
        Progress::Step(step) => bar.set_message(step.to_owned()),
        Progress::Bytes { done, total } => {
            progress::measure(bar, "{spinner} {msg} {bytes}/{total_bytes}", total);
            bar.set_position(done);
        }
        _ => bar.tick(),
    }
}

/// Progress as lines: the first immediately, then one every [`BETWEEN_LINES`].
#[derive(Default)]
struct Lines {
    step: String,
    /// Bytes fetched, and their total.
    bytes: Option<(u64, u64)>,
    last: Option<Instant>,
}

impl Lines {
    /// Returns the next line if it is due.
    fn next(&mut self, progress: Progress<'_>, now: Instant) -> Option<String> {
        match progress {
            Progress::Step(step) => {
                step.clone_into(&mut self.step);
                self.bytes = None;
            }
            Progress::Bytes { done, total } => self.bytes = Some((done, total)),
            _ => {}
        }
        let is_early = self.last.is_some_and(|last| now < last + BETWEEN_LINES);
        if self.step.is_empty() || is_early {
            return None;
        }
        self.last = Some(now);
        let bytes =
            self.bytes.map(|(done, total)| format!(": {} of {}", HumanBytes(done), HumanBytes(total)));
        Some(format!("guest parts: {}{}", self.step, bytes.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_first_line_immediately_then_every_ten_seconds() {
        let (mut lines, start) = (Lines::default(), Instant::now());
        for (ms, progress, expected) in [
            (0, Progress::Waiting, None),
            (10, Progress::Step("fetching QEMU"), Some("guest parts: fetching QEMU")),
            (20, Progress::Step("fetching b (2 files)"), None),
            (9_000, Progress::Bytes { done: 1 << 20, total: 3 << 20 }, None),
            (10_010, Progress::Waiting, Some("guest parts: fetching b (2 files): 1.00 MiB of 3.00 MiB")),
            (20_000, Progress::Step("unpacking b"), None),
            (20_010, Progress::Waiting, Some("guest parts: unpacking b")),
        ] {
            let line = lines.next(progress, start + Duration::from_millis(ms));
            assert_eq!(line.as_deref(), expected, "{ms} ms");
        }
    }
}
