// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The folder of the sockets between `riser guest run` and QEMU.

use crate::failure::Failure;
use std::env;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Longest path of the folder in bytes: the path of a socket has at most 107 (unix(7)).
const LONGEST: usize = 60;
/// The folder's parent if the path of TMPDIR is longer.
const SHORT: &str = "/tmp";

/// Creates the folder, in TMPDIR if its path is short enough.
pub(super) fn folder() -> Result<TempDir, Failure> {
    let folder = place(env::temp_dir());
    let path = folder.display();
    if !folder.is_dir() {
        return Err(Failure::Run(format!("TMPDIR={path} does not exist; set TMPDIR to an existing folder")));
    }
    let failed = |why: &str| Failure::Run(format!("TMPDIR={path}: no folder for sockets there: {why}"));
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
        // A missing folder is kept, so that the error names it.
        assert_eq!(place(long.clone()), long);
        std::fs::create_dir(&long).unwrap();
        assert_eq!(place(long), Path::new(SHORT));
        assert_eq!(place(folder.path().to_owned()), folder.path());
    }
}
