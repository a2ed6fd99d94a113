// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Helpers of the dissector's tests: the Lua tables, `tshark`, captures, and the comparison.

pub(crate) mod capture;
pub(crate) mod compare;
pub(crate) mod joined;
pub(crate) mod random;
pub(crate) mod story;
pub(crate) mod tables;
pub(crate) mod tshark;

use std::path::PathBuf;

/// A file or folder that is removed when the value is dropped.
pub(crate) struct TempFile {
    pub(crate) path: PathBuf,
}

impl TempFile {
    pub(crate) fn new(name: &str, bytes: &[u8]) -> TempFile {
        let file = TempFile::named(name);
        std::fs::write(&file.path, bytes).unwrap();
        file
    }

    /// An empty folder.
    pub(crate) fn folder(name: &str) -> TempFile {
        let folder = TempFile::named(name);
        std::fs::create_dir_all(&folder.path).unwrap();
        folder
    }

    fn named(name: &str) -> TempFile {
        TempFile { path: std::env::temp_dir().join(format!("riser-dissector-{name}-{}", std::process::id())) }
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path).or_else(|_| std::fs::remove_dir_all(&self.path));
    }
}
