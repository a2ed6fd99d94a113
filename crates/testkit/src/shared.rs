// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Slow results that many tests need: libraries, kernel modules, designs, boots. `cargo nextest` runs each test in its own process, so tests share
//! these results through files. Never shares between two runs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

/// Folders of runs older than this are removed. No run takes that long.
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the folder that `make` has filled. The first test of a run that needs `name` calls `make` with an empty
/// folder. The other tests wait for it, and get the same folder. A run is one call of `cargo nextest run`, or one test
/// executable under `cargo test`.
///
/// # Errors
/// The error of `make`, for every test that calls this: for example the reason why a tool cannot be installed.
pub fn once(name: &str, make: impl FnOnce(&Path) -> Result<(), String>) -> Result<PathBuf, String> {
    let run = run_folder();
    let folder = run.join(name);
    let (done, failed) = (run.join(format!("{name}.done")), run.join(format!("{name}.failed")));
    let lock = File::create(run.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    if done.exists() {
        return Ok(folder);
    }
    if let Ok(why) = fs::read_to_string(&failed) {
        return Err(why);
    }
    // A test that panicked in `make` may have left a partial folder.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    match make(&folder) {
        Ok(()) => File::create(done).map(drop).unwrap(),
        Err(why) => {
            fs::write(failed, &why).unwrap();
            return Err(why);
        }
    }
    Ok(folder)
}

/// Returns the process whose end is the end of this run: nextest, or this test executable.
pub fn runner() -> u32 {
    match std::env::var_os("NEXTEST_RUN_ID") {
        Some(_) => std::os::unix::process::parent_id(),
        None => std::process::id(),
    }
}

/// Name of this run: nextest's ID, or for `cargo test` the process and its time, because process IDs repeat.
fn run_name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let own = || {
            let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            format!("process-{}-{}", std::process::id(), time.as_nanos())
        };
        std::env::var("NEXTEST_RUN_ID").unwrap_or_else(|_| own())
    })
}

/// Folder of this run.
fn run_folder() -> PathBuf {
    let all = crate::tmp().join("shared");
    let folder = all.join(run_name());
    if !folder.exists() {
        fs::create_dir_all(&folder).unwrap();
        remove_old_runs(&all);
    }
    folder
}

fn remove_old_runs(all: &Path) {
    let is_old = |run: &fs::DirEntry| {
        let modified = run.metadata().and_then(|metadata| metadata.modified());
        // If the clock was set back, the age is unknown and the folder stays.
        modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > MAX_AGE))
    };
    let runs = fs::read_dir(all).unwrap().filter_map(Result::ok);
    // Two tests may remove the same folder.
    runs.filter(is_old).for_each(|run| _ = fs::remove_dir_all(run.path()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Returns a name that no other call uses.
    fn own(name: &str) -> String {
        format!("{name}-{}", std::process::id())
    }

    #[test]
    fn makes_a_result_once_for_many_threads() {
        let made = AtomicU32::new(0);
        let make = |folder: &Path| {
            made.fetch_add(1, Ordering::Relaxed);
            fs::write(folder.join("result"), "7").unwrap();
            Ok(())
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let folder = once(&own("made-once"), make).unwrap();
                    assert_eq!(fs::read_to_string(folder.join("result")).unwrap(), "7");
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
    }

    #[test]
    fn gives_the_first_error_to_all() {
        assert_eq!(once(&own("failed"), |_| Err("no compiler".to_owned())), Err("no compiler".to_owned()));
        assert_eq!(once(&own("failed"), |_| Ok(())), Err("no compiler".to_owned()));
    }

    #[test]
    fn makes_the_result_again_after_a_panic() {
        let panics = |folder: &Path| {
            fs::write(folder.join("part"), "").unwrap();
            panic!("panic while making the result")
        };
        assert!(std::panic::catch_unwind(|| once(&own("half"), panics)).is_err());
        let folder = once(&own("half"), |_| Ok(())).unwrap();
        assert!(!folder.join("part").exists());
    }

    #[test]
    fn removes_runs_older_than_a_day() {
        let all = crate::tmp().join(format!("runs-{}", std::process::id()));
        for (run, hours) in [("new", 0), ("long", 23), ("old", 25)] {
            fs::create_dir_all(all.join(run)).unwrap();
            let time = SystemTime::now() - Duration::from_secs(hours * 60 * 60);
            File::open(all.join(run)).unwrap().set_modified(time).unwrap();
        }
        remove_old_runs(&all);
        let mut left: Vec<_> = fs::read_dir(&all).unwrap().map(|run| run.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["long", "new"]);
        fs::remove_dir_all(all).unwrap();
    }
}
