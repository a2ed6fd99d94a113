// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measurements and captures that are not part of riser. This module never reads them.

use std::path::PathBuf;

/// Folder `name` of the data that `RISER_SHARED_DATA` names, or of `../shared/data` next to the repository. Without such a folder, prints that
/// the test is skipped and returns `None`.
pub fn shared_data(name: &str) -> Option<PathBuf> {
    let default = || crate::root().join("../shared/data");
    let folder = std::env::var_os("RISER_SHARED_DATA").map_or_else(default, PathBuf::from).join(name);
    if !folder.is_dir() {
        eprintln!("skipped: no folder {}", folder.display());
        return None;
    }
    Some(folder)
}
