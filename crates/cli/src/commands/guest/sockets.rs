// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where `riser guest run` has the sockets by which QEMU and it meet.

use crate::failure::Failure;
use std::env;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Bytes of a folder's path that leave enough of the 107 that a socket's may have (unix(7)).
const LONGEST: usize = 60;
/// Where they are if TMPDIR is longer.
const SHORT: &str = "/tmp";

/// A new folder, in TMPDIR if that is short enough.
pub(super) fn folder() -> Result<TempDir, Failure> {
    let folder = place(env::temp_dir());
    let failed = |why: &str| {
        let path = folder.display();
        Failure::Run(format!("no folder for sockets in {path} (TMPDIR names another): {why}"))
    };
    if folder.to_str().is_none() {
        return Err(failed("a path of UTF-8 is expected"));
    }
    tempfile::tempdir_in(&folder).map_err(|e| failed(&e.to_string()))
}

fn place(folder: PathBuf) -> PathBuf {
    match folder.as_os_str().len() > LONGEST && folder.is_dir() {
        true => Path::new(SHORT).to_owned(),
        false => folder,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_tmpdir_gives_way_to_a_short_one() {
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("x".repeat(100));
        // One that is missing is told by its name.
        assert_eq!(place(long.clone()), long);
        std::fs::create_dir(&long).unwrap();
        assert_eq!(place(long), Path::new(SHORT));
        assert_eq!(place(folder.path().to_owned()), folder.path());
    }
}
